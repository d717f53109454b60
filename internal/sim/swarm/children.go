package swarm

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// EndUntold is a child run that ends without a word to its parent, as if a pod of a version
// before child runs had ended it.
const EndUntold sim.Class = "end-untold"

// childStep is a step that runs another workflow, with the output of a parent as its input.
func childStep(name string, of *shape, input int) workflow.Step {
	g := of.graph
	return workflow.Step{
		Name: name, Kind: workflow.ChildRun, Parents: plain(input),
		Child: workflow.ChildSpec{Workflow: g.Name, Output: g.Nodes[g.Output].OutputOf(g.Name)},
	}
}

// abandoned lets the child run of a step continue when the step is canceled.
func abandoned(step workflow.Step) workflow.Step {
	step.Child.Abandons = true
	return step
}

// parents returns the workflows of the load whose steps run others, the parts that they share
// first.
func parents(version int) []*shape {
	relay, strict := relay(), strict()
	nested := nested(relay)
	return []*shape{doomed(), relay, family(version), strict, nested, deep(nested)}
}

// doomed fails the first time that it is executed, whatever happens, and not if it is requeued.
func doomed() *shape {
	return compile(workflow.Definition{Name: "doomed", Output: 1, Steps: []workflow.Step{
		{Name: "begin"}, {Name: "fail", Parents: plain(0), Options: workflow.Options{Retry: workflow.RetryPolicy{Attempts: 1}}},
	}})
}

// relay runs one child after the other. A condition looks at the output of the second.
func relay() *shape {
	return compile(workflow.Definition{Name: "relay", Output: 4, Steps: []workflow.Step{
		{Name: "plan"},
		childStep("first", inTx(), 0),
		childStep("second", chain(5), 1),
		{Name: "maybe", Parents: plain(2), Conditions: []workflow.Condition{{Kind: workflow.SkipIf, Ref: 2}}},
		{Name: "last", Parents: plain(2)},
	}})
}

// family runs five children at once, whatever becomes of them: one waits for signals, and another
// may complete without an output.
func family(version int) *shape {
	return compile(workflow.Definition{Name: "family", Output: 6, Policy: workflow.FinishSiblings, Steps: []workflow.Step{
		{Name: "plan"},
		childStep("a", doomed(), 0),
		childStep("b", skipping(), 0),
		abandoned(childStep("c", approval(), 0)),
		childStep("d", approval(), 0),
		childStep("e", orders(version), 0),
		{Name: "join", Parents: edges(workflow.Settled, 1, 2, 3, 4, 5)},
	}})
}

// strict fails with its child, which stops the other ones, and continues if it is requeued.
func strict() *shape {
	return compile(workflow.Definition{
		Name: "strict", Output: 2,
		Steps: []workflow.Step{
			{Name: "plan"},
			childStep("try", doomed(), 0),
			{Name: "last", Parents: plain(1)},
			childStep("beside", nap(), 0),
			abandoned(childStep("behind", nap(), 0)),
		},
		OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
	})
}

// nested runs a child that runs children.
func nested(relay *shape) *shape {
	return compile(workflow.Definition{Name: "nested", Output: 2, Steps: []workflow.Step{
		{Name: "plan"},
		childStep("inner", relay, 0),
		{Name: "last", Parents: plain(1)},
		abandoned(childStep("loose", elsewhere(), 0)),
	}})
}

// deep is three runs above the lowest one. Its output is that of a child.
func deep(nested *shape) *shape {
	return compile(workflow.Definition{Name: "deep", Output: 1, Steps: []workflow.Step{
		{Name: "plan"}, childStep("inner", nested, 0),
	}})
}

// childOf is the run that a step of a deployment begins.
func childOf(deployed []*shape, node *workflow.Node, input []byte) *persistence.Child {
	i := slices.IndexFunc(deployed, func(w *shape) bool { return w.graph.Name == node.Child.Workflow })
	return &persistence.Child{Definition: deployed[i].graph.Hash, Workflow: node.Child.Workflow, Input: input}
}

// fails reports whether a step fails by plan: in the first attempt under its key.
func (s *seed) fails(shape *shape, about *actors.TaskInfo) bool {
	switch shape.graph.Name {
	case "doomed":
		return about.Step == "fail" && len(s.effects[about.IdempotencyKey]) == 1
	case "culled": // two attempts of an element are one too few
		return about.Item >= 0 && about.Item%5 == 3 && len(s.effects[about.IdempotencyKey]) <= 2
	case "settled":
		return about.Item%6 == 2 && about.Step[0] == 'f' || about.Step == "fail" && s.drawn(3, "fail "+s.nameOf(about.Run)) == 0
	}
	return false
}

// adopt makes the client look after a run that it has not triggered. What else happens to it is
// drawn from the seed and its name alone.
func (c *client) adopt(o *order) {
	for c.orders[o.name] != nil { // an order without a key may have two runs, each with children
		o.name += "'"
	}
	o.acked, o.keyless = true, true
	c.seed.names[o.run] = o.name
	c.seed.report.Tasks += o.shape.tasks
	c.follow(o)
}

// drawn returns a number below n that follows from the seed and a text.
func (s *seed) drawn(n uint64, text string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s", s.number, text)
	return h.Sum64() >> 8 % n
}

// born makes the client look after a child run.
func (c *client) born(run *snapshot.Run, parent workflow.RunID, step string, input []byte) {
	s := c.seed
	all := slices.Concat(s.old, s.new)
	i := slices.IndexFunc(all, func(w *shape) bool { return w.graph.Hash == run.Graph.Hash })
	o := &order{name: s.nameOf(parent) + "/" + step, shape: all[i], tenant: run.Tenant, run: run.ID, input: input}
	if s.drawn(8, "cancel "+o.name) == 0 {
		o.cancel = time.Duration(s.drawn(8000, "when "+o.name)) * time.Millisecond
	}
	c.adopt(o)
}

// requeue continues a run that has failed from the dead letter of one of its child runs: every
// other one.
func (c *client) requeue(o *order) {
	s := c.seed
	letters, err := s.world.Model().ListDeadLetters(s.ctx, persistence.DeadFilter{Workflow: o.shape.graph.Name, Limit: persistence.PageMax})
	i := slices.IndexFunc(letters, func(l persistence.DeadLetter) bool {
		if l.Task.Run != o.run || int(l.Task.Step) >= len(o.shape.graph.Nodes) {
			return false
		}
		kind := o.shape.graph.Nodes[l.Task.Step].Kind
		return kind == workflow.ChildRun || kind == workflow.Map
	})
	if err != nil || i < 0 || o.continues != (workflow.RunID{}) || s.drawn(2, "requeue "+o.name) > 0 {
		return
	}
	id := workflow.NewRunID(s.world.Now(), [10]byte([]byte(fmt.Sprintf("%10.10x", s.drawn(1<<40, "again "+o.name)))))
	next := &order{name: o.name + "+", shape: o.shape, tenant: o.tenant, run: id, input: o.input, continues: o.run, letter: letters[i].Task.Step}
	c.adopt(next)
	answer, err := s.world.Store().RequeueDeadLetter(s.ctx, persistence.RequeueOrder{Letter: letters[i].Task, Tenant: o.tenant, Run: id})
	if err != nil || answer.Result != persistence.RequeueStored { // its rows may be blocked
		c.sorted = slices.DeleteFunc(c.sorted, func(x *order) bool { return x == next })
		c.sent = slices.DeleteFunc(c.sent, func(x *sending) bool { return x.order == next })
		return
	}
	if o.shape.graph.Nodes[letters[i].Task.Step].Kind == workflow.ChildRun {
		s.saw(SawRequeued)
	}
	s.world.Committed("requeue_dead_letter", answer.Wake)
}
