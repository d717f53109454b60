package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A leader of the version before signals, which knows no step that waits, leaves runs with waits
// as they are: their tasks, also those of a dead pod, deadlines that are over, signals that were
// not delivered, and runs that have not begun. Tasks that no living pod executes are parked. A run
// that is triggered while its pod lives begins when that has left.
func TestAnOlderLeaderLeavesWaitsAsTheyAre(t *testing.T) {
	t.Parallel()
	ours, theirs := storetest.Nap(time.Nanosecond), storetest.Approval()
	k, pod := withPod(t, ours, theirs)
	runs := k.start(theirs, "a", 6)
	k.complete(pod, k.claim(pod, 3)...)
	require.Len(t, k.claim(pod, 2), 2, "they stay with the pod, and one with none")
	for _, run := range runs {
		k.signal(signalOf(run, "approved", "in time"))
	}
	require.Equal(t, 2, k.drain(2).Delivered, "the others ask for a delivery")
	runs = append(runs, k.submit(theirs, 2)...)
	require.NoError(t, k.advance(k.ctx, 2*time.Hour)) // the deadlines of reminders are over, and the lease of the pod
	number := registry.DefinitionNumber(theirs.Hash)
	unknown := func(from, to int) {
		t.Helper()
		k.exec("update {schema}.definition_steps set kind = $1 where kind = $2 and definition = $3", to, from, number)
	}
	const later = 9 // a kind that no version knows, as the older one does not know waits
	unknown(int(workflow.Wait), later)

	old := k.starts(ours)
	second, _, err := old.store.JoinPod(k.ctx, persistence.PodInfo{
		Name: "old", Handlers: old.handlers, Queues: []string{registry.DefaultQueue}, Slots: 10, TTL: time.Hour, Protocol: persistence.ProtocolOf(theirs) - 1,
	})
	require.NoError(t, err)
	epoch := old.bump(second)
	mine := append(old.start(ours, "a", 3), old.submit(ours, 2)...)
	before := k.stands(runs)
	for range 4 {
		old.lead(epoch)
		old.archived(epoch, persistence.Archive{})
		for _, grant := range old.claim(second, 100) {
			require.Contains(t, mine, grant.Task.Run)
			old.complete(second, grant)
		}
	}
	for _, run := range mine {
		require.Equal(t, lifecycle.Completed, old.state(run))
	}
	require.Equal(t, before, k.stands(runs))
	unknown(later, int(workflow.Wait))

	late := k.draft(theirs, "a", 1)
	require.Equal(t, persistence.Triggered, k.ask(late...)[0].Result)
	runs = append(runs, late[0].Run)
	out := k.drain(100)
	require.Equal(t, 4, out.Delivered)
	require.Zero(t, out.Count, "an older pod lives")
	require.Equal(t, lifecycle.Pending, k.state(late[0].Run))
	old.leave(second)
	require.Equal(t, 3, k.drain(100).Count)
	for _, run := range runs[6:] {
		k.signal(signalOf(run, "approved", "yes"), signalOf(run, "reminded", "now"))
	}
	third := k.join(time.Hour)
	epoch = k.bump(third)
	for range 4 {
		k.lead(epoch)
		k.finish(third)
	}
	k.ends(third, runs)
	require.Equal(t, 6, value[int](k.database, `select count(*)::int from {schema}.step_list where step = 'remind' and state = 'skipped'`), "at their deadlines")
	require.Equal(t, 12, value[int](k.database, `select count(*)::int from {schema}.signal_list where state = 'taken'`))
}

// stands returns all that is stored of runs.
func (k *fixture) stands(runs []workflow.RunID) string {
	k.t.Helper()
	return value[string](k.database, `select concat_ws(E'\n',
		(select jsonb_agg(r order by r.id)::text from {schema}.workflow_runs r where r.id = any($1)),
		(select jsonb_agg(t order by t.run_id, t.step)::text from {schema}.tasks t where t.run_id = any($1)),
		(select jsonb_agg(d order by d.run_id, d.step, d.kind)::text from {schema}.durable_timers d where d.run_id = any($1)),
		(select jsonb_agg(q order by q)::text from (select run_id, step, handler from {schema}.ready_queue
			union all select run_id, step, handler from {schema}.parked_tasks) q where q.run_id = any($1)),
		(select jsonb_agg(i order by i.run_id, i.seq)::text from {schema}.inbox i where i.run_id = any($1)),
		(select jsonb_agg(i order by i.id)::text from {schema}.intake i where i.run_id = any($1)))`, uuidsOf(runs))
}

// uuidsOf returns ids as the driver takes them.
func uuidsOf(runs []workflow.RunID) (ids [][16]byte) {
	for _, run := range runs {
		ids = append(ids, run)
	}
	return ids
}

// A pod of the version before child runs that joins while steps wait for them, and ends one, tells
// the parent nothing. The leader's look does, once.
func TestTheLeaderTellsParentsWhatAnOlderPodDidNot(t *testing.T) {
	t.Parallel()
	parent, child := storetest.Many(2), storetest.Single()
	k, pod := withPod(t, parent, child)
	epoch := k.bump(pod)
	run := k.start(parent, "a", 1)[0]
	require.Len(t, k.begin(pod, child, 2), 2)
	require.Equal(t, 2, k.drainAll(10))
	older, _, err := k.store.JoinPod(k.ctx, persistence.PodInfo{
		Name: "older", Handlers: k.handlers, Queues: []string{registry.DefaultQueue}, Slots: 10, TTL: time.Hour, Protocol: 3,
	})
	require.NoError(t, err)
	k.complete(older, k.claim(older, 1)...)
	require.Equal(t, 1, value[int](k.database, "with gone as (delete from {schema}.intake where signal returning run_id) select count(*)::int from gone where run_id = $1",
		[16]byte(run)), "which it does not write")
	look := func() int {
		t.Helper()
		out, err := k.store.WakeParents(k.ctx, epoch, workflow.TaskID{}, 10)
		require.NoError(t, err)
		require.Equal(t, out.Count > 0, out.Wake.Submitted)
		return out.Count
	}
	waiting := func() int {
		t.Helper()
		return value[int](k.database, "select count(*)::int from {schema}.tasks where run_id = $1 and state = $2", [16]byte(run), int16(lifecycle.Waiting))
	}
	k.drain(10)
	require.Equal(t, 2, waiting())
	require.Equal(t, 1, look())
	require.Zero(t, look(), "it is about to be told")
	k.drain(10)
	require.Equal(t, 1, waiting())
	require.Zero(t, look(), "the other one has not ended")
	k.finish(pod)
	k.drain(10)
	k.ends(pod, []workflow.RunID{run})
}
