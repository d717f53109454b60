package workflow

import (
	"slices"
	"time"
)

// Graph is a valid definition in the form that storage and decisions use: per
// step what it needs before it can run and which steps wait for its end.
type Graph struct {
	Name      string
	Hash      Hash // content hash of the definition
	Output    int32
	Policy    FailurePolicy
	Retention RetentionClass
	Nodes     []Node // index = step
	OnFailure *Node  // its step index is len(Nodes); nil for none
	// InputFree: no condition and no instant of a sleep looks at the input, so no
	// code is needed to judge one; false: some do, or it is not known. It follows from
	// the fingerprints, so the hash covers it.
	InputFree bool
	// Older are the fingerprints of the machine, Nodes[0], at earlier versions of its state,
	// ascending from 1: a program of this version executes these, too. It follows from the
	// definition, and is not stored.
	Older []Hash
}

// Hash is a SHA-256.
type Hash [32]byte

// Node is one step of a graph.
type Node struct {
	Name         string
	Kind         StepKind
	Traits       Traits
	Pending      int32         // number of distinct steps that must end first
	Children     []Child       // one per dependent step, ascending
	Parents      []int32       // the parameters of the step function, in order
	Queue        string        // "" is the queue of the run
	Sleep        time.Duration // Sleep: how long; Wait: the longest wait, 0: for ever; Machine: how long it may go on after a cancel, 0: a cancel ends it
	Signal       string        // Wait: the name of the signal
	Child        ChildSpec     // ChildRun: the run
	StartTimeout time.Duration // longest wait in the queue; 0: none
	Fingerprint  Hash
}

// Child is the edge to one dependent step. Several edges between the same two
// steps count as one: the strictest.
type Child struct {
	Step        int32
	Kind        EdgeKind
	Conditioned bool // an If or Switch on this edge needs the parent's output
}

// Traits are properties of a step that decisions need, as bits.
type Traits uint16

// The traits.
const (
	TraitSleep           Traits = 1 << iota // a timer of fixed duration, not a function
	TraitSleepUntil                         // a timer whose instant a parent gives
	TraitHoldsSettled                       // has a Settled edge: exempt from FailFast
	TraitRunIfAllSkipped                    // runs even when every parent was skipped
	TraitOnFailure                          // the failure handler of the run
	TraitWaits                              // waits for a signal of the run
	TraitSkipsLate                          // is skipped if no signal comes in time; otherwise it fails
	TraitJudged                             // of a wait or a child run: conditions, or the instant of a sleep, look at its output
	TraitChild                              // begins another run and waits for it
	TraitAbandons                           // that run continues when the step is canceled
	TraitMap                                // executes a function for each element of a list: of the step and of its elements
	TraitMachine                            // a state machine: activations handle the entries of its inbox
	TraitSpawned                            // only activations of a machine make tasks of it: of the step and of these tasks
)

// Has reports whether all of the given traits are set.
func (t Traits) Has(want Traits) bool { return t&want == want }

// Unattended reports whether a task completes without an attempt: a sleep, or a wait whose output
// nothing looks at.
func (t Traits) Unattended() bool {
	return t&(TraitSleep|TraitSleepUntil) != 0 || t&(TraitWaits|TraitJudged) == TraitWaits
}

// traitsKnown are all traits of this version.
const traitsKnown = TraitSleep | TraitSleepUntil | TraitHoldsSettled | TraitRunIfAllSkipped | TraitOnFailure |
	TraitWaits | TraitSkipsLate | TraitJudged | TraitChild | TraitAbandons | TraitMap | TraitMachine | TraitSpawned

// Known reports whether this version knows all that a stored graph consists of: its policy and
// the kinds and traits of its steps and edges. Runs of another graph are left to a later
// version. It is safe for concurrent use.
func (g *Graph) Known() bool {
	known := g.Policy == FailFast || g.Policy == FinishSiblings
	for i := range g.Nodes {
		known = known && g.Nodes[i].known()
	}
	return known && (g.OnFailure == nil || g.OnFailure.known())
}

func (n *Node) known() bool {
	known := n.Kind >= Func && n.Kind <= Machine && n.Traits&^traitsKnown == 0
	for _, c := range n.Children {
		known = known && c.Kind >= Plain && c.Kind <= Settled
	}
	return known
}

// WaitsFor returns the steps that wait for a signal, ascending: of a machine that hears it, the
// machine.
func (g *Graph) WaitsFor(signal string) (steps []int32) {
	for i := range g.Nodes {
		if g.Nodes[i].Kind == Wait && g.Nodes[i].Signal == signal {
			if g.IsMachine() {
				return []int32{0}
			}
			steps = append(steps, int32(i))
		}
	}
	return steps
}

// Signals returns the names of the signals that steps wait for, sorted.
func (g *Graph) Signals() (names []string) {
	for i := range g.Nodes {
		if g.Nodes[i].Kind == Wait {
			names = append(names, g.Nodes[i].Signal)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// MachineSteps is the number of steps that a run of a machine counts with: the tasks that it starts
// have the numbers behind it, whatever its program declares. Versions of a program may declare
// other steps, and a run continues with the program that executes it.
const MachineSteps = 1000

// IsMachine reports whether runs of the graph are state machines. The machine is Nodes[0]; the
// other nodes are what it may start, and the signals that it hears.
func (g *Graph) IsMachine() bool { return len(g.Nodes) > 0 && g.Nodes[0].Kind == Machine }

// Steps returns the number of the task of the failure handler. Dynamic tasks have those behind it.
func (g *Graph) Steps() int32 {
	if g.IsMachine() {
		return MachineSteps
	}
	return int32(len(g.Nodes))
}

// HasMaps reports whether steps execute a function for each element of a list.
func (g *Graph) HasMaps() bool {
	return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Kind == Map })
}

// HasChildren reports whether steps begin other runs.
func (g *Graph) HasChildren() bool {
	return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Kind == ChildRun })
}

// Sinks returns the number of steps without children: the obligations of a
// run that has just started.
func (g *Graph) Sinks() int32 {
	var count int32
	for i := range g.Nodes {
		if n := &g.Nodes[i]; len(n.Children) == 0 && !n.Traits.Has(TraitSpawned) {
			count++
		}
	}
	return count
}
