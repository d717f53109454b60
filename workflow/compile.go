package workflow

import (
	"cmp"
	"slices"
)

// NewGraph returns the graph of a definition, or what [Definition.Validate]
// says is wrong with it.
//
// Several edges between the same two steps become one, the strictest. A
// condition on a step that is no parent adds a plain edge to it, and so does
// the instant of a SleepUntil.
func NewGraph(d *Definition) (*Graph, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	g := &Graph{
		Name: d.Name, Output: int32(d.Output), Policy: d.Policy, Retention: d.Retention,
		Nodes: make([]Node, len(d.Steps)),
	}
	merged := newMerger(len(d.Steps))
	for i := range d.Steps {
		s := &d.Steps[i]
		node := newNode(s)
		for _, edge := range merged.edges(s) {
			node.Pending++
			if edge.Kind == Settled {
				node.Traits |= TraitHoldsSettled
			}
			parent := edge.Step
			edge.Step = int32(i)
			g.Nodes[parent].Children = append(g.Nodes[parent].Children, edge)
		}
		// Children of this node may be there already: parents need not come first.
		node.Children = g.Nodes[i].Children
		g.Nodes[i] = node
	}
	d.judgedWaits(g)
	if d.OnFailure != nil {
		node := newNode(d.OnFailure)
		node.Traits |= TraitOnFailure
		g.OnFailure = &node
	}
	g.InputFree = d.inputFree()
	d.fingerprint(g)
	g.Hash = g.hash()
	return g, nil
}

// judgedWaits marks the waits and the child runs whose output something looks at when they
// complete: a pod has to complete them.
func (d *Definition) judgedWaits(g *Graph) {
	mark := func(ref int) {
		if ref != Input && (g.Nodes[ref].Kind == Wait || g.Nodes[ref].Kind == ChildRun) {
			g.Nodes[ref].Traits |= TraitJudged
		}
	}
	for i := range d.Steps {
		for _, c := range d.Steps[i].Conditions {
			mark(c.Ref)
		}
		if d.Steps[i].Kind == SleepUntil {
			mark(d.Steps[i].WakeFrom)
		}
	}
}

// inputFree reports whether nothing that is decided looks at the input.
func (d *Definition) inputFree() bool {
	onInput := func(c Condition) bool { return c.Ref == Input }
	for i := range d.Steps {
		s := &d.Steps[i]
		if s.Kind == SleepUntil && s.WakeFrom == Input && !s.Spawned || slices.ContainsFunc(s.Conditions, onInput) {
			return false
		}
	}
	return true
}

func newNode(s *Step) Node {
	node := Node{
		Name: s.Name, Kind: s.Kind,
		Queue: s.Options.Queue, Sleep: s.Sleep, Signal: s.Signal, Child: s.Child, StartTimeout: s.Options.ScheduleToStart,
	}
	for _, edge := range s.Parents {
		node.Parents = append(node.Parents, int32(edge.Parent))
	}
	if s.RunIfAllSkipped {
		node.Traits |= TraitRunIfAllSkipped
	}
	switch s.Kind {
	case Sleep:
		node.Traits |= TraitSleep
	case SleepUntil:
		node.Traits |= TraitSleepUntil
	case Wait:
		node.Traits |= TraitWaits
		if s.SkipLate {
			node.Traits |= TraitSkipsLate
		}
	case ChildRun:
		node.Traits |= TraitChild
		if s.Child.Abandons {
			node.Traits |= TraitAbandons
		}
	case Map:
		node.Traits |= TraitMap
	case Machine:
		node.Traits |= TraitMachine
	case Func:
	}
	if s.Spawned {
		node.Traits |= TraitSpawned
	}
	return node
}

// merger joins the edges of one step after the other. Its slices are as long
// as the definition and are used again for each step.
type merger struct {
	merged []Child
	at     []int // per parent: its place in merged, plus one; 0: none
}

func newMerger(steps int) *merger { return &merger{at: make([]int, steps)} }

// edges returns one edge per parent of s, ascending, with Step naming the
// parent. The result is valid until the next call.
func (m *merger) edges(s *Step) []Child {
	m.merged = m.merged[:0]
	for _, edges := range [][]Edge{s.Parents, s.After} {
		for _, edge := range edges {
			m.add(edge.Parent, edge.Kind)
		}
	}
	if s.Kind == SleepUntil && s.WakeFrom != Input {
		m.add(s.WakeFrom, Plain)
	}
	for _, c := range s.Conditions {
		if c.Ref == Input {
			continue
		}
		if m.at[c.Ref] == 0 {
			m.add(c.Ref, Plain)
		}
		if c.Kind != SkipIf {
			m.merged[m.at[c.Ref]-1].Conditioned = true
		}
	}
	for _, edge := range m.merged {
		m.at[edge.Step] = 0
	}
	slices.SortFunc(m.merged, func(a, b Child) int { return cmp.Compare(a.Step, b.Step) })
	return m.merged
}

// add keeps the strictest edge to a parent. The kinds are in that order.
func (m *merger) add(parent int, kind EdgeKind) {
	if at := m.at[parent]; at > 0 {
		m.merged[at-1].Kind = min(m.merged[at-1].Kind, kind)
		return
	}
	m.merged = append(m.merged, Child{Step: int32(parent), Kind: kind})
	m.at[parent] = len(m.merged)
}

// holds reports whether s has an edge to a step, other than by a condition.
func (s *Step) holds(to int) bool {
	is := func(edge Edge) bool { return edge.Parent == to }
	return slices.ContainsFunc(s.Parents, is) || slices.ContainsFunc(s.After, is) ||
		s.Kind == SleepUntil && s.WakeFrom == to
}
