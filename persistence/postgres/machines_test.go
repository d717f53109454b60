package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// activation reports that a machine has handled what it was granted.
func (k *fixture) activation(pod int64, g *workflow.Graph, grant persistence.Grant) persistence.Record {
	record := k.completion(pod, grant)
	t := &record.Transitions[0]
	t.Report, t.Output = lifecycle.Yielded, nil
	t.Activation = &persistence.Activation{
		Taken: grant.Machine.Arrived, Heard: int32(len(grant.Machine.Entries)), Version: 1, State: []byte(`{"some":"state"}`), Definition: g.Hash,
	}
	return record
}

// activated records an activation of a machine, with a change to it.
func (k *fixture) activated(pod int64, g *workflow.Graph, grant persistence.Grant, change func(*persistence.Activation)) {
	k.t.Helper()
	record := k.activation(pod, g, grant)
	if change != nil {
		change(record.Transitions[0].Activation)
	}
	require.Equal(k.t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
}

// charge starts an activity.
func charge(a *persistence.Activation) {
	a.Start = append(a.Start, persistence.Spawn{Step: "charge", Input: []byte("1")})
}

// hears has a machine hear a signal, and hands out its next activation.
func (k *fixture) hears(pod int64, run workflow.RunID, id string) persistence.Grant {
	k.t.Helper()
	k.signal(signalOf(run, "noted", id))
	require.Equal(k.t, 1, k.drain(10).Delivered)
	grants := k.claim(pod, 1)
	require.Len(k.t, grants, 1)
	require.NotNil(k.t, grants[0].Machine)
	return grants[0]
}

// machine starts a run of a machine, whose first activation starts and hears of an activity.
func (k *fixture) machine(pod int64, g *workflow.Graph) workflow.RunID {
	k.t.Helper()
	run := k.start(g, "a", 1)[0]
	k.activated(pod, g, k.claim(pod, 1)[0], charge)
	k.complete(pod, k.claim(pod, 1)...)
	k.activated(pod, g, k.claim(pod, 1)[0], nil)
	return run
}

// ages makes a machine one that has handled 100,000 entries, of which the last 12,000 are kept: each
// second one is a signal.
func (k *fixture) ages(run workflow.RunID) {
	k.t.Helper()
	id := [16]byte(run)
	k.exec(`insert into {schema}.inbox (run_id, id, n, name, at, payload)
		select $1, 'old ' || n, n, 'noted', now(), '"x"' from generate_series(88001, 100000) n where n % 2 = 0`, id)
	k.exec(`insert into {schema}.tasks (run_id, step, handler, queue, state, traits, flags, pending, parents, epoch, children, queued_at, started_at,
			finished_at, output, declared, owner, name, entry)
		select t.run_id, 1000 + n, t.handler, t.queue, 10, t.traits, 0, 0, 0, 3, '{}', now(), now(), now(), '"x"', t.declared, t.owner, 'charge#' || n, n
		from {schema}.tasks t, generate_series(88001, 100000) n where t.run_id = $1 and t.step = 1001 and n % 2 = 1`, id)
	k.exec(`insert into {schema}.map_items select run_id, 0, step, '1' from {schema}.tasks where run_id = $1 and step > 1001`, id)
	k.exec(`update {schema}.workflow_runs set signals = 100000, dynamic_count = 100000 where id = $1`, id)
	k.exec(`update {schema}.machines set taken = 100000, base = 90000, base_version = 1, base_epoch = 1, base_events = 2, base_at = now(),
		mark = 95000, mark_version = 1, mark_epoch = 1, mark_events = 2, mark_at = now() where run_id = $1`, id)
}

// An activation is few statements, which load no other task of the run than those that it is about.
func TestActivationsLoadNoOtherTasks(t *testing.T) {
	t.Parallel()
	var sent counter
	g := storetest.Order()
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), g)
	pod := k.join(time.Hour)
	run := k.machine(pod, g)
	grant := k.hears(pod, run, "one")
	sent.take()
	k.activated(pod, g, grant, func(a *persistence.Activation) {
		charge(a)
		a.Start = append(a.Start, persistence.Spawn{Step: "window", WakeAt: time.Now().Add(time.Hour)})
	})
	statements := sent.take()
	require.Subset(t, statements, []string{"load_tasks", "write_machines", "insert_inputs", "insert_tasks"})
	for _, name := range []string{"load_open_tasks", "continue_runs", "trim_machines", "load_untaken", "record_fast"} {
		require.NotContains(t, statements, name)
	}
	require.Less(t, len(statements), 25)
	k.complete(pod, k.claim(pod, 1)...)
	grant = k.hears(pod, run, "two")
	sent.take()
	k.activated(pod, g, grant, func(a *persistence.Activation) { a.Cancel = []int32{3} })
	require.NotContains(t, sent.take(), "load_open_tasks", "what it cancels is named")
	k.requireSound()
}

// Rows of other workflows are written as before: machines cost them no statement.
func TestOthersPayNothingForMachines(t *testing.T) {
	t.Parallel()
	var sent counter
	g := storetest.Mixed(workflow.FailFast)
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 1)
	k.finish(pod)
	for _, name := range sent.take() {
		require.NotContains(t, name, "machine")
		require.NotContains(t, name, "input")
	}
}

// rowsRead returns how many rows of large tables a statement reads.
func (k *fixture) rowsRead(name string, args pgsql.Named) (count float64) {
	k.t.Helper()
	text, values := k.store.Bind(name, args)
	var plan string
	tx, err := k.store.Conns.Begin(k.ctx)
	require.NoError(k.t, err)
	defer func() { require.NoError(k.t, tx.Rollback(k.ctx)) }()
	require.NoError(k.t, tx.QueryRow(k.ctx, "explain (analyze, timing off, format json) "+text, values...).Scan(&plan))
	var roots []struct{ Plan map[string]any }
	require.NoError(k.t, json.Unmarshal([]byte(plan), &roots))
	var walk func(node map[string]any)
	walk = func(node map[string]any) {
		number := func(key string) float64 { n, _ := node[key].(float64); return n }
		if table, _ := node["Relation Name"].(string); slices.Contains(large, table) {
			count += (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops")
		}
		children, _ := node["Plans"].([]any)
		for _, child := range children {
			of, is := child.(map[string]any)
			require.True(k.t, is)
			walk(of)
		}
	}
	walk(roots[0].Plan)
	return count
}

// What a machine has heard costs nothing once it has handled it: its statements read as many rows
// after 100,000 entries as after a few, and are the same.
func TestAnOldMachineReadsNoMoreThanANewOne(t *testing.T) {
	t.Parallel()
	var sent counter
	g := storetest.Order()
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), g)
	pod := k.join(time.Hour)
	young, old := k.machine(pod, g), k.machine(pod, g)
	k.ages(old)
	k.exec("analyze {schema}.tasks, {schema}.inbox, {schema}.map_items")
	var read, statements []string
	for _, run := range []workflow.RunID{young, old} {
		runs := pgsql.UUIDs{run}
		k.signal(signalOf(run, "noted", "one"))
		rows := fmt.Sprint(
			k.rowsRead("find_addressees", pgsql.Named{"runs": runs, "ids": []string{"two"}, "most": persistence.InboxMax, "always": false}),
			k.rowsRead("load_undelivered", pgsql.Named{"runs": runs, "untils": pgsql.Instants{time.Time{}}, "most": deliverMax}),
		)
		require.Equal(t, 1, k.drain(10).Delivered)
		rows += fmt.Sprint(" ", k.rowsRead("load_machines", pgsql.Named{
			"runs": runs, "limit": int32(persistence.EntriesMax), "bytes": int64(persistence.EntriesBytes),
		}))
		sent.take()
		grant := k.claim(pod, 1)[0]
		require.Len(t, grant.Machine.Entries, 1)
		k.activated(pod, g, grant, charge)
		k.complete(pod, k.claim(pod, 1)...)
		k.activated(pod, g, k.claim(pod, 1)[0], nil)
		read, statements = append(read, rows), append(statements, strings.Join(sent.take(), " "))
	}
	require.Equal(t, read[0], read[1])
	trimmed := func(s string) string { return strings.ReplaceAll(s, "trim_machines ", "") }
	require.Equal(t, trimmed(statements[0]), trimmed(statements[1]))
}

// What a machine no longer needs is removed in time with what comes.
func TestAnOldMachineIsTrimmed(t *testing.T) {
	t.Parallel()
	g := storetest.Order()
	k, pod := withPod(t, g)
	run := k.machine(pod, g)
	k.ages(run)
	left := func() int {
		return value[int](k.database, `select (select count(*) from {schema}.inbox where n <= 90000 and n > 1)::int
			+ (select count(*) from {schema}.tasks where entry <= 90000 and entry > 1)::int + (select count(*) from {schema}.map_items where item between 1002 and 91000)::int`)
	}
	before := left()
	for i := range 100 {
		k.activated(pod, g, k.hears(pod, run, fmt.Sprint(i)), nil)
	}
	require.Less(t, left(), before-300, "twice as much as came")
	require.Greater(t, left(), before-1000)
}

// A trigger on the tables of machines that leaves rows out fails what writes them.
func TestMachinesAreWrittenOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, change, result string }{
		{"machines", "insert", "null"},
		{"machines", "update", "null"},
		{"machines", "update", "old"},
		{"map_items", "insert", "null"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			g := storetest.Order()
			k, pod := withPod(t, g)
			run := k.start(g, "a", 1)[0]
			grant := k.claim(pod, 1)[0]
			if c.change == "update" {
				k.activated(pod, g, grant, nil)
				grant = k.hears(pod, run, "one")
			}
			record := k.activation(pod, g, grant)
			charge(record.Transitions[0].Activation)
			k.skip(c.table, c.change, c.result)
			_, err := k.store.RecordTransitions(k.ctx, record)
			require.ErrorIs(t, err, persistence.ErrUnavailable)
			k.exec("drop function {schema}.skip() cascade")
			require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
			k.requireSound()
		})
	}
}

// A state that cannot be read stops no other machine: its run rests, and is granted again once it can.
func TestAStateThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	g := storetest.Order()
	k, pod := withPod(t, g)
	var runs []workflow.RunID
	for range 3 {
		run := k.start(g, "a", 1)[0]
		record := k.activation(pod, g, k.claim(pod, 1)[0])
		record.Transitions[0].Activation.State = []byte(noise())
		k.send(record)
		k.signal(signalOf(run, "noted", "one"))
		runs = append(runs, run)
	}
	require.Equal(t, 3, k.drain(10).Delivered)
	k.lose("machines", 1)
	request := k.request(pod, 10)
	grants := k.claimed(request).Grants
	require.Len(t, grants, 2)
	require.Equal(t, 1, k.store.quarantine.Met(quarantine.Unreadable))
	require.Len(t, k.claimed(request).Grants, 2, "the claim is asked again")
	for _, grant := range grants {
		require.EqualValues(t, 1, grant.Machine.Version)
		k.activated(pod, g, grant, nil)
	}
	at := slices.IndexFunc(runs, func(run workflow.RunID) bool { return grants[0].Task.Run != run && grants[1].Task.Run != run })
	k.exec(`update {schema}.machines set state = 'null' where run_id = $1`, [16]byte(runs[at]))
	k.endRests()
	grants = k.claimed(request).Grants
	require.Len(t, grants, 1)
	require.Equal(t, "null", string(grants[0].Machine.State))
	k.activated(pod, g, grants[0], nil)
	k.requireSound()
}

// BenchmarkActivations compares activations of a machine that has handled 100,000 entries, and of which
// 12,000 are kept, with those of one that has handled a few, in turns: an activation hears of one
// signal, is granted, and recorded with a state.
func BenchmarkActivations(b *testing.B) {
	g := storetest.Order()
	k := newFixture(openDatabase(b, Options{}), g)
	pod := k.join(time.Hour)
	runs := []workflow.RunID{k.machine(pod, g), k.machine(pod, g)}
	k.ages(runs[1])
	k.exec("analyze {schema}.tasks, {schema}.inbox, {schema}.map_items, {schema}.machines")
	took := make([][]time.Duration, len(runs))
	for i := range b.N {
		for j := range runs {
			at := (i + j) % len(runs)
			k.signal(signalOf(runs[at], "noted", fmt.Sprintf("%d", i)))
			k.drain(10)
			begun := time.Now()
			grants := k.claim(pod, 1)
			require.Len(b, grants, 1)
			k.activated(pod, g, grants[0], nil)
			took[at] = append(took[at], time.Since(begun))
		}
	}
	var medians, means []float64
	for _, list := range took {
		sum := time.Duration(0)
		for _, d := range list {
			sum += d
		}
		slices.Sort(list)
		medians, means = append(medians, list[len(list)/2].Seconds()), append(means, sum.Seconds()/float64(len(list)))
	}
	b.ReportMetric(medians[1]*1e6, "µs/old")
	b.ReportMetric(medians[0]*1e6, "µs/young")
	b.ReportMetric(medians[1]/medians[0], "old/young")
	b.ReportMetric(means[1]/means[0], "old/young(mean)")
}
