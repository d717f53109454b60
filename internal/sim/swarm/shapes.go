package swarm

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// shape is one workflow of the load.
type shape struct {
	graph *workflow.Graph
	tasks int
	inTx  map[string]bool
	retry map[string]workflow.RetryPolicy
	maps  map[string]mapping // by step
	rules *rules             // of a machine
}

func compile(d workflow.Definition) *shape {
	if d.Policy == 0 {
		d.Policy = workflow.FailFast
	}
	s := &shape{tasks: len(d.Steps), inTx: map[string]bool{}, retry: map[string]workflow.RetryPolicy{}}
	for i := range d.Steps {
		step := &d.Steps[i]
		if step.Kind == 0 {
			step.Kind = workflow.Func
		}
		if (step.Kind == workflow.Func || step.Kind == workflow.Map || step.Kind == workflow.Machine) && step.Options.Retry.Attempts == 0 {
			step.Options.Retry = workflow.RetryPolicy{Attempts: 4, First: 100 * time.Millisecond, Cap: 5 * time.Second}
		}
		s.inTx[step.Name], s.retry[step.Name] = step.Options.InTx, step.Options.Retry
	}
	graph, err := workflow.NewGraph(&d)
	if err != nil {
		panic(fmt.Sprintf("shape %s: %v", d.Name, err))
	}
	s.graph = graph
	return s
}

func edges(kind workflow.EdgeKind, parents ...int) []workflow.Edge {
	list := make([]workflow.Edge, len(parents))
	for i, p := range parents {
		list[i] = workflow.Edge{Parent: p, Kind: kind}
	}
	return list
}

func plain(parents ...int) []workflow.Edge { return edges(workflow.Plain, parents...) }

// shapes returns the workflows of the load, of one version. The second version
// is what a deployment brings: orders have a step more.
func shapes(version int) []*shape {
	return slices.Concat([]*shape{
		single(), chain(5), diamond(), fan(6), orders(version), nap(), until(), mixed(),
		skipping(), inTx(), elsewhere(), impatient(), approval(),
	}, parents(version), wide(), machines(version))
}

// wides is how many of the workflows, the last ones but for machines, have maps.
const wides = 4

// known is how many of the workflows a pod registers that does not register all.
const known = 8

func single() *shape {
	return compile(workflow.Definition{Name: "single", Steps: []workflow.Step{{Name: "a"}}})
}

func chain(steps int) *shape {
	d := workflow.Definition{Name: "chain", Output: steps - 1}
	for i := range steps {
		step := workflow.Step{Name: fmt.Sprintf("s%d", i)}
		if i > 0 {
			step.Parents = plain(i - 1)
		}
		d.Steps = append(d.Steps, step)
	}
	return compile(d)
}

func diamond() *shape {
	return compile(workflow.Definition{Name: "diamond", Output: 3, Steps: []workflow.Step{
		{Name: "a"}, {Name: "b", Parents: plain(0)}, {Name: "c", Parents: plain(0)}, {Name: "d", Parents: plain(2, 1)},
	}})
}

func fan(leaves int) *shape {
	d := workflow.Definition{Name: "fan", Output: leaves + 1, Steps: []workflow.Step{{Name: "root"}}}
	join := workflow.Step{Name: "join"}
	for i := range leaves {
		d.Steps = append(d.Steps, workflow.Step{Name: fmt.Sprintf("l%d", i), Parents: plain(0)})
		join.Parents = append(join.Parents, plain(i+1)...)
	}
	d.Steps = append(d.Steps, join)
	return compile(d)
}

// orders is the order of a shop: it is valid or not, waits for a while in case
// of fraud, is charged, and shipped or refused.
func orders(version int) *shape {
	d := workflow.Definition{Name: "orders", Output: 5, Policy: workflow.FinishSiblings, Steps: []workflow.Step{
		{Name: "validate"},
		{Name: "wait", Kind: workflow.Sleep, Sleep: 20 * time.Second, Parents: nil, After: plain(0), Conditions: []workflow.Condition{{Kind: workflow.Then}}},
		{Name: "charge", Parents: plain(0), After: plain(1), Options: workflow.Options{Retry: workflow.RetryPolicy{Attempts: 5, First: time.Second}}},
		{Name: "ship", Parents: plain(2)},
		{Name: "refuse", Parents: plain(0), Conditions: []workflow.Condition{{Kind: workflow.Otherwise}}},
		{Name: "tell", Parents: edges(workflow.Maybe, 3, 4)},
	}, OnFailure: &workflow.Step{Name: "refund", Kind: workflow.Func}}
	if version > 1 {
		d.Steps = append(d.Steps, workflow.Step{Name: "survey", Parents: plain(5)})
	}
	return compile(d)
}

func nap() *shape {
	return compile(workflow.Definition{Name: "nap", Output: 2, Steps: []workflow.Step{
		{Name: "before"},
		{Name: "nap", Kind: workflow.Sleep, After: plain(0), Sleep: 8 * time.Second},
		{Name: "after", Parents: plain(0), After: plain(1)},
	}})
}

func until() *shape {
	return compile(workflow.Definition{Name: "until", Output: 2, Steps: []workflow.Step{
		{Name: "tell"},
		{Name: "until", Kind: workflow.SleepUntil, WakeFrom: 0},
		{Name: "after", After: plain(1)},
	}})
}

// mixed has one of each that a failure may meet.
func mixed() *shape {
	return compile(workflow.Definition{
		Name: "mixed", Output: 4,
		Steps: []workflow.Step{
			{Name: "bad", Options: workflow.Options{Retry: workflow.RetryPolicy{Attempts: 1}}},
			{Name: "child", Parents: plain(0)},
			{Name: "watch", Parents: edges(workflow.Settled, 0)},
			{Name: "side"},
			{Name: "tail", Parents: plain(3)},
			{Name: "start"},
			{Name: "nap", Kind: workflow.Sleep, After: plain(5), Sleep: 15 * time.Second},
		},
		OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
	})
}

func skipping() *shape {
	return compile(workflow.Definition{Name: "skipping", Output: 3, Steps: []workflow.Step{
		{Name: "choose"},
		{Name: "maybe", Parents: plain(0), Conditions: []workflow.Condition{{Kind: workflow.SkipIf}}},
		{Name: "strict", Parents: plain(1)},
		{Name: "last", Parents: edges(workflow.Maybe, 2)},
		{Name: "always", Parents: edges(workflow.Maybe, 1), RunIfAllSkipped: true},
	}})
}

func inTx() *shape {
	return compile(workflow.Definition{Name: "intx", Output: 1, Steps: []workflow.Step{
		{Name: "a", Options: workflow.Options{InTx: true}}, {Name: "b", Parents: plain(0), Options: workflow.Options{InTx: true}},
	}})
}

func elsewhere() *shape {
	return compile(workflow.Definition{Name: "elsewhere", Output: 1, Steps: []workflow.Step{
		{Name: "here"}, {Name: "there", Parents: plain(0), Options: workflow.Options{Queue: "gpu"}},
	}})
}

func impatient() *shape {
	return compile(workflow.Definition{Name: "impatient", Output: 1, Steps: []workflow.Step{
		{Name: "a", Options: workflow.Options{ScheduleToStart: 3 * time.Second}},
		{Name: "b", Parents: edges(workflow.Settled, 0)},
	}})
}

// signalNeeded is the signal without which a run does not go on.
const signalNeeded = "approved"

// approval waits for three signals: the first has to come, without the second the run continues, and
// without the third a step fails. A condition looks at the first.
func approval() *shape {
	wait := func(name, signal string, most time.Duration, after ...int) workflow.Step {
		return workflow.Step{Name: name, Kind: workflow.Wait, Signal: signal, Sleep: most, After: plain(after...)}
	}
	remind := wait("remind", "reminded", 10*time.Second)
	remind.SkipLate = true
	return compile(workflow.Definition{Name: "approval", Output: 2, Steps: []workflow.Step{
		{Name: "ask"},
		wait("approve", signalNeeded, 0, 0),
		{Name: "ship", Parents: plain(1), Conditions: []workflow.Condition{{Kind: workflow.SkipIf, Ref: 1}}},
		remind,
		{Name: "note", Parents: edges(workflow.Maybe, 3), RunIfAllSkipped: true},
		wait("confirm", "confirmed", 15*time.Second),
		{Name: "watch", Parents: edges(workflow.Settled, 5)},
	}})
}
