package lifecycle

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// diamondPlan is a → b, c → d; in its slow variant c is skipped by a condition.
func diamondPlan() plan {
	return plan{policy: workflow.FailFast, steps: []planStep{
		{name: "a"},
		{name: "b", edges: []planEdge{{parent: 0, kind: workflow.Plain}}},
		{name: "c", edges: []planEdge{{parent: 0, kind: workflow.Plain}}},
		{name: "d", edges: []planEdge{{parent: 1, kind: workflow.Maybe}, {parent: 2, kind: workflow.Maybe}}},
	}}
}

// BenchmarkDecideSmall is the slow path of workflows as people write them: the
// reported task and its children are what was loaded.
func BenchmarkDecideSmall(b *testing.B) {
	report := TaskReported{Epoch: 2, Pod: 1, Kind: Succeeded}
	skip, retry := report, report
	skip.Edges = []EdgeFlag{{Child: 2, Flags: FlagSkip}}
	retry.Kind, retry.Retry, retry.RetryIn = Errored, true, time.Second
	for _, bench := range []struct {
		name string
		fact Fact
	}{
		{"succeeded", report},
		{"branch", skip},
		{"retry", retry},
		{"failed", TaskReported{Epoch: 2, Pod: 1, Kind: Errored, Class: "c", Error: "e"}},
		{"cancel", CancelRequested{Reason: "r", By: "b"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			run, tasks := started(b, diamondPlan())
			facts := []Fact{bench.fact}
			b.ReportAllocs()
			for b.Loop() {
				Decide(run, Rows{Tasks: tasks, Complete: true}, facts, time.Time{})
			}
		})
	}
}

// BenchmarkDecideRun decides all that happens to one diamond.
func BenchmarkDecideRun(b *testing.B) {
	g := diamondPlan().graph()
	fresh := make([]Task, len(g.Nodes))
	for i := range g.Nodes {
		fresh[i] = NewTask(int32(i), &g.Nodes[i])
	}
	tasks := make([]Task, len(fresh))
	b.ReportAllocs()
	for b.Loop() {
		copy(tasks, fresh)
		d := Decide(NewRun(g), Rows{Tasks: tasks, Complete: true}, []Fact{RunStarted{}}, time.Time{})
		for ready := d.Enqueued; len(ready) > 0; ready = d.Enqueued {
			for _, t := range d.Tasks {
				tasks[t.Step] = t
			}
			facts := make([]Fact, len(ready))
			for i, place := range ready {
				tasks[place.Step], _ = Claim(tasks[place.Step], 1, time.Time{})
				facts[i] = TaskReported{Step: place.Step, Epoch: tasks[place.Step].Epoch, Pod: 1, Kind: Succeeded}
			}
			d = Decide(d.Run, Rows{Tasks: tasks, Complete: true}, facts, time.Time{})
		}
		if !d.Ended {
			b.Fatal("the run has not ended")
		}
	}
}

func BenchmarkVerdict(b *testing.B) {
	edges := []workflow.Child{{Kind: workflow.Plain}, {Kind: workflow.Maybe, Conditioned: true}, {Kind: workflow.Settled}}
	b.ReportAllocs()
	for b.Loop() {
		var flags Flags
		for _, edge := range edges {
			flags |= EdgeFlags(edge, Completed)
		}
		if DecideVerdict(flags, 0, 3) != VerdictRun {
			b.Fatal("wrong verdict")
		}
	}
}

func BenchmarkFairID(b *testing.B) {
	b.ReportAllocs()
	block := int64(0)
	for b.Loop() {
		block = NextBlock(block, 3)
		if group, _, _ := SplitFairID(FairID(77, LaneNew, block)); group != 77 {
			b.Fatal("another group")
		}
	}
}

func BenchmarkRetryDelay(b *testing.B) {
	policy := workflow.RetryPolicy{Attempts: 10, First: time.Second, Factor: 2, Cap: time.Minute, Jitter: 0.1}
	b.ReportAllocs()
	attempt := int32(0)
	for b.Loop() {
		attempt = attempt%9 + 1
		if RetryDelay(policy, attempt, 0.5) <= 0 {
			b.Fatal("no delay")
		}
	}
}
