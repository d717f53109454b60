package memory

import (
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// batch is one transaction: its instant and what it changed that others wait
// for. It lives while the store is locked.
type batch struct {
	s        *Store
	clock    time.Time // for answers: pods set their clocks by it
	now      time.Time // the same, as it is stored
	wake     persistence.Wake
	enqueued []enqueued       // not in their queues yet
	stopped  []workflow.RunID // child runs that are asked to stop, and do not know it yet
}

// enqueued is a task that became ready in this batch.
type enqueued struct {
	run     *run
	step    int32
	lane    lifecycle.Lane
	suspect bool
}

// decide applies facts to a run and writes all that they change.
func (b *batch) decide(r *run, facts ...lifecycle.Fact) lifecycle.Decision {
	d := lifecycle.Decide(r.core, b.s.rows(r), facts, b.now)
	r.core = d.Run
	b.s.touch(r)
	for _, t := range d.Tasks {
		b.write(r, t)
	}
	for _, t := range d.Created {
		made := r.insert(t)
		if t.State.Terminal() {
			made.finishedAt = b.now
		}
	}
	r.keepMaps(d.Maps)
	b.stamp(r, d.Arrived, d.Taken)
	b.give(r, d.Given)
	b.note(r, d.Events)
	b.bury(r, d.Dead)
	b.noteFailed(r, d.Dead)
	for _, step := range d.DropTimers {
		b.s.timers.dropAll(r.id(), step)
	}
	for _, t := range d.Timers {
		b.setTimer(r, t)
	}
	for _, e := range d.Enqueued {
		b.enqueued = append(b.enqueued, enqueued{run: r, step: e.Step, lane: e.Lane, suspect: e.Suspect})
	}
	if d.Ended {
		r.finishedAt = b.now
		at, _ := slices.BinarySearchFunc(b.wake.Ended, r.id(), compareRuns)
		b.wake.Ended = slices.Insert(b.wake.Ended, at, r.id())
		b.wake.CountEnds(r.trigger.Workflow, r.core.State, 1)
	}
	if d.Stops {
		b.wake.Canceling = append(b.wake.Canceling, r.id())
	}
	b.tellFamily(r, &d)
	return d
}

func (b *batch) write(r *run, t lifecycle.Task) {
	at, _ := r.at(t.Step)
	before := r.tasks[at].State
	r.tasks[at] = t
	if before == lifecycle.Queued && t.State != lifecycle.Queued {
		b.s.queue(r.queueOf(t.Step)).forget(workflow.TaskID{Run: r.id(), Step: t.Step})
	}
	if before == lifecycle.Running && t.State != lifecycle.Running {
		b.s.tenants[r.trigger.Tenant].running--
	}
	if !before.Terminal() && t.State.Terminal() {
		r.details[at].finishedAt = b.now
	}
}

// note appends events and remembers what a reader of the run asks for.
func (b *batch) note(r *run, events []lifecycle.Event) {
	r.events = append(r.events, events...)
	for _, e := range events {
		failed := e.Kind == lifecycle.EventFailed || e.Kind == lifecycle.EventTimedOut
		if failed && r.failure == nil && !r.task(e.Step).Handled() {
			r.failure = &failure{r.node(e.Step).Name, e.Class, e.Text}
		}
		if e.Kind == lifecycle.EventRunStarted {
			r.startedAt = b.now
		}
	}
}

func (b *batch) setTimer(r *run, t lifecycle.Timer) {
	b.s.timers.set(timer{timerKey: timerKey{r.id(), t.Step, t.Kind}, at: t.At, epoch: t.Epoch})
	if b.wake.NextTimer.IsZero() || t.At.Before(b.wake.NextTimer) {
		b.wake.NextTimer = t.At
	}
}

// byTask brings what became ready into the order of runs and steps, which
// does not depend on how the batch was put together.
func (b *batch) byTask() {
	slices.SortStableFunc(b.enqueued, func(x, y enqueued) int {
		return compareTasks(workflow.TaskID{Run: x.run.id(), Step: x.step}, workflow.TaskID{Run: y.run.id(), Step: y.step})
	})
}

// enqueue gives every task that became ready its place, in order. keep is
// asked for each whether it goes into the queue; nil: all do.
func (b *batch) enqueue(keep func(e enqueued) bool) {
	b.tellStopped()
	ready := map[string]int{}
	for _, e := range b.enqueued {
		name := e.run.queueOf(e.step)
		q := b.s.queue(name)
		e.run.detail(e.step).queuedAt = b.now
		if keep != nil && !keep(e) {
			continue
		}
		q.insert(queueRow{
			fairID: q.take(b.s.tenants[e.run.trigger.Tenant].group, e.lane),
			task:   workflow.TaskID{Run: e.run.id(), Step: e.step}, handler: e.run.handler(e.step), suspect: e.suspect,
		})
		ready[name]++
	}
	b.enqueued = nil
	b.ready(ready)
}

// ready tells the claimers of these queues.
func (b *batch) ready(counts map[string]int) {
	for i, r := range b.wake.Ready {
		b.wake.Ready[i].Count += counts[r.Queue]
		delete(counts, r.Queue)
	}
	for name, count := range counts {
		b.wake.Ready = append(b.wake.Ready, persistence.Ready{Queue: name, Count: count})
	}
	slices.SortFunc(b.wake.Ready, func(x, y persistence.Ready) int { return strings.Compare(x.Queue, y.Queue) })
}

// grant gives a queued task to a pod.
func (b *batch) grant(p *pod, id persistence.ClaimID, task workflow.TaskID) {
	r := b.s.runs[task.Run]
	b.s.touch(r)
	t, event := lifecycle.Claim(*r.task(task.Step), p.id, b.now)
	*r.task(task.Step) = t
	r.detail(task.Step).startedAt = b.now
	if event.Kind != 0 {
		r.events = append(r.events, event)
	}
	b.s.tenants[r.trigger.Tenant].running++
	row := b.s.claims[claimKey{p.id, id}]
	if row == nil {
		row = &claim{}
		b.s.claims[claimKey{p.id, id}] = row
		p.claims = append(p.claims, id)
	}
	row.tasks = append(row.tasks, claimed{task, t.Epoch})
}
