package storetest

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Graph compiles a definition of a test and panics if it is not valid.
func Graph(d workflow.Definition) *workflow.Graph {
	if d.Policy == 0 {
		d.Policy = workflow.FailFast
	}
	for i := range d.Steps {
		if d.Steps[i].Kind == 0 {
			d.Steps[i].Kind = workflow.Func
		}
	}
	g, err := workflow.NewGraph(&d)
	if err != nil {
		panic(err)
	}
	return g
}

func plain(parents ...int) []workflow.Edge { return edges(workflow.Plain, parents) }

func maybe(parents ...int) []workflow.Edge { return edges(workflow.Maybe, parents) }

func settled(parents ...int) []workflow.Edge { return edges(workflow.Settled, parents) }

func edges(kind workflow.EdgeKind, parents []int) []workflow.Edge {
	list := make([]workflow.Edge, len(parents))
	for i, p := range parents {
		list[i] = workflow.Edge{Parent: p, Kind: kind}
	}
	return list
}

// Single is one step: a.
func Single() *workflow.Graph {
	return Graph(workflow.Definition{Name: "single", Steps: []workflow.Step{{Name: "a"}}})
}

// Chain is the steps s0 → s1 → … of the given number.
func Chain(steps int) *workflow.Graph { return chain(fmt.Sprintf("chain%d", steps), steps) }

// Versioned is version 1, 2, … of a workflow: a chain that grows by a step.
func Versioned(version int) *workflow.Graph { return chain("versioned", version) }

func chain(name string, steps int) *workflow.Graph {
	d := workflow.Definition{Name: name, Output: steps - 1}
	for i := range steps {
		step := workflow.Step{Name: fmt.Sprintf("s%d", i)}
		if i > 0 {
			step.Parents = plain(i - 1)
		}
		d.Steps = append(d.Steps, step)
	}
	return Graph(d)
}

// Diamond is a → b, c → d; d takes c before b.
func Diamond() *workflow.Graph {
	return Graph(workflow.Definition{Name: "diamond", Output: 3, Steps: []workflow.Step{
		{Name: "a"}, {Name: "b", Parents: plain(0)}, {Name: "c", Parents: plain(0)}, {Name: "d", Parents: plain(2, 1)},
	}})
}

// Fan is root → the given number of leaves l0, l1, … → join.
func Fan(leaves int) *workflow.Graph {
	d := workflow.Definition{Name: fmt.Sprintf("fan%d", leaves), Output: leaves + 1, Steps: []workflow.Step{{Name: "root"}}}
	join := workflow.Step{Name: "join"}
	for i := range leaves {
		d.Steps = append(d.Steps, workflow.Step{Name: fmt.Sprintf("l%d", i), Parents: plain(0)})
		join.Parents = append(join.Parents, plain(i+1)...)
	}
	d.Steps = append(d.Steps, join)
	return Graph(d)
}

// Branch is choose → yes → more, or choose → no; merge takes whichever of more
// and no was not skipped.
func Branch() *workflow.Graph {
	return Graph(workflow.Definition{Name: "branch", Output: 4, Steps: []workflow.Step{
		{Name: "choose"},
		{Name: "yes", Parents: plain(0), Conditions: []workflow.Condition{{Kind: workflow.Then}}},
		{Name: "more", Parents: plain(1)},
		{Name: "no", Parents: plain(0), Conditions: []workflow.Condition{{Kind: workflow.Otherwise}}},
		{Name: "merge", Parents: maybe(2, 3)},
	}})
}

// Nap is before → nap (a sleep) → after.
func Nap(length time.Duration) *workflow.Graph {
	return Graph(workflow.Definition{Name: "nap" + length.String(), Output: 2, Steps: []workflow.Step{
		{Name: "before"},
		{Name: "nap", Kind: workflow.Sleep, After: plain(0), Sleep: length},
		{Name: "after", Parents: plain(0), After: plain(1)},
	}})
}

// Until is tell → until (a sleep whose instant tell gives) → after.
func Until() *workflow.Graph {
	return Graph(workflow.Definition{Name: "until", Output: 2, Steps: []workflow.Step{
		{Name: "tell"},
		{Name: "until", Kind: workflow.SleepUntil, WakeFrom: 0},
		{Name: "after", After: plain(1)},
	}})
}

// Mixed is one of each that a failure may meet, under the given policy: bad →
// child (plain) and bad → watch (Settled), side → tail, a sleep nap, and the
// failure handler rescue.
func Mixed(policy workflow.FailurePolicy) *workflow.Graph {
	return Graph(workflow.Definition{
		Name: fmt.Sprintf("mixed%d", policy), Policy: policy, Output: 4,
		Steps: []workflow.Step{
			{Name: "bad"},
			{Name: "child", Parents: plain(0)},
			{Name: "watch", Parents: settled(0)},
			{Name: "side"},
			{Name: "tail", Parents: plain(3)},
			{Name: "start"},
			{Name: "nap", Kind: workflow.Sleep, After: plain(5), Sleep: time.Hour},
		},
		OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
	})
}

// Handled is try → report (Settled): a failure of try is handled.
func Handled() *workflow.Graph {
	return Graph(workflow.Definition{Name: "handled", Output: 1, Steps: []workflow.Step{
		{Name: "try"}, {Name: "report", Parents: settled(0)},
	}})
}

// InputBranch is yes or no, by a condition on the input, then merge.
func InputBranch() *workflow.Graph {
	onInput := func(kind workflow.ConditionKind) []workflow.Condition {
		return []workflow.Condition{{Kind: kind, Ref: workflow.Input}}
	}
	return Graph(workflow.Definition{Name: "inputbranch", Output: 2, Steps: []workflow.Step{
		{Name: "yes", Conditions: onInput(workflow.Then)},
		{Name: "no", Conditions: onInput(workflow.Otherwise)},
		{Name: "merge", Parents: maybe(0, 1)},
	}})
}

// Skipping is maybe, which choose can skip (SkipIf) → strict (plain) → last
// (Maybe), and always (RunIfAllSkipped) after maybe.
func Skipping() *workflow.Graph {
	return Graph(workflow.Definition{Name: "skipping", Output: 3, Steps: []workflow.Step{
		{Name: "choose"},
		{Name: "maybe", Parents: plain(0), Conditions: []workflow.Condition{{Kind: workflow.SkipIf}}},
		{Name: "strict", Parents: plain(1)},
		{Name: "last", Parents: maybe(2)},
		{Name: "always", Parents: maybe(1), RunIfAllSkipped: true},
	}})
}

// Impatient is one step that waits in the queue for at most the given time.
func Impatient(wait time.Duration) *workflow.Graph {
	return Graph(workflow.Definition{Name: "impatient", Steps: []workflow.Step{
		{Name: "a", Options: workflow.Options{ScheduleToStart: wait}},
	}})
}

// Elsewhere is here → there; there waits in the queue "gpu".
func Elsewhere() *workflow.Graph {
	return Graph(workflow.Definition{Name: "elsewhere", Output: 1, Steps: []workflow.Step{
		{Name: "here"}, {Name: "there", Parents: plain(0), Options: workflow.Options{Queue: "gpu"}},
	}})
}

// Graphs returns every graph of this file, for tests that want variety.
func Graphs() []*workflow.Graph {
	return []*workflow.Graph{
		Single(), Chain(4), Diamond(), Fan(5), Branch(), Nap(time.Minute), Until(), Mixed(workflow.FailFast),
		Mixed(workflow.FinishSiblings), Handled(), InputBranch(), Skipping(), Impatient(time.Minute), Elsewhere(), Growing(), GrowingRescued(),
	}
}
