package lifecycle

import "github.com/troupe-dev/troupe/workflow"

// start lets the tasks without parents begin.
func (d *decider) start() Answer {
	switch {
	case d.run.State == Canceled:
		return Stale
	case d.run.State != Pending:
		return AlreadyYours
	}
	if !d.all() {
		return Moved
	}
	d.lane = LaneNew
	d.moveRun(Running, Event{Kind: EventRunStarted})
	for i := range d.tasks {
		t := &d.tasks[i]
		if t.Flags != 0 || !t.WakeAt.IsZero() {
			d.run.Slow = true // a condition on the input was judged, here or further down
		}
		if t.State == Pending && t.Parents == 0 {
			d.settle(t, ending{step: RunStep})
		}
	}
	return Moved
}

// cancel asks the run to stop. One that is repeated ends a run that nothing else does.
func (d *decider) cancel(c CancelRequested) Answer {
	switch {
	case d.run.State.Terminal():
		return Stale
	case d.run.Canceling && !d.all():
		return AlreadyYours
	case d.run.Canceling:
		d.cutStranded()
		return AlreadyYours
	}
	if !d.all() {
		return Moved
	}
	if m := d.machine(); m != nil && m.hearsCancel() && d.run.State == Running {
		d.askMachine(m, c)
		return Moved
	}
	if m := d.machine(); m != nil && m.repeatsCancel(d.now) && d.run.State == Running {
		return AlreadyYours
	}
	d.cancelNow(c)
	return Moved
}

// cancelNow stops a run.
func (d *decider) cancelNow(c CancelRequested) {
	d.run.Canceling, d.run.Slow = true, true
	d.noteRun(Event{Kind: EventCancelRequested, By: CleanText(c.By), Text: CleanText(c.Reason)})
	if d.run.State == Pending {
		d.cancelUnstarted()
		return
	}
	d.sweep(func(t *Task) { d.cut(t, Event{}) })
	if d.anyRunning() {
		d.setTimer(Timer{Step: RunStep, Kind: CancelGraceTimer, At: d.now.Add(c.Grace)})
	}
	d.drain()
	d.cutStranded()
}

// cutStranded ends a canceled run of which no task is left to continue it: its counts
// do not match its tasks, because rows were changed or removed by hand. It is called
// when the ends of all tasks have been counted.
func (d *decider) cutStranded() {
	if d.run.State != Running || d.run.Remaining <= 0 || len(d.out.Missing) > 0 {
		return
	}
	for i := range d.tasks {
		if t := &d.tasks[i]; !t.State.Terminal() && t.State != Pending {
			return
		}
	}
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Pending {
			d.cut(t, Event{})
		}
	}
	d.ended = nil
	d.run.Remaining = 0
	d.run.Cut = true
}

// cancelUnstarted ends a run that has not begun: none of its tasks has either.
// The graph may not be expanded into tasks yet; then there are none.
func (d *decider) cancelUnstarted() {
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Pending {
			d.cut(t, Event{})
		}
	}
	d.ended = nil // every task was canceled here; no child is left to be told
	d.run.Remaining = 0
	d.run.Cut = true
	d.moveRun(Canceled, Event{Kind: EventRunCanceled})
}

// fence ends the running tasks of a canceled run whose grace is over: what
// their pods report later is stale. The attempt that this ends counts as begun.
func (d *decider) fence() Answer {
	if d.run.State != Running || !d.run.Canceling && d.run.Steps != workflow.MachineSteps {
		return Stale
	}
	if !d.all() {
		return Moved
	}
	if !d.run.Canceling {
		return d.cancelLate()
	}
	for i := range d.tasks {
		if t := &d.tasks[i]; t.State == Running {
			d.run.Cut = true
			t.Attempt++
			t.Flags |= FlagCancel
			d.stop(t, Canceled, Event{Kind: EventCanceled, By: byGrace, Pod: t.Pod, Attempt: t.Attempt})
		}
	}
	return Moved
}

func (d *decider) anyRunning() bool {
	for i := range d.tasks {
		if d.tasks[i].State == Running {
			return true
		}
	}
	return false
}

// endRun ends the run once nothing is left to do, or makes the task of the
// failure handler first.
func (d *decider) endRun() {
	if d.run.State != Running || d.run.Remaining > 0 || len(d.out.Missing) > 0 || d.out.MissingAll || d.out.MissingInbox || len(d.out.MissingMaps) > 0 {
		return
	}
	if d.run.Unhandled && d.run.HasHandler && !d.run.HandlerMade && !d.run.Canceling {
		d.makeHandler()
		return
	}
	switch {
	case d.run.Unhandled:
		d.moveRun(Failed, Event{Kind: EventRunFailed})
	case d.run.Cut:
		d.moveRun(Canceled, Event{Kind: EventRunCanceled})
	default:
		d.moveRun(Completed, Event{Kind: EventRunCompleted})
	}
}

func (d *decider) makeHandler() {
	d.run.HandlerMade = true
	d.lane = LaneContinuing
	d.enqueue(d.create(Task{Step: d.run.Steps, State: Pending, Traits: workflow.TraitOnFailure}), Event{Kind: EventQueued})
}

// moveRun is the only place where a run changes its state.
func (d *decider) moveRun(next State, event Event) {
	if err := CheckRun(d.run.State, next); err != nil {
		panic(err)
	}
	d.run.State = next
	d.noteRun(event)
	if next.Terminal() {
		d.out.Ended = true
		d.out.DropTimers = append(d.out.DropTimers, RunStep)
		d.runTimer = 0
	}
}

func (d *decider) noteRun(event Event) {
	d.run.Events++
	event.Step, event.N, event.At = RunStep, d.run.Events, d.now
	d.tell(event)
}
