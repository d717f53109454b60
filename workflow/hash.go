package workflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h is the zero value, which no graph and no step has.
func (h Hash) IsZero() bool { return h == Hash{} }

// canon hashes values in one unambiguous form: numbers have a fixed width,
// texts and lists are preceded by their length.
type canon struct {
	sum  hash.Hash
	form []byte // what is not in the sum yet
}

// canonPiece is how much of the form is collected before it is hashed.
const canonPiece = 512

// newCanon begins a hash of one purpose, so that two purposes never give the
// same hash. The number in it changes with the form.
func newCanon(purpose string) *canon {
	c := &canon{sum: sha256.New(), form: make([]byte, 0, canonPiece)}
	c.text(purpose)
	return c
}

func (c *canon) number(n int64) { c.add(binary.BigEndian.AppendUint64(c.form, uint64(n))) }

func (c *canon) text(s string) {
	c.number(int64(len(s)))
	c.add(append(c.form, s...))
}

// add takes the form with something appended.
func (c *canon) add(form []byte) {
	if c.form = form; len(form) >= canonPiece-8 {
		c.sum.Write(form)
		c.form = form[:0]
	}
}

func (c *canon) hash() Hash {
	c.sum.Write(c.form)
	return Hash(c.sum.Sum(nil))
}

// hash covers everything that a store keeps of the graph, so two graphs with
// the same hash are the same. The order of the steps is part of it: tasks know
// their step by its number.
func (g *Graph) hash() Hash {
	c := newCanon("troupe graph 1")
	c.text(g.Name)
	c.number(int64(g.Output))
	c.number(int64(g.Policy))
	c.number(int64(len(g.Nodes)))
	for i := range g.Nodes {
		g.Nodes[i].hash(c)
	}
	if g.OnFailure != nil {
		g.OnFailure.hash(c)
	}
	if g.Retention != RetainStandard { // the hash of a graph is older than classes
		c.text("retention")
		c.number(int64(g.Retention))
	}
	return c.hash()
}

func (n *Node) hash(c *canon) {
	c.text(n.Name)
	c.number(int64(n.Kind))
	c.number(int64(n.Traits))
	c.number(int64(n.Pending))
	c.number(int64(len(n.Children)))
	for _, child := range n.Children {
		c.number(child.Pack())
	}
	c.number(int64(len(n.Parents)))
	for _, parent := range n.Parents {
		c.number(int64(parent))
	}
	c.text(n.Queue)
	c.number(int64(n.Sleep))
	c.number(int64(n.StartTimeout))
	if n.Signal != "" { // the hash of a graph is older than signals
		c.text("signal")
		c.text(n.Signal)
	}
	if n.Kind == ChildRun { // and than child runs
		c.child(&n.Child)
	}
	c.add(append(c.form, n.Fingerprint[:]...))
}

// hang is a decision, or the instant of a sleep, that is made where a step
// completes, as one of its children sees it.
type hang struct {
	child string
	kind  ConditionKind // 0: the instant of a SleepUntil
	value string
}

// fingerprint sets the fingerprint of every node: all that two versions of a
// step must have in common so that a pod with one can execute a task of the
// other. That is what goes in and comes out: kind, parameters by name and
// kind, declared types, its own conditions, and what its completion says about
// its children. Names stand for steps, so a fingerprint survives steps added
// elsewhere. Options are not part of it.
func (d *Definition) fingerprint(g *Graph) {
	hanging := make([][]hang, len(d.Steps))
	for i := range d.Steps {
		s := &d.Steps[i]
		for _, c := range s.Conditions {
			if c.Ref != Input {
				hanging[c.Ref] = append(hanging[c.Ref], hang{s.Name, c.Kind, c.Case})
			}
		}
		if s.Kind == SleepUntil && s.WakeFrom != Input {
			hanging[s.WakeFrom] = append(hanging[s.WakeFrom], hang{child: s.Name})
		}
	}
	form := d.form()
	for i := range d.Steps {
		g.Nodes[i].Fingerprint = d.fingerprintOf(form, &d.Steps[i], hanging[i])
	}
	if d.IsMachine() {
		older := d.Steps[0]
		for older.Version = 1; older.Version < d.Steps[0].Version; older.Version++ {
			g.Older = append(g.Older, d.fingerprintOf(form, &older, nil))
		}
	}
	if d.OnFailure != nil {
		g.OnFailure.Fingerprint = d.fingerprintOf(form, d.OnFailure, nil)
	}
}

// child writes what a step says about the run that it begins. Whether that continues when the
// step is canceled is a trait.
func (c *canon) child(of *ChildSpec) {
	c.text("child")
	c.text(of.Workflow)
	c.text(of.Output.Workflow)
	c.text(of.Output.Step)
	signal := int64(0)
	if of.Output.Signal {
		signal = 1
	}
	c.number(signal)
}

// childOf writes the run that a step begins, if it begins one.
func (c *canon) childOf(s *Step) {
	if s.Kind == ChildRun {
		c.child(&s.Child)
	}
}

// form returns the form of the fingerprints of a definition: 4 of a machine, 3 if it has maps, 2 if steps wait for
// signals or for other runs, else 1. Pods that do not know such steps must not execute others of
// the workflow either: they could not record that these have ended.
func (d *Definition) form() int {
	form := 1
	for i := range d.Steps {
		switch d.Steps[i].Kind { //nolint:exhaustive // the others are of form 1
		case Machine:
			return 4
		case Map:
			return 3
		case Wait, ChildRun:
			form = 2
		}
	}
	return form
}

// fingerprintOf names the signals and the child runs, too, where there may be any: codecs may be
// told what the output of a parent was.
func (d *Definition) fingerprintOf(form int, s *Step, hanging []hang) Hash {
	waits := form > 1
	c := newCanon(fmt.Sprintf("troupe step %d", form))
	c.number(int64(s.Kind))
	if form > 3 {
		c.number(int64(s.Version))
	}
	if form < 4 || s.Kind == Machine { // what a machine starts has an input of its own
		c.text(d.InputType)
	}
	c.text(s.Type)
	if waits {
		c.text(s.Signal)
		c.childOf(s)
	}
	c.number(int64(len(s.Parents)))
	for _, edge := range s.Parents {
		c.text(d.nameOf(edge.Parent))
		c.number(int64(edge.Kind))
		if waits {
			c.text(d.signalOf(edge.Parent))
			if edge.Parent >= 0 && edge.Parent < len(d.Steps) {
				c.childOf(&d.Steps[edge.Parent])
			}
		}
	}
	own := make([]hang, 0, len(s.Conditions)+1)
	for _, condition := range s.Conditions {
		own = append(own, hang{d.nameOf(condition.Ref), condition.Kind, condition.Case})
	}
	if s.Kind == SleepUntil && !s.Spawned {
		own = append(own, hang{child: d.nameOf(s.WakeFrom)})
	}
	c.hangs(own)
	c.hangs(hanging)
	return c.hash()
}

// hangs writes a list whose order means nothing.
func (c *canon) hangs(list []hang) {
	slices.SortFunc(list, func(a, b hang) int {
		return cmp.Or(cmp.Compare(a.child, b.child), cmp.Compare(a.kind, b.kind), cmp.Compare(a.value, b.value))
	})
	c.number(int64(len(list)))
	for _, h := range list {
		c.text(h.child)
		c.number(int64(h.kind))
		c.text(h.value)
	}
}

// nameOf returns what a fingerprint calls a step. No step has the name of the
// input, which is not a name.
func (d *Definition) nameOf(ref int) string {
	if ref == Input {
		return ""
	}
	return d.Steps[ref].Name
}

// signalOf returns the signal that a step waits for; "": none.
func (d *Definition) signalOf(ref int) string {
	if ref < 0 || ref >= len(d.Steps) {
		return ""
	}
	return d.Steps[ref].Signal
}

// Pack returns the edge as one number, for storage: the step in the upper
// bits, then one bit for Conditioned and two for the kind.
func (c Child) Pack() int64 {
	packed := int64(c.Step)<<3 | int64(c.Kind)
	if c.Conditioned {
		packed |= 1 << 2
	}
	return packed
}

// UnpackChild reads what [Child.Pack] returned.
func UnpackChild(packed int64) (Child, error) {
	child := Child{Step: int32(packed >> 3), Kind: EdgeKind(packed & 3), Conditioned: packed&(1<<2) != 0}
	if child.Pack() != packed || child.Kind == 0 || child.Step < 0 {
		return Child{}, fmt.Errorf("unpack edge to a child: %d is none", packed)
	}
	return child, nil
}
