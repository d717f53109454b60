package lifecycle

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// plan is a workflow as tests write it down. Parents come first.
type plan struct {
	steps      []planStep
	policy     workflow.FailurePolicy
	hasHandler bool
	depth      int16 // so many runs are above it
}

type planStep struct {
	name         string
	edges        []planEdge
	traits       workflow.Traits
	sleep        time.Duration
	startTimeout time.Duration
	signal       string
}

type planEdge struct {
	parent      int
	kind        workflow.EdgeKind
	conditioned bool
}

// graph builds what a definition would be compiled to.
func (p plan) graph() *workflow.Graph {
	g := &workflow.Graph{Name: "plan", Policy: p.policy, Nodes: make([]workflow.Node, len(p.steps))}
	for i, step := range p.steps {
		node := &g.Nodes[i]
		node.Name, node.Kind, node.Traits = step.name, workflow.Func, step.traits
		node.Sleep, node.StartTimeout, node.Signal = step.sleep, step.startTimeout, step.signal
		switch {
		case step.traits.Has(workflow.TraitSleep):
			node.Kind = workflow.Sleep
		case step.traits.Has(workflow.TraitSleepUntil):
			node.Kind = workflow.SleepUntil
		case step.traits.Has(workflow.TraitWaits):
			node.Kind = workflow.Wait
		case step.traits.Has(workflow.TraitChild):
			node.Kind = workflow.ChildRun
		case step.traits.Has(workflow.TraitMap):
			node.Kind = workflow.Map
		case step.traits.Has(workflow.TraitMachine):
			node.Kind = workflow.Machine
		}
		node.Pending = int32(len(step.edges))
		for _, e := range step.edges {
			if e.kind == workflow.Settled {
				node.Traits |= workflow.TraitHoldsSettled
			}
			parent := &g.Nodes[e.parent]
			if e.conditioned && (parent.Kind == workflow.Wait || parent.Kind == workflow.ChildRun) {
				parent.Traits |= workflow.TraitJudged
			}
			parent.Children = append(parent.Children, workflow.Child{Step: int32(i), Kind: e.kind, Conditioned: e.conditioned})
		}
	}
	if p.hasHandler {
		g.OnFailure = &workflow.Node{Name: "handler", Kind: workflow.Func, Traits: workflow.TraitOnFailure}
	}
	return g
}

// name returns the name of a step of the plan, of its handler or of the run.
func (p plan) name(step int32) string {
	switch {
	case step == RunStep:
		return "run"
	case int(step) == len(p.steps):
		return "handler"
	}
	return p.steps[step].name
}

// source chooses for tests that drive runs at random.
type source interface {
	IntN(n int) int
}

// chance is true once in n times.
func chance(s source, n int) bool { return s.IntN(n) == 0 }

func pick[E any](s source, from ...E) E { return from[s.IntN(len(from))] }

// bytesSource lets a fuzzer choose: it reads one byte per choice, then zeros.
type bytesSource struct{ left []byte }

func (b *bytesSource) IntN(n int) int {
	if len(b.left) == 0 {
		return 0
	}
	choice := int(b.left[0]) % n
	b.left = b.left[1:]
	return choice
}

// randomPlan makes a graph of at most most steps with all kinds of edges,
// conditions and traits.
func randomPlan(s source, most int) plan {
	p := plan{
		policy:     pick(s, workflow.FailFast, workflow.FinishSiblings),
		hasHandler: chance(s, 3),
		depth:      pick[int16](s, 0, 0, 0, 0, 1, DepthMax-1, DepthMax),
	}
	for i := range 1 + s.IntN(most) {
		step := planStep{name: fmt.Sprintf("s%d", i)}
		for parent := range i {
			if chance(s, 3) {
				const timer = workflow.TraitSleep | workflow.TraitSleepUntil // has no output for conditions
				step.edges = append(step.edges, planEdge{
					parent: parent, kind: pick(s, workflow.Plain, workflow.Maybe, workflow.Settled),
					conditioned: p.steps[parent].traits&timer == 0 && chance(s, 4),
				})
			}
		}
		switch s.IntN(12) {
		case 0:
			step.traits, step.sleep = workflow.TraitSleep, time.Minute
		case 1:
			step.traits = workflow.TraitSleepUntil
		case 2:
			step.startTimeout = time.Minute
		case 3:
			step.traits = workflow.TraitRunIfAllSkipped
		case 4:
			step.traits, step.signal = workflow.TraitWaits, pick(s, "x", "y")
			if chance(s, 2) {
				step.sleep = time.Hour
				step.traits |= pick(s, 0, workflow.TraitSkipsLate)
			}
		case 5, 6:
			if i > 0 { // a parent gives its input
				if len(step.edges) == 0 {
					step.edges = []planEdge{{parent: s.IntN(i), kind: workflow.Plain}}
				}
				step.traits = workflow.TraitChild | pick(s, 0, workflow.TraitAbandons)
			}
		case 7, 8:
			if i > 0 { // one parent gives the list
				edge := planEdge{parent: s.IntN(i), kind: pick(s, workflow.Plain, workflow.Plain, workflow.Settled)}
				step.edges, step.traits, step.startTimeout = []planEdge{edge}, workflow.TraitMap, pick(s, 0, 0, time.Minute)
			}
		}
		p.steps = append(p.steps, step)
	}
	return p
}
