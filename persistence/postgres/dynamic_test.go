package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// The views with names show dynamic tasks, in history as before, and the error of a run that
// failed with one.
func TestViewsShowDynamicTasks(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Growing())
	run := k.start(storetest.Growing(), "a", 1)[0]
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Make = []persistence.DynamicTask{{Declared: "plan", Name: "plan#1"}, {Declared: "heavy", Name: "heavy#1"}}
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	for _, grant := range k.claim(pod, 10) {
		record := k.completion(pod, grant)
		if grant.Step == "plan#1" {
			record.Transitions[0].Report, record.Transitions[0].Class, record.Transitions[0].Error = lifecycle.Errored, "test", "it broke"
		}
		k.send(record)
	}
	_, err := k.store.CancelRun(k.ctx, persistence.Cancel{Run: run, Tenant: "a"})
	require.NoError(t, err)
	require.Equal(t, lifecycle.Failed, k.state(run))

	shown := func() (all []string) {
		for _, sql := range []string{
			"select string_agg(format('%s %s %s %s', step, state, queue, error), '; ' order by step) from {schema}.step_list",
			"select string_agg(format('%s %s %s', step, n, kind), '; ' order by step, n) from {schema}.event_list",
			"select string_agg(format('%s %s %s %s', state, failed_step, class, error), '; ') from {schema}.run_list",
			"select string_agg(format('%s %s', step, queue), '; ') from {schema}.dead_letter_list",
			"select string_agg(format('%s %s %s %s', step, declared, owner, name), '; ' order by step) from {schema}.every_task",
			"select string_agg(dynamic_count::text, '; ') from {schema}.every_run",
		} {
			all = append(all, value[string](k.database, sql))
		}
		return all
	}
	before := shown()
	require.Contains(t, before[0], "heavy#1 canceled gpu ; ")
	require.Contains(t, before[0], "plan#1 failed default it broke")
	require.Contains(t, before[1], "plan#1 1 queued; plan#1 2 started; plan#1 3 failed")
	require.Equal(t, "failed plan#1 test it broke", before[2])
	require.Equal(t, "plan#1 default", before[3])
	require.Contains(t, before[4], "3   ; 5 0 0 plan#1; 6 3 0 heavy#1", "number 4 is left out")
	require.Equal(t, "2", before[5])
	require.Equal(t, 1, k.archived(k.bump(pod), persistence.Archive{}).Count)
	require.Equal(t, before, shown())
	require.Equal(t, "0 0, 1 5", value[string](k.database, "select string_agg(format('%s %s', slice, first), ', ' order by slice) from {schema}.run_history"))
}

// A grant whose task is gone before its name was read is not given: renewals find that the
// pod holds it no more.
func TestADynamicTaskThatIsGoneIsNotGranted(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Growing())
	k.start(storetest.Growing(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Make = []persistence.DynamicTask{{Declared: "plan", Name: "plan#1"}}
	k.send(record)
	request := k.request(pod, 10)
	require.Len(t, k.claimed(request).Grants, 2)
	k.exec("update {schema}.tasks set declared = null where step = 5")
	require.Len(t, k.claimed(request).Grants, 1, "the claim is asked again")
}

// The tables of a run without dynamic tasks have nothing of them.
func TestARunWithoutDynamicTasksIsStoredAsBefore(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Mixed(1))
	k.start(storetest.Mixed(1), "a", 1)
	for range 3 {
		for _, grant := range k.claim(pod, 10) {
			record := k.completion(pod, grant)
			if grant.Step == "bad" {
				record.Transitions[0].Report = lifecycle.Errored
			}
			k.send(record)
		}
		k.exec("update {schema}.durable_timers set wake_at = now() - interval '1 second'")
		k.fire(k.bump(pod), 10)
	}
	require.Equal(t, 1, k.archived(k.bump(pod), persistence.Archive{Age: -time.Hour}).Count)
	require.True(t, value[bool](k.database, `select handler_made and dynamic_count is null and declared is null and owners is null and names is null
		and slice = 0 and cardinality(states) = 8 from {schema}.run_history`))
}
