package postgres

import (
	"container/list"
	"sync"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// recentMax bounds what a store remembers of runs, in bytes: at two kilobytes a
// run, four thousand of them.
const recentMax = 8 << 20

// recentRunBytes is about what an entry takes beside its payloads.
const recentRunBytes = 768

// recent is what this store has granted and recorded of runs lately. None of it
// ever changes, so that a task granted with the end of its parent need not be
// read: the pod that executed the parent knows all but what the record says. What it
// has forgotten is read. The least recently used run is forgotten first. It is
// safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	runs  map[workflow.RunID]*list.Element // of recentRun
	order *list.List                       // the latest in front
	bytes int
}

// recentRun is what tasks of one run have in common, and how they ended.
type recentRun struct {
	id         workflow.RunID
	definition *definition
	common     persistence.Grant
	outcomes   map[int32]persistence.Outcome // by step, of tasks that have ended
	bytes      int
}

// newRecent returns an empty one.
func newRecent() *recent {
	return &recent{runs: map[workflow.RunID]*list.Element{}, order: list.New()}
}

// granted remembers the run of a grant that was read, and what it says of
// parents.
func (c *recent) granted(g *persistence.Grant, d *definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.use(g.Task.Run)
	if run == nil {
		run = &recentRun{id: g.Task.Run, definition: d, outcomes: map[int32]persistence.Outcome{}}
		run.common = persistence.Grant{
			Workflow: g.Workflow, Tenant: g.Tenant, Labels: g.Labels, TraceContext: g.TraceContext,
			Input: g.Input, LargeInput: g.LargeInput, InputSize: g.InputSize, TriggeredAt: g.TriggeredAt, KeyRun: g.KeyRun,
		}
		c.runs[run.id] = c.order.PushFront(run)
		c.grow(run, recentRunBytes+len(g.Input)+len(g.Tenant)+len(g.TraceContext))
	}
	for i := range g.Parents {
		if o := &g.Parents[i]; !o.Large || o.Size > persistence.InlinePayloadMax { // else another grant may carry it
			c.keep(run, *o)
		}
	}
}

// recorded remembers the output of a task whose completion is committed.
func (c *recent) recorded(t *persistence.Transition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run := c.use(t.Task.Run); run != nil && len(run.definition.node(t.Task.Step).Children) > 0 {
		c.keep(run, run.outcome(t))
	}
}

// skipped remembers that a task was, once that is committed.
func (c *recent) skipped(task workflow.TaskID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run := c.use(task.Run); run != nil && len(run.definition.node(task.Step).Children) > 0 {
		c.keep(run, persistence.Outcome{Index: task.Step, Step: run.definition.node(task.Step).Name, State: lifecycle.Skipped})
	}
}

// outcome is what a successful transition says to the children of its task.
func (r *recentRun) outcome(t *persistence.Transition) persistence.Outcome {
	o := persistence.Outcome{
		Index: t.Task.Step, Step: r.definition.node(t.Task.Step).Name, State: lifecycle.Completed, Size: len(t.Output),
		Large: len(t.Output) > persistence.InlinePayloadMax,
	}
	if !o.Large {
		o.Output = t.Output
	}
	return o
}

// ended forgets a run of which nothing will be granted any more.
func (c *recent) ended(id workflow.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.runs[id]; e != nil {
		c.forget(e)
	}
}

// grant makes the grant of a task that became ready and was started at once,
// for the first time; known is false if something that it needs is not. own are
// transitions that are not committed yet.
func (c *recent) grant(
	task workflow.TaskID, own map[workflow.TaskID]*persistence.Transition,
) (g persistence.Grant, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.use(task.Run)
	if run == nil {
		return g, false
	}
	node := run.definition.node(task.Step)
	g = run.common
	g.Task, g.Step, g.Handler, g.Attempt = task, node.Name, run.definition.handlers[task.Step], 1
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

// clear forgets everything.
func (c *recent) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.runs)
	c.order.Init()
	c.bytes = 0
}

// use finds a run and makes it the latest.
func (c *recent) use(id workflow.RunID) *recentRun {
	e := c.runs[id]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	run, is := e.Value.(*recentRun)
	if !is {
		return nil
	}
	return run
}

func (c *recent) keep(run *recentRun, o persistence.Outcome) {
	if _, known := run.outcomes[o.Index]; known {
		return
	}
	run.outcomes[o.Index] = o
	c.grow(run, len(o.Output)+len(o.Step)+len(o.Class)+len(o.Error))
}

func (c *recent) grow(run *recentRun, bytes int) {
	run.bytes += bytes
	c.bytes += bytes
	for c.bytes > recentMax {
		c.forget(c.order.Back())
	}
}

func (c *recent) forget(e *list.Element) {
	if run, is := c.order.Remove(e).(*recentRun); is {
		delete(c.runs, run.id)
		c.bytes -= run.bytes
	}
}
