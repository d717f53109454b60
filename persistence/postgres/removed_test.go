package postgres

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// These tests delete rows as operators do by mistake.

// A leader whose row is gone is followed by one that fences it.
func TestARemovedEpochIsMadeAgain(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	old := k.bump(pod)
	for range 2 {
		k.exec("truncate {schema}.leader_epoch")
		_, err := k.store.FireTimers(k.ctx, old, 10)
		require.ErrorIs(t, err, persistence.ErrDeposed)
		first := k.bump(pod)
		require.Greater(t, first, old)
		second := k.bump(pod)
		require.Equal(t, first+1, second)
		k.fire(second, 10)
		_, err = k.store.FireTimers(k.ctx, old, 10)
		require.ErrorIs(t, err, persistence.ErrDeposed)
		old = second
	}
}

// withoutFrontiers is a store at work that has lost its frontiers.
func withoutFrontiers(t *testing.T, graphs ...*workflow.Graph) (k *fixture, pod int64) {
	t.Helper()
	k = newFixture(schemas(t)(t), graphs...)
	pod = k.join(time.Hour)
	k.start(graphs[0], "known", 1)
	k.finish(pod)
	k.exec("delete from {schema}.frontiers")
	return k, pod
}

func (k *fixture) requireFrontier() {
	k.t.Helper()
	require.Equal(k.t, 1, value[int](k.database, "select count(*)::int from {schema}.frontiers where queue = 1"))
}

func TestARemovedFrontierIsMadeAgain(t *testing.T) {
	t.Parallel()
	t.Run("by one statement", func(t *testing.T) {
		t.Parallel()
		k, pod := withoutFrontiers(t, storetest.Diamond())
		ids := k.start(storetest.Diamond(), "known", 3)
		k.requireFrontier()
		k.finish(pod)
		require.Equal(t, lifecycle.Completed, k.state(ids[2]))
	})
	t.Run("by decisions", func(t *testing.T) {
		t.Parallel()
		k, pod := withoutFrontiers(t, storetest.Diamond())
		one := k.draft(storetest.Diamond(), "new", 2)
		one[0].Key = "key"
		for _, answer := range k.ask(one...) {
			require.Equal(t, persistence.Triggered, answer.Result)
		}
		k.requireFrontier()
		k.finish(pod)
		require.Equal(t, lifecycle.Completed, k.state(one[1].Run))
	})
	t.Run("of one of two queues", func(t *testing.T) {
		t.Parallel()
		k, pod := withoutFrontiers(t, storetest.Diamond())
		k.exec("insert into {schema}.frontiers select queue, 0, 7 from {schema}.queues where name = 'other'")
		for _, tenant := range []string{"known", "new"} {
			list := k.draft(storetest.Diamond(), tenant, 4)
			list[1].Queue, list[2].Queue = "other", "other"
			for _, answer := range k.ask(list...) {
				require.Equal(t, persistence.Triggered, answer.Result)
			}
		}
		k.requireFrontier()
		require.Equal(t, 8, value[int](k.database, "select count(distinct (queue, fair_id))::int from {schema}.ready_queue"))
		k.finish(pod)
		k.requireSound()
	})
}

// The tasks of pods whose rows were deleted are taken over, in batches, and those of live
// pods are not.
func TestTheTasksOfRemovedPodsAreTakenOver(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	first, second, third := k.join(time.Hour), k.join(time.Hour), k.join(time.Hour)
	k.start(storetest.Single(), "a", 9)
	grants := map[int64][]persistence.Grant{}
	for _, pod := range []int64{first, second, third} {
		grants[pod] = k.claim(pod, 3)
	}
	epoch := k.bump(third)
	k.exec("delete from {schema}.pods where id <> $1", third)
	_, err := k.store.RecordTransitions(k.ctx, k.completion(first, grants[first]...))
	require.ErrorIs(t, err, persistence.ErrPodDead)
	var tasks []int
	for range 4 {
		out := k.expire(epoch, 4)
		require.Equal(t, 1, out.Live)
		tasks = append(tasks, out.Tasks)
	}
	require.Equal(t, []int{4, 2, 0, 0}, tasks)
	require.Equal(t, 1, value[int](k.database, "select count(distinct pod)::int from {schema}.claims"))
	k.complete(third, grants[third]...)
	k.finish(third)
	k.requireSound()
	require.Equal(t, 9, value[int](k.database, "select count(*)::int from {schema}.tasks where state = 10"))
}

// handbook returns the statement of the handbook that begins so.
func handbook(t *testing.T, begins string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, remedy, found := strings.Cut(string(text), "```sql\n"+begins)
	require.True(t, found)
	remedy, _, _ = strings.Cut(begins+remedy, "```")
	return strings.ReplaceAll(remedy, "troupe.", "{schema}.")
}

// The remedy that the handbook has for ready tasks that are in no queue.
func TestReadyTasksInNoQueueArePutBack(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.start(storetest.Single(), "served", 5)
	k.finish(pod)
	lost := append(k.start(storetest.Single(), "a", 4), k.start(storetest.Single(), "c", 2)...)
	kept := k.start(storetest.Single(), "b", 2)
	k.exec("delete from {schema}.ready_queue where run_id = any($1)", pgsql.UUIDs(lost))
	for range 2 {
		k.exec(handbook(t, "insert into troupe.parked_tasks"))
	}
	require.Equal(t, 6, value[int](k.database, "select count(*)::int from {schema}.parked_tasks"))
	epoch := k.bump(pod)
	parked := k.park(epoch, 10)
	require.Equal(t, 6, parked.Unparked)
	k.requireSound()
	require.Equal(t, 2, value[int](k.database, "select count(distinct fair_id % (1 << 21) / 2)::int from {schema}.ready_queue q where run_id = any($1)", pgsql.UUIDs(lost)), "tenants keep their own lines")
	k.ends(pod, append(lost, kept...))
}

// The remedy that the handbook has for what sleeps, backs off or waits and has no timer.
func TestTimersThatWereRemovedArePutBack(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single(), storetest.Nap(time.Hour), storetest.ApprovalStrict())
	pod := k.join(1000 * time.Hour)
	ids := append(k.start(storetest.Single(), "a", 1), k.start(storetest.Nap(time.Hour), "a", 1)...)
	record := k.completion(pod, k.claim(pod, 2)...)
	for i := range record.Transitions {
		if record.Transitions[i].Task.Run == ids[0] {
			record.Transitions[i].Report, record.Transitions[i].Retry, record.Transitions[i].RetryIn = lifecycle.Errored, true, 2*time.Hour
		}
	}
	k.send(record)
	k.start(storetest.ApprovalStrict(), "a", 1)
	const timers = "select string_agg(format('%s %s %s %s %s', run_id, step, kind, wake_at, epoch), ' ' order by run_id) from {schema}.durable_timers"
	before := value[string](k.database, timers)
	k.exec("truncate {schema}.durable_timers")
	for range 2 {
		k.exec(handbook(t, "insert into troupe.durable_timers"))
	}
	require.Equal(t, before, value[string](k.database, timers))
	k.requireSound()
}

// The remedy of the handbook for running tasks that are in no claim.
func TestRunningTasksInNoClaimAreTakenOver(t *testing.T) {
	t.Parallel()
	remedy := handbook(t, "insert into troupe.claims")

	k := newFixture(schemas(t)(t), storetest.Single())
	gone, living := k.join(time.Hour), k.join(time.Hour)
	k.start(storetest.Single(), "a", 4)
	k.claim(gone, 2)
	held := k.claim(living, 2)
	k.exec("delete from {schema}.pods where id = $1", gone)
	k.exec("delete from {schema}.claims")
	epoch := k.bump(living)
	out := k.expire(epoch, 10)
	require.Zero(t, out.Tasks, "they are in no claim")
	for range 2 {
		k.exec(remedy)
	}
	out = k.expire(epoch, 10)
	require.Equal(t, 2, out.Tasks)
	k.complete(living, held...)
	k.finish(living)
	k.requireSound()
}

// The statement of docs/operations.md wakes up what backs off until a time that
// the database's clock was at by mistake.
func TestTimersCanBeMovedByHand(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	const statement = "update troupe.durable_timers set wake_at = now() where wake_at > now() + interval '1 day'"
	require.Contains(t, string(docs), statement)

	k := newFixture(schemas(t)(t), storetest.Single())
	pod := k.join(1000 * time.Hour)
	ids := k.start(storetest.Single(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Report, record.Transitions[0].Retry, record.Transitions[0].RetryIn = lifecycle.Errored, true, 99*time.Hour
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	epoch := k.bump(pod)
	k.exec(strings.ReplaceAll(statement, "troupe.", "{schema}."))
	k.fire(epoch, 10)
	k.ends(pod, ids)
}

// Tasks of deleted runs, more than a call takes over, do not keep others from being taken over.
func TestTakeoverBesideTasksOfRemovedRuns(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	pod, dead := k.join(time.Hour), k.join(time.Hour)
	ids := k.start(storetest.Single(), "a", 12)
	require.Len(t, k.claim(dead, 20), 12)
	epoch := k.bump(pod)
	k.exec("delete from {schema}.workflow_runs where id = any($1)", ids[:6])
	k.exec("update {schema}.pods set expires_at = now() - interval '1 second' where id = $1", dead)
	total := 0
	for range 6 {
		out := k.expire(epoch, 4)
		total += out.Tasks
	}
	require.Equal(t, 6, total)
	require.Len(t, k.claim(pod, 20), 6)
}
