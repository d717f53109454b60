package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Events that a base of a machine stands for are passed over, and go with the span that they are in;
// those that were put aside before go with the next.
func TestEventsOfMachinesGoWithTheirSpan(t *testing.T) {
	t.Parallel()
	g := storetest.Order()
	a := &annals{fixture: newFixture(newSimulatedDatabase(schemas(t)(t)).database, g)}
	a.at(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var err error
	a.epoch, err = a.store.BumpEpoch(a.ctx, 1)
	require.NoError(t, err)
	pod := a.join(24 * time.Hour)
	a.rotate()
	a.pass(3 * time.Second) // behind the notice of the first span
	run := a.machine(pod, g)
	for _, id := range []string{"1", "2", "3"} {
		a.activated(pod, g, a.hears(pod, run, id), charge)
		a.complete(pod, a.claim(pod, 1)...)
		a.activated(pod, g, a.claim(pod, 1)[0], nil)
	}
	events := func() []lifecycle.Event {
		list, err := a.store.Events(a.ctx, "", run, nil, persistence.PageMax)
		require.NoError(t, err)
		return list
	}
	kept := func() int {
		return value[int](a.database, `select count(*)::int from {schema}.task_events_kept`)
	}
	all := len(events())
	expire := func() {
		for range 3 {
			a.pass(50 * time.Minute)
			a.rotate()
		}
	}
	expire()
	require.Equal(t, all, kept(), "all are needed")
	for _, id := range []string{"4", "5"} {
		a.activated(pod, g, a.hears(pod, run, id), nil)
	}
	epoch := value[int64](a.database, `select max(n) from {schema}.task_events where step = 0`)
	a.exec(`update {schema}.machines set base = 7, base_version = 1, base_epoch = $1, base_events = 6, base_at = $2, mark = 7`, epoch-1, a.clock)
	a.exec(`delete from {schema}.tasks where step = 1002`)
	after := events()
	require.Less(t, len(after), all)
	count := map[int32]int{}
	trimmed := 0
	for _, e := range after {
		count[e.Step]++
		if e.Kind == lifecycle.EventTrimmed {
			trimmed++
			require.Contains(t, []int64{epoch - 1, 6}, e.N)
		}
	}
	require.Equal(t, []int{2, 2, 3, 0, 3}, []int{trimmed, count[0], count[1001], count[1002], count[1003]})
	expire()
	require.Equal(t, after, events())
	require.Equal(t, len(after)-2, kept(), "what stands for those that are gone has no row")
}

// A run has more events than one row of history holds: they are read as before, also those that the
// letter of a task keeps.
func TestManyEventsAreArchivedInParts(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	a := &annals{fixture: newFixture(newSimulatedDatabase(schemas(t)(t)).database, g)}
	a.at(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var err error
	a.epoch, err = a.store.BumpEpoch(a.ctx, 1)
	require.NoError(t, err)
	pod := a.join(24 * time.Hour)
	run := a.start(g, "a", 1)[0]
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, a.send(a.errored(pod, false, "broke", a.claim(pod, 1)...)))
	const more = 30
	a.exec(`update {schema}.task_events set n = n + $1 where step = 0 and n > 2`, 2*more)
	a.exec(`update {schema}.tasks set epoch = epoch + $1`, 2*more)
	a.exec(`insert into {schema}.task_events (run_id, step, kind, n, at, text)
		select e.run_id, 0, case when i % 2 = 0 then 5 else 1 end, 2 + i, e.at, repeat('x', 600000) || i
		from {schema}.task_events e, generate_series(1, $1::int) i where e.step = 0 and e.n = 2`, 2*more)
	task := workflow.TaskID{Run: run}
	read := func() (list []lifecycle.Event, letter persistence.DeadDetail) {
		list, err := a.store.Events(a.ctx, "", run, nil, persistence.PageMax)
		require.NoError(t, err)
		letter, err = a.store.DeadLetter(a.ctx, "", task)
		require.NoError(t, err)
		return list, letter
	}
	list, letter := read()
	require.Len(t, list, 2*more+3+3)
	require.Equal(t, 1, a.archive())
	require.Equal(t, "2 1", value[string](a.database, `select count(*) filter (where slice < 0) || ' ' || count(*) filter (where slice = 0) from {schema}.run_history`))
	listed, kept := read()
	require.Equal(t, list, listed)
	require.Equal(t, letter, kept)
	require.Equal(t, 2*more+3, value[int](a.database, `select jsonb_array_length(history) from {schema}.dead_letters`))
	require.EqualValues(t, 2*more+3, value[int64](a.database, `select max((e->>'n')::bigint) from {schema}.dead_letters, jsonb_array_elements(history) e`))
}
