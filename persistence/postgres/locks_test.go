package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// soon is less than any wait for a lock would take.
const soon = 1500 * time.Millisecond

// TestClaimWaitsForNothing holds each kind of row that a claim touches in
// another session.
func TestClaimWaitsForNothing(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	for name, c := range map[string]struct {
		lock string
		want int // grants meanwhile
	}{
		"queue row": {`select from {schema}.ready_queue order by fair_id limit 1 for update`, 2},
		"task": {`select from {schema}.tasks where run_id = (
			select run_id from {schema}.ready_queue order by fair_id limit 1) for update`, 2},
		"frontier":   {`select from {schema}.frontiers for update`, 3},
		"every task": {`select from {schema}.tasks for update`, 0},
		"counters":   {`select from {schema}.tenant_groups for update`, 3},
		"runs":       {`select from {schema}.workflow_runs for update`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			k := newFixture(open(t), g)
			k.start(g, "a", 3)
			pod := k.join(time.Hour)
			release := k.hold(c.lock)
			within(t, soon, func() { require.Len(t, k.claim(pod, 10), c.want) })
			k.requireSound()
			release()
			k.endRests()
			require.Len(t, k.claim(pod, 10), 3-c.want)
			k.requireSound()
		})
	}
}

// TestClaimOfAPodThatExpires meets an expiry under way: it neither waits nor
// grants.
func TestClaimOfAPodThatExpires(t *testing.T) {
	g := storetest.Single()
	k, pod := withPod(t, g)
	k.start(g, "a", 1)
	release := k.hold(`select from {schema}.pods for update`)
	within(t, soon, func() {
		_, err := k.store.ClaimTasks(k.ctx, k.request(pod, 1))
		require.ErrorIs(t, err, persistence.ErrConflict)
	})
	release()
	require.Len(t, k.claim(pod, 1), 1)
}

// TestRenewalDoesNotWaitForRecords renews while another session holds the lock on the pod
// that every record in flight has.
func TestRenewalDoesNotWaitForRecords(t *testing.T) {
	k, pod := withPod(t, storetest.Single())
	defer k.hold(`select from {schema}.pods for key share`)()
	within(t, soon, func() {
		k.renew(persistence.Renewal{Pod: pod, TTL: time.Hour})
	})
}

// TestBusyRunsAreLeftOut locks one run in another session: a record of many runs stores the
// others and answers Busy for this one.
func TestBusyRunsAreLeftOut(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	for name, report := range map[string]lifecycle.ReportKind{"fast": lifecycle.Succeeded, "slow": lifecycle.Errored} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			k := newFixture(open(t), g)
			k.start(g, "a", 20)
			pod := k.join(time.Hour)
			grants := k.claim(pod, 20)
			record := k.completion(pod, grants...)
			for i := range record.Transitions {
				record.Transitions[i].Report = report
			}
			release := k.hold(`select from {schema}.workflow_runs where id = $1 for update`, [16]byte(grants[7].Task.Run))
			var answers []lifecycle.Answer
			within(t, 6*time.Second, func() { answers = k.send(record) })
			for i, answer := range answers {
				if i == 7 {
					require.Equal(t, lifecycle.Busy, answer)
				} else {
					require.Equal(t, lifecycle.Moved, answer)
				}
			}
			k.requireSound()
			release()
			k.endRests()
			answers = k.send(record)
			require.Equal(t, lifecycle.Moved, answers[7])
			require.Equal(t, lifecycle.AlreadyYours, answers[6])
			k.requireSound()
		})
	}
}

// TestFrozenHolderLosesItsLocks freezes a session of the engine in the middle
// of a transaction: the database ends it, and others get the lock.
func TestFrozenHolderLosesItsLocks(t *testing.T) {
	g := storetest.Single()
	k, pod := withPod(t, g)
	k.start(g, "a", 1)
	grants := k.claim(pod, 1)
	frozen, err := k.store.Conns.Begin(k.ctx)
	require.NoError(t, err)
	defer func() { _ = frozen.Rollback(context.WithoutCancel(k.ctx)) }()
	require.NoError(t, k.store.Exec(k.ctx, frozen, "lock_runs", pgsql.Named{"runs": pgsql.UUIDs{grants[0].Task.Run}}))
	within(t, 6*time.Second, func() {
		for {
			if answers := k.send(k.completion(pod, grants...)); answers[0] == lifecycle.Moved {
				return
			}
		}
	})
	_, err = frozen.Exec(k.ctx, "select 1")
	require.Error(t, err)
}

// TestIntakeDoesNotWaitForUsers triggers in a user's transaction that stays
// open: neither triggers nor claims nor records of the same tenant wait for it.
func TestIntakeDoesNotWaitForUsers(t *testing.T) {
	g := storetest.Diamond()
	k, pod := withPod(t, g)
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(k.ctx)) }()
	for range 3 {
		draft := k.draft(g, "a", 1)[0]
		draft.Key = draft.Run.String()
		answer, err := k.store.TriggerInTx(k.ctx, tx, draft)
		require.NoError(t, err)
		require.Equal(t, persistence.Triggered, answer.Result)
	}
	within(t, soon, func() {
		k.start(g, "a", 20)
		k.finish(pod)
		out := k.drain(10)
		require.Zero(t, out.Count)
	})
	k.requireSound()
}

// TestKeyRaceInTwoUserTransactions lets two users' transactions want one key:
// the second waits for the first, and then finds its run or stores its own.
func TestKeyRaceInTwoUserTransactions(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	for name, end := range map[string]func(pgx.Tx, context.Context) error{"commit": pgx.Tx.Commit, "rollback": pgx.Tx.Rollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			k := newFixture(open(t), g)
			list := k.draft(g, "a", 2)
			list[0].Key, list[1].Key = "key", "key"
			first, err := k.user.Begin(k.ctx)
			require.NoError(t, err)
			second, err := k.user.Begin(k.ctx)
			require.NoError(t, err)
			defer func() { _ = second.Rollback(context.WithoutCancel(k.ctx)) }()
			_, err = k.store.TriggerInTx(k.ctx, first, list[0])
			require.NoError(t, err)
			answers := make(chan persistence.TriggerAnswer, 1)
			go func() {
				answer, err := k.store.TriggerInTx(k.ctx, second, list[1])
				if err != nil {
					answer.Err = err
				}
				answers <- answer
			}()
			require.Eventually(t, func() bool {
				return value[int](k.database, `select count(*) from pg_locks where locktype = 'advisory' and not granted`) > 0
			}, 30*time.Second, 10*time.Millisecond, "the second transaction waits")
			require.NoError(t, end(first, k.ctx))
			answer := <-answers
			if name == "commit" {
				require.Equal(t, persistence.TriggerAnswer{Result: persistence.Existing, Run: list[0].Run}, answer)
			} else {
				require.Equal(t, persistence.TriggerAnswer{Result: persistence.Triggered, Run: list[1].Run}, answer)
			}
		})
	}
}
