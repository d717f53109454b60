package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// chain is a root and a row of steps behind it.
func chain(length int) plan {
	p := plan{policy: workflow.FailFast, steps: []planStep{{name: "s0"}}}
	for i := 1; i < length; i++ {
		p.steps = append(p.steps, planStep{name: fmt.Sprintf("s%d", i), edges: []planEdge{{parent: i - 1, kind: workflow.Plain}}})
	}
	return p
}

// fan is a root, wide steps that hang on it, and one that joins them.
func fan() plan {
	p := plan{policy: workflow.FailFast, steps: []planStep{{name: "root"}}}
	join := planStep{name: "join"}
	for i := 1; i <= wide; i++ {
		p.steps = append(p.steps, planStep{name: fmt.Sprintf("s%d", i), edges: []planEdge{{parent: 0, kind: workflow.Plain}}})
		join.edges = append(join.edges, planEdge{parent: i, kind: workflow.Maybe})
	}
	p.steps = append(p.steps, join)
	return p
}

// started returns a run of p whose root runs.
func started(tb testing.TB, p plan) (Run, []Task) {
	tb.Helper()
	g := p.graph()
	tasks := make([]Task, len(g.Nodes))
	for i := range g.Nodes {
		tasks[i] = NewTask(int32(i), &g.Nodes[i])
	}
	d := Decide(NewRun(g), Rows{Tasks: tasks, Complete: true}, []Fact{RunStarted{}}, time.Time{})
	require.Len(tb, d.Enqueued, 1)
	tasks[0], _ = Claim(d.Tasks[0], 1, time.Time{})
	return d.Run, tasks
}

const (
	deep = 10_000
	wide = 5_000
)

func TestDeepSkipChain(t *testing.T) {
	t.Parallel()
	run, tasks := started(t, chain(deep))
	skip := TaskReported{Epoch: 2, Pod: 1, Kind: Succeeded, Edges: []EdgeFlag{{Child: 1, Flags: FlagSkip}}}
	d := Decide(run, Rows{Tasks: tasks, Complete: true}, []Fact{skip}, time.Time{})
	require.True(t, d.Ended)
	require.Equal(t, Completed, d.Run.State)
	require.Len(t, d.Tasks, deep)
	require.Equal(t, Skipped, d.Tasks[deep-1].State)
}

func TestWideFanOut(t *testing.T) {
	t.Parallel()
	run, tasks := started(t, fan())
	d := Decide(run, Rows{Tasks: tasks, Complete: true}, []Fact{TaskReported{Epoch: 2, Pod: 1, Kind: Succeeded}}, time.Time{})
	require.Len(t, d.Enqueued, wide)
	require.EqualValues(t, 1, d.Run.Remaining)

	for _, task := range d.Tasks {
		tasks[task.Step] = task
	}
	var facts []Fact
	for step := int32(1); step <= wide; step++ {
		tasks[step], _ = Claim(tasks[step], 1, time.Time{})
		facts = append(facts, TaskReported{Step: step, Epoch: 2, Pod: 1, Kind: Succeeded})
	}
	d = Decide(d.Run, Rows{Tasks: tasks, Complete: true}, facts, time.Time{})
	require.Equal(t, []Enqueue{{Step: wide + 1}}, d.Enqueued, "the join becomes ready once")
}

// TestFailureAfterFanOut makes many tasks ready and takes them back, all in
// one decision.
func TestFailureAfterFanOut(t *testing.T) {
	t.Parallel()
	p := fan()
	p.steps = append(p.steps, planStep{name: "bad"})
	g := p.graph()
	tasks := make([]Task, len(g.Nodes))
	for i := range g.Nodes {
		tasks[i] = NewTask(int32(i), &g.Nodes[i])
	}
	d := Decide(NewRun(g), Rows{Tasks: tasks, Complete: true}, []Fact{RunStarted{}}, time.Time{})
	for _, task := range d.Tasks {
		tasks[task.Step], _ = Claim(task, 1, time.Time{})
	}
	d = Decide(d.Run, Rows{Tasks: tasks, Complete: true}, []Fact{
		TaskReported{Epoch: 2, Pod: 1, Kind: Succeeded},
		TaskReported{Step: wide + 2, Epoch: 2, Pod: 1, Kind: Errored},
	}, time.Time{})
	require.Empty(t, d.Enqueued)
	require.True(t, d.Ended)
	require.Equal(t, Failed, d.Run.State)
}

func BenchmarkDecide(b *testing.B) {
	report := TaskReported{Epoch: 2, Pod: 1, Kind: Succeeded}
	skip := report
	skip.Edges = []EdgeFlag{{Child: 1, Flags: FlagSkip}}
	for _, bench := range []struct {
		name string
		plan plan
		fact Fact
	}{
		{"one step", chain(1), report},
		{"chain of 10000 skipped", chain(deep), skip},
		{"fan of 5000 enqueued", fan(), report},
		{"fan of 5000 canceled", fan(), TaskReported{Epoch: 2, Pod: 1, Kind: Errored}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			run, tasks := started(b, bench.plan)
			b.ReportAllocs()
			for b.Loop() {
				Decide(run, Rows{Tasks: tasks, Complete: true}, []Fact{bench.fact}, time.Time{})
			}
		})
	}
}
