package snapshot

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// queue checks that every queued task has one place.
func (c *checker) queue() {
	places := map[workflow.TaskID]int{}
	fair := map[string]map[int64]workflow.TaskID{}
	for _, row := range c.tables.Queue {
		places[row.Task]++
		if !row.Parked {
			if fair[row.Queue] == nil {
				fair[row.Queue] = map[int64]workflow.TaskID{}
			}
			if other, taken := fair[row.Queue][row.FairID]; taken {
				c.failf("queue %s: %v and %v share place %d", row.Queue, other, row.Task, row.FairID)
			}
			fair[row.Queue][row.FairID] = row.Task
		}
		r := c.runs[row.Task.Run]
		if r == nil && !row.Parked {
			continue // its run is gone for good; the claim discards it
		}
		if r == nil || r.Task(row.Task.Step) == nil {
			c.failf("queue %s: row of a task that does not exist: %v", row.Queue, row.Task)
			continue
		}
		if t := r.Task(row.Task.Step); t.State != lifecycle.Queued && !t.State.Terminal() {
			c.failf("queue %s: %v is %v", row.Queue, row.Task, t.State)
		} else if t.State == lifecycle.Queued && row.Suspect != t.Flags.Has(lifecycle.FlagSuspect) {
			c.failf("queue %s: %v has %d losses and flags %b, suspect: %v", row.Queue, row.Task, t.Lost, t.Flags, row.Suspect)
		}
	}
	c.each(func(r *Run, t *Task) {
		if got := places[workflow.TaskID{Run: r.ID, Step: t.Step}]; t.State == lifecycle.Queued && got != 1 {
			c.failf("I1: run %v step %d is queued and has %d places in queues", r.ID, t.Step, got)
		}
	})
}

// timerName names a timer without its instant.
type timerName struct {
	run   workflow.RunID
	step  int32
	kind  lifecycle.TimerKind
	epoch int64
}

// timers checks that whatever waits for an instant has its timer, and that no
// timer waits for nothing. The one of a wait in the queue may outlive it.
func (c *checker) timers() {
	set := map[timerName]bool{}
	for _, t := range c.tables.Timers {
		set[timerName{t.Run, t.Step, t.Kind, t.Epoch}] = true
		r := c.runs[t.Run]
		if r == nil {
			c.failf("timer of a run that does not exist: %v", t)
			continue
		}
		if !wanted(r, t) {
			c.failf("I7: run %v step %d: nothing waits for timer %d of epoch %d", t.Run, t.Step, t.Kind, t.Epoch)
		}
	}
	c.each(func(r *Run, t *Task) {
		var kind lifecycle.TimerKind
		switch {
		case t.State == lifecycle.Sleeping:
			kind = lifecycle.SleepTimer
		case t.State == lifecycle.Backoff:
			kind = lifecycle.BackoffTimer
		case t.State == lifecycle.Queued && t.StartTimeout > 0 && t.Flags&(lifecycle.FlagKept|lifecycle.FlagSpread) == 0:
			kind = lifecycle.QueueTimer
		case t.State == lifecycle.Waiting && t.Sleep > 0 && t.Traits.Has(workflow.TraitWaits):
			kind = lifecycle.DeadlineTimer
		case t.State == lifecycle.Running && t.IsSpawned() && t.Flags.Has(lifecycle.FlagStop):
			kind = lifecycle.StopTimer
		default:
			return
		}
		if !set[timerName{r.ID, t.Step, kind, t.Epoch}] {
			c.failf("I1: run %v step %d is %v and has no timer", r.ID, t.Step, t.State)
		}
	})
	for i := range c.tables.Runs {
		r := &c.tables.Runs[i]
		if r.Core.State == lifecycle.Pending && r.Expanded && !set[timerName{r.ID, lifecycle.RunStep, lifecycle.StartTimer, 0}] {
			c.failf("I1: run %v is expanded and pending and has no timer", r.ID)
		}
	}
}

// wanted reports whether something waits for a timer.
func wanted(r *Run, t Timer) bool {
	task := r.Task(t.Step)
	switch t.Kind {
	case lifecycle.StartTimer:
		return r.Core.State == lifecycle.Pending
	case lifecycle.CancelGraceTimer:
		return r.Core.State == lifecycle.Running && (r.Core.Canceling || r.Graph.IsMachine())
	case lifecycle.StopTimer:
		return task != nil && task.State == lifecycle.Running && task.Epoch == t.Epoch && task.Flags.Has(lifecycle.FlagStop)
	case lifecycle.SleepTimer:
		return task != nil && task.State == lifecycle.Sleeping && task.Epoch == t.Epoch
	case lifecycle.BackoffTimer:
		return task != nil && task.State == lifecycle.Backoff && task.Epoch == t.Epoch
	case lifecycle.QueueTimer:
		return task != nil && task.Epoch >= t.Epoch
	case lifecycle.DeadlineTimer:
		return task != nil && task.State == lifecycle.Waiting && task.Epoch == t.Epoch
	}
	return !t.Kind.Known() // a later version waits for it
}

// claims checks that every running task can be found by its pod.
func (c *checker) claims() {
	pods := map[int64]bool{}
	for _, p := range c.tables.Pods {
		pods[p.ID] = true
	}
	type grant struct {
		pod   int64
		task  workflow.TaskID
		epoch int64
	}
	granted := map[grant]int{}
	for _, claim := range c.tables.Claims {
		granted[grant{claim.Pod, claim.Task, claim.Epoch}]++
		if !pods[claim.Pod] {
			c.failf("claim of pod %d, which has left", claim.Pod)
		}
	}
	c.each(func(r *Run, t *Task) {
		if t.State != lifecycle.Running {
			return
		}
		id := workflow.TaskID{Run: r.ID, Step: t.Step}
		if got := granted[grant{t.Pod, id, t.Epoch}]; got != 1 {
			c.failf("I1: run %v step %d runs on pod %d under %d claims", r.ID, t.Step, t.Pod, got)
		}
		if !pods[t.Pod] {
			c.failf("I1: run %v step %d runs on pod %d, which has left", r.ID, t.Step, t.Pod)
		}
	})
}

// names checks keys and the intake.
func (c *checker) names() {
	for _, k := range c.tables.Keys {
		if r := c.runs[k.Run]; r == nil || r.Tenant != k.Tenant {
			c.failf("I2: key %q of %s names a run that does not exist there", k.Key, k.Tenant)
		}
	}
	waiting := map[workflow.RunID]bool{}
	for _, id := range c.tables.Intake {
		waiting[id] = true
		if r := c.runs[id]; r == nil || r.Expanded {
			c.failf("I2: the intake holds run %v, which is expanded or does not exist", id)
		}
	}
	for i := range c.tables.Runs {
		if r := &c.tables.Runs[i]; !r.Expanded && !r.Core.State.Terminal() && !waiting[r.ID] {
			c.failf("I1: run %v is not expanded and not in the intake", r.ID)
		}
	}
}

func (c *checker) each(visit func(*Run, *Task)) {
	for i := range c.tables.Runs {
		r := &c.tables.Runs[i]
		for j := range r.Tasks {
			visit(r, &r.Tasks[j])
		}
	}
}

// CheckTimersNeverEarly lists the sleeps that ended before their instant (I7).
// It is apart from Check because tests that move stored instants break it.
func CheckTimersNeverEarly(t Tables) []string {
	c := checker{tables: t}
	for i := range t.Runs {
		r := &t.Runs[i]
		due := map[int32]time.Time{}
		for _, e := range r.Events {
			if e.Kind == lifecycle.EventWoken || e.Kind == lifecycle.EventQueued {
				if at := due[e.Step]; e.At.Before(at) {
					c.failf("I7: run %v step %d woke at %v; due at %v", r.ID, e.Step, e.At, at)
				}
			}
			if e.Kind == lifecycle.EventSleeping || e.Kind == lifecycle.EventRetrying {
				due[e.Step] = e.WakeAt
			}
		}
	}
	return c.wrong
}

// dead checks that dead letters tell of tasks that failed, as they are told of.
func (c *checker) dead() {
	for _, l := range c.tables.Dead {
		if (l.Requeues > 0) == l.RequeuedAs.IsZero() {
			c.failf("letters: %v was requeued %d times, as %v", l.Task, l.Requeues, l.RequeuedAs)
		}
		r := c.runs[l.Task.Run]
		if r == nil {
			continue // gone, as runs are after a while
		}
		switch t := r.Task(l.Task.Step); {
		case t == nil && r.trimmed(l.Task.Step):
		case t == nil || t.State != lifecycle.Failed:
			c.failf("letters: %v is dead and did not fail", l.Task)
		case t.Class != l.Class || t.Error != l.Error || t.Attempt != l.Attempts || t.Lost != l.Lost:
			c.failf("letters: %v failed otherwise than its letter says: %s %s", l.Task, l.Class, l.Error)
		}
	}
}
