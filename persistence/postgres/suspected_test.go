package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// While somebody holds something, whoever stands in rows with a lock that nobody has to
// wait for, as an uncommitted foreign key does, is not taken for one who holds these.
func TestALockThatNobodyMindsIsNoHold(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withCounters(t, g, "a", "b")
	held := k.start(g, "a", 1)
	k.start(g, "b", 2)
	running := k.claim(pod, 3)
	k.start(g, "b", 1)
	harmless := map[string]func(){}
	for table, of := range map[string]string{
		"workflow_runs": "id in (select id from {schema}.workflow_runs where tenant = 'b')",
		"tasks":         "run_id in (select id from {schema}.workflow_runs where tenant = 'b')",
		"tenant_groups": "group_id = (select group_id from {schema}.tenants where tenant = 'b')",
	} {
		harmless[table] = k.hold("select from {schema}." + table + " where " + of + " for key share")
	}
	release := k.hold("select from {schema}.workflow_runs where tenant = 'a' for update")
	k.store.lookForHolders(k.ctx, firstTasks(held))
	k.askAgain()
	require.Equal(t, lockCalm, k.store.locking(k.ctx))
	k.goOn()
	suspected, err := k.store.suspectedHeld(k.ctx, k.user, taskIDs{running[1].Task, running[2].Task})
	require.NoError(t, err)
	require.Len(t, suspected, 2, "they stand in these rows")

	for i, answer := range k.send(k.completion(pod, running...)) {
		require.Equal(t, running[i].Tenant == "a", answer == lifecycle.Busy)
	}
	require.Equal(t, persistence.Triggered, k.ask(k.draft(g, "b", 1)[0])[0].Result)
	require.Len(t, k.claim(pod, 10), 6, "two of each that ended its first step, and two first ones")
	require.False(t, k.store.isHeld(k.ctx, running[1].Task))
	release()
	for _, end := range harmless {
		end()
	}
	k.requireSound()
}

// Whoever holds the progress of tasks keeps nobody else's from being recorded.
func TestProgressThatSomebodyHolds(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 3)
	k.start(g, "b", 3)
	running := k.claim(pod, 6)
	k.exec(`insert into {schema}.task_progress (run_id, step, progress) select id, 0, '\x31' from {schema}.workflow_runs`)
	release := k.hold("select from {schema}.task_progress where run_id in (select id from {schema}.workflow_runs where tenant = 'a') for update")
	record := k.completion(pod, running...)
	for i := range record.Transitions {
		record.Transitions[i].Progress = []byte("2")
	}
	for i, answer := range k.send(record) {
		require.Equal(t, running[i].Tenant == "a", answer == lifecycle.Busy)
	}
	require.Equal(t, lockCalm, k.store.strained.mode())
	release()
	k.askAgain()
	k.complete(pod, slices.DeleteFunc(running, func(g persistence.Grant) bool { return g.Tenant == "b" })...)
	k.requireSound()
}

// What stands in a row after several have shared a lock is no transaction's number,
// though there may soon be one that is numbered so.
func TestANumberOfSharersIsNoTransaction(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	next := value[int64](k.database, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
	k.store.strained.found([]int64{next + 5000})
	require.Equal(t, lockWaiting, k.store.locking(k.ctx))
	require.Empty(t, k.store.strained.known())
}
