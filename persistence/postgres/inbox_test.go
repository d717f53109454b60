package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// signalOf is a signal for a run.
func signalOf(run workflow.RunID, name, id string) persistence.Signal {
	return persistence.Signal{Run: run, Name: name, ID: id, Payload: []byte(`"` + id + `"`)}
}

// signal sends signals, and returns what became of each.
func (k *fixture) signal(batch ...persistence.Signal) []persistence.SignalAnswer {
	k.t.Helper()
	out, err := k.store.SendSignals(k.ctx, batch)
	require.NoError(k.t, err)
	return out.Answers
}

// A run that another session has locked keeps its signals; those of others are delivered.
func TestSignalsOfALockedRunWait(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	runs := k.start(storetest.Approval(), "a", 3)
	for _, run := range runs {
		k.signal(signalOf(run, "reminded", "now"))
	}
	release := k.hold("select from {schema}.workflow_runs where id = $1 for update", [16]byte(runs[0]))
	out := k.drain(1)
	require.Equal(t, 1, out.Delivered, "that of the next run")
	require.NotZero(t, out.Again)
	require.True(t, out.More)
	out = k.drain(10)
	require.Equal(t, 1, out.Delivered)
	require.GreaterOrEqual(t, out.Again, quarantine.AgainMin)
	require.Zero(t, k.drain(10).Delivered)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.intake"))
	release()
	require.Equal(t, 1, k.drain(10).Delivered)
	require.Equal(t, 3, value[int](k.database, "select count(*)::int from {schema}.step_list where step = 'remind' and state = 'completed'"))
	k.requireSound()
}

// A run whose tasks are locked is told from others of its batch, and rests.
func TestSignalsOfLockedTasksAreBisected(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	runs := k.start(storetest.Approval(), "a", 3)
	for _, run := range runs {
		k.signal(signalOf(run, "reminded", "now"))
	}
	release := k.hold("select from {schema}.tasks where run_id = $1 for update", [16]byte(runs[1]))
	out := k.drain(10)
	require.Equal(t, 2, out.Delivered)
	require.GreaterOrEqual(t, out.Again, quarantine.AgainMin)
	out = k.drain(10)
	require.Zero(t, out.Delivered)
	require.GreaterOrEqual(t, out.Again, quarantine.AgainMin, "the run rests")
	release()
	require.Eventually(t, func() bool { return k.drain(10).Delivered == 1 }, time.Minute, 100*time.Millisecond)
	k.requireSound()
}

// A run whose definition is not there keeps its signals.
func TestSignalsOfAMissingDefinitionWait(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval(), storetest.Gates())
	run, other := k.start(storetest.Approval(), "a", 1)[0], k.start(storetest.Gates(), "a", 1)[0]
	k.signal(signalOf(run, "reminded", "now"), signalOf(other, "go", "now"))
	_, err := k.block(k.ctx, storetest.Blocked{Definition: storetest.Approval().Hash})
	require.NoError(t, err)
	answer := k.signal(signalOf(run, "reminded", "again"))[0]
	require.Equal(t, persistence.SignalBadRow, answer.Result)
	require.ErrorIs(t, answer.Err, persistence.ErrUnavailable)
	out := k.drain(10)
	require.Equal(t, 1, out.Delivered)
	require.NotZero(t, out.Again)
	require.Zero(t, k.drain(10).Delivered)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.inbox where n is null"))
}

// What one transaction delivers is bounded; the rest is delivered next, in order.
func TestDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	runs := k.start(storetest.Approval(), "a", 3)
	for _, run := range runs {
		k.signal(signalOf(run, "reminded", "first"))
	}
	k.exec(`insert into {schema}.inbox (run_id, id, name, at, payload)
		select $1, i::text, 'approved', now(), '' from generate_series(1, $2::int - 2) i`, [16]byte(runs[0]), deliverMax)
	out := k.drain(10)
	require.Equal(t, deliverMax, out.Delivered)
	require.True(t, out.More)
	out = k.drain(10)
	require.Equal(t, 1, out.Delivered)
	require.False(t, out.More)
	require.Equal(t, deliverMax+1, value[int](k.database, "select count(*)::int from {schema}.inbox where n > 0"))
	require.True(t, value[bool](k.database, `select bool_and(n = nth) from (
		select n, row_number() over (partition by run_id order by seq) as nth from {schema}.inbox) i`))
	k.requireSound()
}

// A sender waits for a transaction that sends a signal of the same id, and other senders do not.
// The others of its batch are stored, and answered, when it gives up.
func TestASenderWaitsForTheSameIDOnly(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	run := k.start(storetest.Approval(), "a", 1)[0]
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(k.ctx)) })
	answer, err := k.store.SendSignalInTx(k.ctx, tx, signalOf(run, "approved", "same"))
	require.NoError(t, err)
	require.Equal(t, persistence.SignalStored, answer.Result)
	require.Equal(t, persistence.SignalStored, k.signal(signalOf(run, "approved", "before"))[0].Result)
	answers := k.signal(
		signalOf(run, "approved", "a"), signalOf(run, "approved", "same"), signalOf(run, "approved", "b"), signalOf(run, "approved", "same"),
	)
	for i, want := range []persistence.SignalResult{persistence.SignalStored, persistence.SignalBusy, persistence.SignalStored, persistence.SignalBusy} {
		require.Equal(t, want, answers[i].Result)
	}
	require.ErrorIs(t, answers[1].Err, persistence.ErrConflict)
	require.Equal(t, "a b before", value[string](k.database, "select string_agg(id, ' ' order by id) from {schema}.inbox"))
	require.NoError(t, tx.Commit(k.ctx))
	require.Equal(t, persistence.SignalRepeated, k.signal(signalOf(run, "approved", "same"))[0].Result)
	require.Equal(t, 4, k.drain(10).Delivered)
}

// A signal in a serializable transaction conflicts with no signal of another one.
func TestSignalsInSerializableTransactions(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	runs := k.start(storetest.Approval(), "a", 2)
	var open []pgx.Tx
	for range runs {
		tx, err := k.user.BeginTx(k.ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(k.ctx)) })
		open = append(open, tx)
	}
	for i, tx := range open {
		for _, id := range []string{"one", "two"} {
			answer, err := k.store.SendSignalInTx(k.ctx, tx, signalOf(runs[i], "approved", id))
			require.NoError(t, err)
			require.Equal(t, persistence.SignalStored, answer.Result)
		}
		answer, err := k.store.SendSignalInTx(k.ctx, tx, signalOf(runs[i], "approved", "one"))
		require.NoError(t, err)
		require.Equal(t, persistence.SignalRepeated, answer.Result)
	}
	for _, tx := range open {
		require.NoError(t, tx.Commit(k.ctx))
	}
	require.Equal(t, 4, k.drain(10).Delivered)
}

// A payload that the database refuses leaves the transaction of its sender usable.
func TestARefusedSignalLeavesItsTransaction(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	k.limit()
	run := k.start(storetest.Approval(), "a", 1)[0]
	bad := signalOf(run, "approved", "bad")
	bad.Payload = []byte(storetest.BadPayload)
	require.NoError(t, pgx.BeginFunc(k.ctx, k.user, func(tx pgx.Tx) error {
		answer, err := k.store.SendSignalInTx(k.ctx, tx, bad)
		require.NoError(t, err)
		require.Equal(t, persistence.SignalBadRow, answer.Result)
		require.ErrorIs(t, answer.Err, persistence.ErrBadRow)
		answer, err = k.store.SendSignalInTx(k.ctx, tx, signalOf(run, "approved", "good"))
		require.Equal(t, persistence.SignalStored, answer.Result)
		return err
	}))
	require.Equal(t, 1, k.drain(10).Delivered)
	for _, tx := range []any{nil, 7, k.user} {
		_, err := k.store.SendSignalInTx(k.ctx, tx, bad)
		require.ErrorIs(t, err, persistence.ErrTxRefused)
	}
}

// A trigger on the tables of signals that leaves rows out fails what writes them.
func TestSignalsAreWrittenOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, change, result string }{
		{"inbox", "insert", "null"},
		{"intake", "insert", "null"},
		{"inbox", "update", "null"},
		{"inbox", "update", "old"},
		{"intake", "delete", "null"},
		{"task_progress", "insert", "null"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			k, pod := withPod(t, storetest.Approval())
			run := k.start(storetest.Approval(), "a", 1)[0]
			k.complete(pod, k.claim(pod, 1)...) // approve waits, with a condition on what it gets
			k.skip(c.table, c.change, c.result)
			_, err := k.store.SendSignals(k.ctx, []persistence.Signal{signalOf(run, "approved", "now")})
			if c.change == "insert" && c.table != "task_progress" {
				require.ErrorIs(t, err, persistence.ErrUnavailable)
			} else {
				require.NoError(t, err)
				_, err = k.store.DrainIntake(k.ctx, 10)
				require.ErrorIs(t, err, persistence.ErrUnavailable)
			}
			k.exec("drop function {schema}.skip() cascade")
			require.Contains(t, []persistence.SignalResult{persistence.SignalStored, persistence.SignalRepeated}, k.signal(signalOf(run, "approved", "now"))[0].Result)
			require.Equal(t, 1, k.drain(10).Delivered)
			k.requireSound()
		})
	}
}

// What does not concern signals pays nothing for them: an idle intake is asked with one
// statement, and pods are asked only about workflows that wait for signals.
func TestOthersPayNothingForSignals(t *testing.T) {
	t.Parallel()
	var seen counter
	d := openDatabase(t, Options{Tracer: &seen})
	k := newFixture(d, storetest.Chain(2), storetest.Nap(time.Hour), storetest.Approval())
	pod := k.join(time.Hour)
	keyed := func(g *workflow.Graph) []string {
		t.Helper()
		list := k.draft(g, "a", 1)
		list[0].Key = g.Name
		seen.take()
		k.ask(list...)
		return seen.take()
	}
	for _, g := range []*workflow.Graph{storetest.Chain(2), storetest.Nap(time.Hour)} {
		keyed(g)
		names := keyed(g)
		require.NotContains(t, names, "oldest_protocol")
		require.NotContains(t, names, "find_addressees")
	}
	require.Contains(t, keyed(storetest.Approval()), "oldest_protocol")
	k.complete(pod, k.claim(pod, 1)...)
	seen.take()
	k.drain(10)
	require.Equal(t, []string{"has_work_intake"}, seen.take())
}

// The view shows what became of signals, in history as before.
func TestTheViewOfSignals(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Approval())
	run := k.start(storetest.Approval(), "a", 1)[0]
	k.signal(signalOf(run, "reminded", "1"), signalOf(run, "approved", "2"))
	k.drain(10)
	k.signal(signalOf(run, "approved", "3"))
	shown := func() string {
		return value[string](k.database, `select string_agg(format('%s %s %s %s %s %s %s', workflow, tenant, name, id, state, step, payload_json), '; ' order by id)
			from {schema}.signal_list where sent_at is not null`)
	}
	require.Equal(t, `approval a reminded 1 taken remind "1"; approval a approved 2 waiting  "2"; approval a approved 3 undelivered  "3"`, shown())
	require.Equal(t, "completed, signaled", value[string](k.database, `select string_agg(distinct kind, ', ' order by kind) from {schema}.event_list
		where kind in ('signaled', 'completed') and (step is null or step = 'remind')`))
	k.drain(10)
	for _, grant := range k.claim(pod, 10) {
		if grant.Step == "ask" {
			k.complete(pod, grant)
		}
	}
	k.cancel(persistence.Cancel{Run: run, Tenant: "a"})
	require.Equal(t, lifecycle.Running, k.state(run), "note is held")
	k.exec("update {schema}.pods set expires_at = '-infinity'")
	epoch := k.bump(pod)
	k.expire(epoch, 10)
	require.Equal(t, lifecycle.Canceled, k.state(run))
	before := shown()
	require.Equal(t, 1, k.archived(epoch, persistence.Archive{}).Count)
	require.Equal(t, before, shown())
}

// A run that was stored with a signal by a transaction goes its way while its pods are busy:
// two pods that drain at once deliver each signal once.
func TestDrainsAtOnceDeliverOnce(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Gates())
	second := newFixture(openStore(t, k.user, Options{}), storetest.Gates())
	runs := k.start(storetest.Gates(), "a", 20)
	for _, run := range runs {
		k.signal(signalOf(run, "go", "1"), signalOf(run, "go", "2"))
	}
	sum := make(chan int)
	for _, s := range []*Store{k.store, second.store} {
		go func() {
			delivered := 0
			for {
				out, err := s.DrainIntake(context.WithoutCancel(k.ctx), 3)
				if err != nil || out.Delivered == 0 && !out.More {
					break
				}
				delivered += out.Delivered
			}
			sum <- delivered
		}()
	}
	first, other := <-sum, <-sum
	rest := 0
	for out := k.drain(100); out.Delivered > 0 || out.More; out = k.drain(100) {
		rest += out.Delivered
	}
	require.Equal(t, 40, first+other+rest)
	require.Equal(t, 40, value[int](k.database, "select count(*)::int from {schema}.inbox where n > 0 and taken_by is not null"))
	k.requireSound()
}

// A signal in a transaction that another pool began is refused, as a trigger is.
func TestASignalInATransactionOfAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	run := k.start(storetest.Approval(), "a", 1)[0]
	other, err := pgxpool.New(k.ctx, migrated(t))
	require.NoError(t, err)
	t.Cleanup(other.Close)
	err = pgx.BeginFunc(k.ctx, other, func(tx pgx.Tx) error {
		_, err := k.store.SendSignalInTx(k.ctx, tx, signalOf(run, "approved", "x"))
		return err
	})
	require.ErrorIs(t, err, persistence.ErrTxRefused)
}

// A payload that the disk has lost keeps only its run from its signals.
func TestASignalThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Gates())
	for _, run := range k.start(storetest.Gates(), "a", 3) {
		signal := signalOf(run, "go", "large")
		signal.Payload = []byte(noise())
		require.Equal(t, persistence.SignalStored, k.signal(signal)[0].Result)
	}
	k.lose("inbox", 1)
	require.Equal(t, 2, k.drain(10).Delivered)
	require.Equal(t, 1, k.store.quarantine.Met(quarantine.Unreadable))
	require.Zero(t, k.drain(10).Delivered)
	k.exec(`update {schema}.inbox set payload = 'null' where n is null`) // as docs/operations.md says
	k.endRests()
	require.Equal(t, 1, k.drain(10).Delivered)
	k.requireSound()
}
