package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// why explains a run of one open step.
func (k *fixture) why(run workflow.RunID) explain.Reason {
	k.t.Helper()
	s, err := k.store.Situation(k.ctx, "a", run)
	require.NoError(k.t, err)
	reasons := explain.Explain(s)
	require.Len(k.t, reasons, 1)
	return reasons[0]
}

// TestSituationNamesWhoHoldsALock: a migration that blocks writers, one that blocks readers,
// and a transaction that was left open on the run.
func TestSituationNamesWhoHoldsALock(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	for name, c := range map[string]struct {
		hold string
		held bool
	}{
		"writers wait":   {`lock table {schema}.tasks in share mode`, true},
		"readers, too":   {`alter table {schema}.tasks add column extra int`, true},
		"a row":          {`update {schema}.tasks set class = 'mine'`, true},
		"the run's row":  {`select * from {schema}.workflow_runs for update`, true},
		"its tenant":     {`select * from {schema}.tenant_groups for update`, true},
		"something else": {`create table {schema}.unrelated as select 1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newFixture(open(t), storetest.Single())
			run := k.start(storetest.Single(), "a", 1)[0]
			k.join(time.Hour)
			require.Equal(t, explain.CauseReady, k.why(run).Cause)
			release := k.hold(c.hold)
			if !c.held {
				require.Equal(t, explain.CauseReady, k.why(run).Cause, "a new table blocks no session")
				release()
				return
			}
			var r explain.Reason
			require.Eventually(t, func() bool { // a lock is told of once it is a second old
				r = k.why(run)
				return r.Cause == explain.CauseLocked && r.Text != "" && r.Remedy != "ask again"
			}, 30*time.Second, 100*time.Millisecond)
			pid := value[int](k.database, `select pid from pg_stat_activity where query = $1 and state = 'idle in transaction'`, strings.ReplaceAll(c.hold, "{schema}", k.schema))
			require.Contains(t, r.Text, fmt.Sprintf("held by a lock of pid %d: %s", pid, explain.Short(strings.ReplaceAll(c.hold, "{schema}", k.schema))))
			require.Contains(t, r.Text, "its transaction is idle")
			require.Contains(t, r.Remedy, fmt.Sprintf("pg_terminate_backend(%d)", pid))
			release()
			require.Equal(t, explain.CauseReady, k.why(run).Cause)
		})
	}
}

// TestSituationTellsWhoMayHoldRows: claims skip locked rows, so no session waits for them.
func TestSituationTellsWhoMayHoldRows(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	run := k.start(storetest.Single(), "a", 1)[0]
	k.join(time.Hour)
	k.exec("update {schema}.tasks set queued_at = queued_at - interval '1 minute'")
	release := k.hold(`select from {schema}.ready_queue for key share`)
	var r explain.Reason
	require.Eventually(t, func() bool { // it is told of once it is a second old
		r = k.why(run)
		return r.Cause == explain.CauseLocked
	}, 30*time.Second, 100*time.Millisecond)
	require.Contains(t, r.Text, "ready for 1 m")
	require.Contains(t, r.Text, "rows of ready_queue are passed over, which may be held by pid")
	require.Contains(t, r.Text, "for key share (its transaction is idle since then)")
	release()
	require.Equal(t, explain.CauseReady, k.why(run).Cause)
}

// TestSituationTellsWhoWaits counts the sessions behind a lock.
func TestSituationTellsWhoWaits(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	run := k.start(storetest.Single(), "a", 1)[0]
	release := k.hold(`select * from {schema}.workflow_runs for update`)
	done := make(chan error, 1)
	go func() {
		err := persistence.ErrConflict // the wait for a lock is over before the answer of a busy server
		for errors.Is(err, persistence.ErrConflict) {
			_, err = k.store.CancelRun(k.ctx, persistence.Cancel{Run: run, Tenant: "a", Grace: time.Minute})
		}
		done <- err
	}()
	require.Eventually(t, func() bool {
		s, err := k.store.Situation(k.ctx, "a", run)
		require.NoError(t, err)
		return len(s.Locks) == 1 && s.Locks[0].Waiting == 1
	}, 30*time.Second, 20*time.Millisecond)
	release()
	require.NoError(t, <-done)
}

// TestSituationNamesTheFirstHolder: the session that locks a run may wait for another one.
func TestSituationNamesTheFirstHolder(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	first, second := k.start(storetest.Single(), "a", 1)[0], k.start(storetest.Single(), "b", 1)[0]
	const hold = "select from {schema}.tasks where run_id = $1 for update"
	release := k.hold(hold, [16]byte(first))
	holder := value[int](k.database, `select pid from pg_stat_activity where query = $1 and state = 'idle in transaction'`, strings.ReplaceAll(hold, "{schema}", k.schema))
	done := make(chan error, 1)
	go func() {
		done <- pgx.BeginFunc(k.ctx, k.user, func(tx pgx.Tx) error {
			if _, err := tx.Exec(k.ctx, "select from "+k.schema+".workflow_runs where id = $1 for update", [16]byte(second)); err != nil {
				return err
			}
			_, err := tx.Exec(k.ctx, "select from "+k.schema+".tasks where run_id = $1 for update", [16]byte(first))
			return err
		})
	}()
	require.Eventually(t, func() bool {
		s, err := k.store.Situation(k.ctx, "b", second)
		require.NoError(t, err)
		return len(s.Locks) == 1 && s.Locks[0].PID == holder
	}, 30*time.Second, 20*time.Millisecond)
	release()
	require.NoError(t, <-done)
}

// TestSituationTellsOfPreparedTransactions: no session holds what these do.
func TestSituationTellsOfPreparedTransactions(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"max_prepared_transactions": "4"})
	url, err := server.CreateDatabase(t.Context(), "prepared")
	require.NoError(t, err)
	user, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	k := newFixture(openSchema(t, user, Options{}), storetest.Single())
	k.join(time.Hour)
	run := k.start(storetest.Single(), "a", 1)[0]
	for _, hold := range []string{"select from {schema}.tasks for update", "lock {schema}.tasks in access exclusive mode"} {
		conn, err := k.user.Acquire(k.ctx)
		require.NoError(t, err)
		for _, sql := range []string{"begin", strings.ReplaceAll(hold, "{schema}", k.schema), "prepare transaction 'one'"} {
			_, err := conn.Exec(k.ctx, sql)
			require.NoError(t, err)
		}
		conn.Release()
		require.Equal(t, `held by the prepared transaction "one"`, k.why(run).Text, hold)
		k.exec("rollback prepared 'one'")
		require.Equal(t, explain.CauseReady, k.why(run).Cause)
	}
}

// TestInspector reads on a pool of the caller's, without a store.
func TestInspector(t *testing.T) {
	t.Parallel()
	d := schemas(t)(t)
	k := newFixture(d, storetest.Nap(time.Hour))
	run := k.start(storetest.Nap(time.Hour), "a", 1)[0]
	i, err := NewInspector(d.user, d.store.Schema)
	require.NoError(t, err)
	found, err := i.Situation(t.Context(), "", run)
	require.NoError(t, err)
	own, err := k.store.Situation(t.Context(), "", run)
	require.NoError(t, err)
	found.Now = own.Now
	require.Equal(t, own, found)
	_, err = i.Situation(t.Context(), "b", run)
	require.ErrorIs(t, err, persistence.ErrRunNotFound)
}
