package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// spread starts a run of list → files (a map), and has the map begin n elements.
func (k *fixture) spread(pod int64, g *workflow.Graph, n int, window, allowed int32) (workflow.RunID, persistence.Record) {
	k.t.Helper()
	run := k.start(g, "a", 1)[0]
	k.complete(pod, k.claim(pod, 1)...)
	grants := k.claim(pod, 2)
	at := slices.IndexFunc(grants, func(g persistence.Grant) bool { return g.Step == "files" })
	k.complete(pod, grants[1-at])
	record := k.completion(pod, grants[at])
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Appendf(nil, "%d", i)
	}
	t := &record.Transitions[0]
	t.Report, t.Output, t.Map = lifecycle.Yielded, nil, &persistence.Map{Items: items, Window: window, Allowed: allowed}
	return run, record
}

// The ends of elements are decided at once, and load no other open task of their run. What begins,
// and its items, are few statements, however many they are.
func TestEndsOfElementsLoadNoOtherTasks(t *testing.T) {
	t.Parallel()
	var sent counter
	g := storetest.Mapped()
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), g)
	pod := k.join(time.Hour)
	run, begin := k.spread(pod, g, 200, 100, 0)
	sent.take()
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(begin))
	statements := sent.take()
	require.Subset(t, statements, []string{"insert_maps", "insert_map_items", "insert_tasks"})
	require.NotContains(t, statements, "load_taken", "it continues no run")
	require.Less(t, len(statements), 25)
	grants := k.claim(pod, 50)
	sent.take()
	k.complete(pod, grants...)
	statements = sent.take()
	require.Subset(t, statements, []string{"load_tasks", "load_maps", "update_maps", "insert_tasks"})
	for _, name := range []string{"load_open_tasks", "record_fast", "record_small", "insert_maps"} {
		require.NotContains(t, statements, name)
	}
	require.Less(t, len(statements), 20)
	k.requireSound()
	k.ends(pod, []workflow.RunID{run})
	sent.take()
	require.Equal(t, "100 1", value[string](k.database, `select format('%s %s', at_once, count(*)) from {schema}.maps group by at_once`))
}

// Rows of other workflows are written as before: maps cost them no statement.
func TestOthersPayNothingForMaps(t *testing.T) {
	t.Parallel()
	var sent counter
	g := storetest.Mixed(workflow.FailFast)
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 1)
	for range 3 {
		record := k.completion(pod, k.claim(pod, 10)...)
		for i := range record.Transitions {
			record.Transitions[i].Report, record.Transitions[i].Class = lifecycle.Errored, "test"
		}
		if len(record.Transitions) > 0 {
			k.send(record)
		}
	}
	for _, name := range sent.take() {
		require.NotContains(t, name, "map")
		require.NotEqual(t, "load_taken", name)
	}
}

// A trigger on the tables of maps that leaves rows out fails what writes them.
func TestMapsAreWrittenOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, change, result string }{
		{"maps", "insert", "null"},
		{"maps", "update", "null"},
		{"maps", "update", "old"},
		{"map_items", "insert", "null"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			g := storetest.Mapped()
			k, pod := withPod(t, g)
			run, record := k.spread(pod, g, 3, 2, 0)
			if c.change == "update" {
				k.send(record)
				record = k.completion(pod, k.claim(pod, 1)...)
			}
			k.skip(c.table, c.change, c.result)
			_, err := k.store.RecordTransitions(k.ctx, record)
			require.ErrorIs(t, err, persistence.ErrUnavailable)
			k.exec("drop function {schema}.skip() cascade")
			require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
			k.ends(pod, []workflow.RunID{run})
		})
	}
}

// The views with names show elements, in history as before.
func TestViewsShowElements(t *testing.T) {
	t.Parallel()
	g := storetest.MappedOn()
	k, pod := withPod(t, g)
	run, record := k.spread(pod, g, 4, 4, 0)
	k.send(record)
	grants := k.claim(pod, 2)
	broken := k.completion(pod, grants...)
	broken.Transitions[1].Report, broken.Transitions[1].Class, broken.Transitions[1].Error = lifecycle.Errored, "test", "it broke"
	k.send(broken)
	require.Equal(t, lifecycle.Failed, k.state(run))
	shown := func() (all []string) {
		for _, sql := range []string{
			"select string_agg(format('%s %s %s', step, state, error), '; ' order by step) from {schema}.step_list",
			"select string_agg(format('%s %s %s', step, n, kind), '; ' order by step, n) from {schema}.event_list",
			"select string_agg(format('%s %s %s', state, failed_step, error), '; ') from {schema}.run_list",
			"select string_agg(format('%s %s', step, error), '; ') from {schema}.dead_letter_list",
			"select string_agg(format('%s %s %s %s', step, parents, owner, name), '; ' order by step) from {schema}.every_task",
			"select string_agg(format('%s %s', step, name), '; ' order by step, n) from {schema}.every_event where name is not null",
		} {
			all = append(all, value[string](k.database, sql))
		}
		return all
	}
	before := shown()
	require.Contains(t, before[0], "files[0] completed ; files[1] failed it broke; files[2] canceled ; files[3] canceled ")
	require.Contains(t, before[1], "files[1] 1 queued; files[1] 2 started; files[1] 3 failed")
	require.Equal(t, "failed files element 1 of 4 failed: it broke", before[2])
	require.Equal(t, "files element 1 of 4 failed: it broke", before[3])
	require.Contains(t, before[4], "5 0 1 files[0]; 6 0 1 files[1]")
	require.True(t, strings.HasPrefix(before[5], "5 files[0]; 5 files[0]; 5 files[0]; 6 files[1]"), before[5])
	require.Equal(t, 1, k.archived(k.bump(pod), persistence.Archive{}).Count)
	require.Equal(t, before, shown())
	for _, table := range []string{"tasks", "maps", "map_items", "workflow_runs"} {
		require.Zero(t, value[int](k.database, "select count(*)::int from {schema}."+table), table)
	}
	k.requireSound()
}

// A run with very many elements is begun, archived and read: what a page costs does not grow with
// the pages before it, and who reads the steps of the run does not read its elements.
func TestAMapOfManyElementsIsArchivedAndReadable(t *testing.T) {
	t.Parallel()
	n := pgtest.Scale(12_000, lifecycle.MapItemsMax)
	g := storetest.Mapped()
	k, pod := withPod(t, g)
	run, record := k.spread(pod, g, n, 100, 0)
	within(t, time.Second, func() { k.send(record) })
	// All but the last hundred have completed by themselves, as far as the tables say.
	k.exec(`delete from {schema}.ready_queue where run_id = $1`, [16]byte(run))
	k.exec(`update {schema}.tasks set state = 10, epoch = 3, finished_at = now(), output = convert_to('"' || name || '"', 'UTF8') where run_id = $1 and declared is not null`, [16]byte(run))
	k.exec(`insert into {schema}.task_events (run_id, step, n, kind, at)
		select run_id, step, g, g, now() from {schema}.tasks, generate_series(2, 3) g where run_id = $1 and declared is not null`, [16]byte(run))
	k.exec(`insert into {schema}.tasks (run_id, step, handler, queue, state, traits, flags, pending, parents, epoch, children, finished_at, output, declared, owner, name)
		select t.run_id, 4 + i, t.handler, t.queue, 10, t.traits, 0, 0, 0, 3, '{}', now(), convert_to('"files[' || i - 1 || ']"', 'UTF8'), 1, 1, 'files[' || i - 1 || ']'
		from {schema}.tasks t, generate_series(101, $2::int) i where t.run_id = $1 and t.step = 1`, [16]byte(run), n)
	k.exec(`insert into {schema}.task_events (run_id, step, n, kind, at)
		select $1, 4 + i, g, g, now() from generate_series(101, $2::int) i, generate_series(1, 3) g`, [16]byte(run), n)
	k.exec(`update {schema}.tasks set state = 3, pod = $3, epoch = 2, started_at = now(), finished_at = null, output = null where run_id = $1 and step > 4 + $2::int - 1`, [16]byte(run), n, pod)
	k.exec(`delete from {schema}.task_events where run_id = $1 and step > 4 + $2::int - 1 and n > 2`, [16]byte(run), n)
	k.exec(`insert into {schema}.claims (pod, claim, runs, steps, epochs) values ($1, gen_random_uuid(), array[$2::uuid], array[4 + $3::int], '{2}')`, pod, [16]byte(run), n)
	k.exec(`update {schema}.maps set items_left = 0, next_item = $2, open = 1 where run_id = $1`, [16]byte(run), n)
	k.exec(`update {schema}.workflow_runs set dynamic_count = $2, remaining = remaining - 99 where id = $1`, [16]byte(run), n)
	last := k.completion(pod, persistence.Grant{Task: workflow.TaskID{Run: run, Step: int32(4 + n)}, Epoch: 2, Step: fmt.Sprintf("files[%d]", n-1)})
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(last))
	read := func() (rows []persistence.TaskRow) {
		t.Helper()
		query := persistence.ElementQuery{Outputs: true}
		for {
			page, err := k.store.Elements(k.ctx, "a", workflow.TaskID{Run: run, Step: 1}, query)
			require.NoError(t, err)
			require.Equal(t, persistence.MapRow{Items: int32(n)}, page.Map)
			rows = append(rows, page.Rows...)
			if query.After = page.Next; page.Next == 0 {
				return rows
			}
		}
	}
	var live, old []persistence.TaskRow
	within(t, pgtest.Scale(time.Second, 5*time.Second), func() { live = read() })
	require.Len(t, live, n)
	require.Equal(t, fmt.Sprintf(`"files[%d]"`, n-1), string(live[n-1].Output))
	k.ends(pod, []workflow.RunID{run})
	tasks := func() {
		t.Helper()
		rows, err := k.store.Tasks(k.ctx, "a", run)
		require.NoError(t, err)
		require.Len(t, rows, 4)
		require.Equal(t, persistence.MapRow{Items: int32(n)}, rows[1].Map)
	}
	within(t, 100*time.Millisecond, tasks)
	within(t, pgtest.Scale(2*time.Second, 20*time.Second), func() { require.Equal(t, 1, k.archived(k.bump(pod), persistence.Archive{}).Count) })
	within(t, 100*time.Millisecond, tasks)
	within(t, pgtest.Scale(2*time.Second, 20*time.Second), func() { old = read() })
	require.Equal(t, live, old)
	require.Equal(t, n, value[int](k.database, "select count(*)::int from {schema}.step_list where run = $1 and step like 'files[%' and state = 'completed'", [16]byte(run)))
	within(t, pgtest.Scale(2*time.Second, 10*time.Second), func() {
		require.Equal(t, n, value[int](k.database, "select count(distinct step)::int from {schema}.event_list where run = $1 and step like 'files[%'", [16]byte(run)))
	})
	require.Zero(t, value[int](k.database, "select count(*)::int from {schema}.map_items"))
}

// An item that the disk has lost keeps only its run from its elements: the others are granted with
// theirs.
func TestAnItemThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	g := storetest.Mapped()
	k, pod := withPod(t, g)
	var runs []workflow.RunID
	for range 3 {
		run, record := k.spread(pod, g, 1, 1, 0)
		record.Transitions[0].Map.Items[0] = []byte(noise())
		k.send(record)
		runs = append(runs, run)
		k.exec("delete from {schema}.ready_queue where run_id = $1", [16]byte(run)) // or the next one would claim its element
	}
	k.exec(`insert into {schema}.ready_queue (queue, band, handler, fair_id, run_id, step, suspect)
		select t.queue, 0, t.handler, 2097152::bigint * 1000 + 2 + row_number() over (order by t.run_id), t.run_id, t.step, false from {schema}.tasks t where t.state = 2`)
	k.lose("map_items", 1)
	request := k.request(pod, 10)
	grants := k.claimed(request).Grants
	require.Len(t, grants, 2)
	for _, grant := range grants {
		require.NotEmpty(t, grant.Item)
	}
	require.Equal(t, 1, k.store.quarantine.Met(quarantine.Unreadable))
	require.Len(t, k.claimed(request).Grants, 2, "the claim is asked again")
	k.complete(pod, grants...)
	at := slices.IndexFunc(runs, func(run workflow.RunID) bool { return grants[0].Task.Run != run && grants[1].Task.Run != run })
	k.exec(`update {schema}.map_items set payload = 'null' where run_id = $1`, [16]byte(runs[at]))
	k.endRests()
	grants = k.claimed(request).Grants
	require.Len(t, grants, 1)
	require.Equal(t, "null", string(grants[0].Item))
	k.complete(pod, grants...)
	k.ends(pod, runs)
}

// BenchmarkElements is a map of 1,000 elements, 100 at once: what the database needs for it.
func BenchmarkElements(b *testing.B) {
	g := storetest.Mapped()
	k := newFixture(openDatabase(b, Options{}), g)
	pod := k.join(time.Hour)
	for b.Loop() {
		_, record := k.spread(pod, g, 1000, 100, 0)
		k.send(record)
		for grants := k.claim(pod, 100); len(grants) > 0; grants = k.claim(pod, 100) {
			k.complete(pod, grants...)
		}
	}
}
