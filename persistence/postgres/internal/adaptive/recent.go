package adaptive

import (
	"container/list"
	"sync"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// RecentMax bounds what a store remembers of runs, in bytes: at two kilobytes a
// run, four thousand of them.
const RecentMax = 8 << 20

// recentRunBytes is about what an entry takes beside its payloads.
const recentRunBytes = 768

// Recent is what this store has granted and recorded of runs lately. None of it
// ever changes, so that a task granted with the end of its parent need not be
// read: the pod that executed the parent knows all but what the record says. What it
// has forgotten is read. The least recently used run is forgotten first. It is
// safe for concurrent use.
type Recent struct {
	mu    sync.Mutex
	Runs  map[workflow.RunID]*list.Element // of recentRun
	Order *list.List                       // the latest in front
	Bytes int
}

// recentRun is what tasks of one run have in common, and how they ended.
type recentRun struct {
	id         workflow.RunID
	definition *registry.Definition
	common     persistence.Grant
	outcomes   map[int32]persistence.Outcome // by step, of tasks that have ended
	bytes      int
}

// NewRecent returns an empty one.
func NewRecent() *Recent {
	return &Recent{Runs: map[workflow.RunID]*list.Element{}, Order: list.New()}
}

// Granted remembers the run of a grant that was read, and what it says of
// parents. Of a run of one step nothing is granted with the end of another: one is
// remembered only as a child run.
func (c *Recent) Granted(g *persistence.Grant, d *registry.Definition) {
	if len(d.Graph.Nodes) == 1 && !persistence.OfChild(g.KeyRun) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.use(g.Task.Run)
	if run == nil {
		run = &recentRun{id: g.Task.Run, definition: d, outcomes: map[int32]persistence.Outcome{}}
		run.common.KeyRun = g.KeyRun
		if len(d.Graph.Nodes) > 1 {
			run.common = persistence.Grant{
				Workflow: g.Workflow, Tenant: g.Tenant, Labels: g.Labels, TraceContext: g.TraceContext,
				Input: g.Input, LargeInput: g.LargeInput, InputSize: g.InputSize, BegunAt: g.BegunAt, KeyRun: g.KeyRun, Options: g.Options,
			}
		}
		c.Runs[run.id] = c.Order.PushFront(run)
		c.grow(run, recentRunBytes+len(run.common.Input)+len(run.common.Tenant)+len(run.common.TraceContext))
	}
	for i := range g.Parents {
		if o := &g.Parents[i]; !o.Large || o.Size > persistence.InlinePayloadMax { // else another grant may carry it
			c.keep(run, *o)
		}
	}
}

// Recorded remembers the output of a task whose completion is committed.
func (c *Recent) Recorded(t *persistence.Transition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run := c.use(t.Task.Run); run != nil && run.hasChildren(t.Task.Step) {
		c.keep(run, run.outcome(t))
	}
}

// NeedDecisions reports which transitions are known to be of last tasks of child runs, or of
// elements of maps, or started by machines: their success needs a decision, because the parent, the
// map or the machine hears of the end.
func (c *Recent) NeedDecisions(transitions []persistence.Transition) (list []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range transitions {
		task := transitions[i].Task
		run := c.use(task.Run)
		if run == nil {
			continue
		}
		element := run.definition.IsDynamic(task.Step) && (run.definition.Graph.HasMaps() || run.definition.Graph.IsMachine()) // or of a step that asked for it, at the same cost
		if element || persistence.OfChild(run.common.KeyRun) && !run.hasChildren(task.Step) {
			list = append(list, i)
		}
	}
	return list
}

// Skipped remembers that a task was, once that is committed.
func (c *Recent) Skipped(task workflow.TaskID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run := c.use(task.Run); run != nil && run.hasChildren(task.Step) {
		c.keep(run, persistence.Outcome{Index: task.Step, Step: run.definition.Node(task.Step).Name, State: lifecycle.Skipped})
	}
}

// hasChildren reports whether other tasks wait for a task; none does for a dynamic one.
func (r *recentRun) hasChildren(step int32) bool {
	return !r.definition.IsDynamic(step) && len(r.definition.Node(step).Children) > 0
}

// outcome is what a successful transition says to the children of its task.
func (r *recentRun) outcome(t *persistence.Transition) persistence.Outcome {
	o := persistence.Outcome{
		Index: t.Task.Step, Step: r.definition.Node(t.Task.Step).Name, State: lifecycle.Completed, Size: len(t.Output),
		Large: len(t.Output) > persistence.InlinePayloadMax,
	}
	if !o.Large {
		o.Output = t.Output
	}
	return o
}

// Ended forgets a run of which nothing will be granted any more.
func (c *Recent) Ended(id workflow.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.Runs[id]; e != nil {
		c.forget(e)
	}
}

// Grant makes the grant of a task that became ready and was started at once,
// for the first time; known is false if something that it needs is not. own are
// transitions that are not committed yet.
func (c *Recent) Grant(
	task workflow.TaskID, own map[workflow.TaskID]*persistence.Transition,
) (g persistence.Grant, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.use(task.Run)
	if run == nil {
		return g, false
	}
	node := run.definition.Node(task.Step)
	g = run.common
	g.Task, g.Step, g.Handler, g.Attempt = task, node.Name, run.definition.Handlers[task.Step], 1
	g.Parents = make([]persistence.Outcome, 0, len(node.Parents)) // a task without parents is not granted so
	for _, parent := range node.Parents {
		outcome, known := run.outcomes[parent]
		if t := own[workflow.TaskID{Run: task.Run, Step: parent}]; t != nil {
			outcome, known = run.outcome(t), true
		}
		if !known {
			return g, false
		}
		g.Parents = append(g.Parents, outcome)
	}
	g.Carry()
	return g, true
}

// Clear forgets everything.
func (c *Recent) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.Runs)
	c.Order.Init()
	c.Bytes = 0
}

// use finds a run and makes it the latest.
func (c *Recent) use(id workflow.RunID) *recentRun {
	e := c.Runs[id]
	if e == nil {
		return nil
	}
	c.Order.MoveToFront(e)
	run, is := e.Value.(*recentRun)
	if !is {
		return nil
	}
	return run
}

func (c *Recent) keep(run *recentRun, o persistence.Outcome) {
	if _, known := run.outcomes[o.Index]; known {
		return
	}
	run.outcomes[o.Index] = o
	c.grow(run, len(o.Output)+len(o.Step)+len(o.Class)+len(o.Error))
}

func (c *Recent) grow(run *recentRun, bytes int) {
	run.bytes += bytes
	c.Bytes += bytes
	for c.Bytes > RecentMax {
		c.forget(c.Order.Back())
	}
}

func (c *Recent) forget(e *list.Element) {
	if run, is := c.Order.Remove(e).(*recentRun); is {
		delete(c.Runs, run.id)
		c.Bytes -= run.bytes
	}
}
