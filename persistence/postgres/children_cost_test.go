package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// lone is a wait for a signal: a run of it needs no pod until that comes.
func lone() *workflow.Graph {
	return storetest.Graph(workflow.Definition{Name: "lone", Steps: []workflow.Step{{Name: "gate", Kind: workflow.Wait, Signal: "go"}}})
}

// herdSize is how many child runs a parent has, where there are many parents.
const herdSize = 1000

// herd is make and n child runs of lone behind it.
func herd(n int) *workflow.Graph {
	steps := []workflow.Step{{Name: "make"}}
	spec := workflow.ChildSpec{Workflow: "lone", Output: workflow.OutputOf{Workflow: "lone", Step: "gate"}}
	for i := range n {
		steps = append(steps, workflow.Step{
			Name: fmt.Sprintf("c%d", i), Kind: workflow.ChildRun, Child: spec, Parents: []workflow.Edge{{Parent: 0, Kind: workflow.Plain}},
		})
	}
	return storetest.Graph(workflow.Definition{Name: fmt.Sprintf("herd%d", n), Output: 1, Policy: workflow.FinishSiblings, Steps: steps})
}

// drainAll begins and tells all that the intake has, in batches.
func (k *fixture) drainAll(limit int) (begun int) {
	k.t.Helper()
	for more := true; more; {
		out := k.drain(limit)
		begun, more = begun+out.Count, out.More
	}
	return begun
}

// The cancel of a run with many child runs is one transaction of that run, of as many statements
// as that of a run with few. Its child runs are canceled in transactions of a bounded number each,
// and other runs go on between them.
func TestACancelReachesManyChildRunsInBoundedBatches(t *testing.T) {
	t.Parallel()
	const batch = 200
	var sent counter
	n, few := pgtest.Scale(1000, 10_000), 10
	many, some, child, single := herd(n), herd(few), lone(), storetest.Single()
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), many, some, child, single)
	pod := k.join(time.Hour)
	cancel := func(g *workflow.Graph) (statements []string) {
		t.Helper()
		run := k.start(g, "a", 1)[0]
		require.Len(t, k.begin(pod, child, len(g.Nodes)-1), len(g.Nodes)-1)
		require.Positive(t, k.drain(batch).Count, "some of its child runs begin, and the others have not begun")
		sent.take()
		within(t, 5*time.Second, func() { k.cancel(persistence.Cancel{Run: run, By: "api", Grace: time.Minute}) })
		require.Equal(t, lifecycle.Canceled, k.state(run))
		return slices.DeleteFunc(sent.take(), func(name string) bool { return name == "select" }) // goes ahead of what is large
	}
	usual := cancel(some)
	k.drainAll(batch)
	require.Equal(t, usual, cancel(many))

	others, ended, largest := 0, 0, time.Duration(0)
	for more := true; more; {
		began := time.Now()
		out := k.drain(batch)
		largest = max(largest, time.Since(began))
		require.LessOrEqual(t, len(out.Wake.Ended), batch)
		ended, more = ended+len(out.Wake.Ended), out.More
		if more {
			other := k.start(single, "b", 1)[0]
			k.finish(pod)
			require.Equal(t, lifecycle.Completed, k.state(other))
			others++
		}
	}
	pgtest.Within(t, 5*time.Second, largest, "the longest batch")
	require.Equal(t, n, ended)
	require.GreaterOrEqual(t, others, n/batch-1)
	require.Zero(t, value[int](k.database, "select count(*)::int from {schema}.workflow_runs where parent_run is not null and state <> $1", int16(lifecycle.Canceled)))
	k.requireSound()
}

// The same holds for steps that wait for child runs. The leader looks at all of them now and
// then, in pages, each of which reads its own steps and their child runs.
func TestStepsThatWaitForChildRunsCostIdlePodsNothing(t *testing.T) {
	t.Parallel()
	waiting := pgtest.Scale(3000, 100_000)
	many, child := herd(herdSize), lone()
	k, epoch, seen := costNothing(t, waiting, []*workflow.Graph{many, child}, func(k *fixture, n int) {
		pod := k.join(time.Hour)
		k.start(many, "b", n/herdSize)
		require.Len(k.t, k.begin(pod, child, n), n)
		require.Equal(k.t, n, k.drainAll(200))
		k.leave(pod)
	})
	require.NoError(t, k.analyze(k.ctx))
	const page = 1000
	var after workflow.TaskID
	for looked := page; ; looked += page {
		seen.take()
		out, err := k.store.WakeParents(k.ctx, epoch, after, page)
		require.NoError(t, err)
		require.Zero(t, out.Count)
		cost := k.explained(seen.take())
		require.LessOrEqual(t, cost.rows, 2*page+float64(len(cost.names)), "steps and their child runs")
		after = out.Next
		if after == (workflow.TaskID{}) {
			require.GreaterOrEqual(t, looked, waiting)
			t.Logf("the last of %d pages: %+v", looked/page, cost)
			break
		}
		require.Less(t, looked, waiting)
	}
}

// The end of a child run needs a decision: the statement for runs that need none is not tried.
func TestEndsOfChildRunsAreDecidedAtOnce(t *testing.T) {
	t.Parallel()
	var sent counter
	parent, child := storetest.Many(3), storetest.Single()
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), parent, child)
	pod := k.join(time.Hour)
	runs := k.start(parent, "a", 1)
	k.begin(pod, child, 3)
	k.drainAll(10)
	grants := append(k.claim(pod, 3), k.claim(pod, 3)...)
	require.Len(t, k.store.recent.Runs, 4)
	sent.take()
	k.complete(pod, grants...)
	statements := sent.take()
	require.Contains(t, statements, "tell_family")
	require.NotContains(t, statements, "record_fast")
	require.NotContains(t, statements, "record_small")
	require.Len(t, k.store.recent.Runs, 1, "the parent: they have ended")
	k.drainAll(10)
	k.ends(pod, runs)
}

// What a run is to hear stays free for the pod that has locked the run: a delivery that meets
// nothing but locked runs is undone.
func TestADeliveryToLockedRunsIsUndone(t *testing.T) {
	t.Parallel()
	var sent counter
	parent, child := storetest.Many(2), storetest.Single()
	k := newFixture(openDatabase(t, Options{Tracer: &sent}), parent, child)
	pod := k.join(time.Hour)
	runs := k.start(parent, "a", 1)
	k.begin(pod, child, 2)
	k.drainAll(10)
	k.finish(pod)
	release := k.hold("select from {schema}.workflow_runs where id = $1 for no key update", [16]byte(runs[0]))
	sent.take()
	out := k.drain(10)
	require.Positive(t, out.Again)
	require.Zero(t, out.Wake)
	statements := sent.take()
	require.Contains(t, statements, "take_signals")
	require.Contains(t, statements, "rollback")
	require.NotContains(t, statements, "delete_intake")
	release()
	k.drain(10)
	k.ends(pod, runs)
}
