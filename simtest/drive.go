package simtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// idleFor is how long nothing must have happened before the world is frozen.
	idleFor = 10 * time.Second
	// thawBefore is how long before a timer it is thawed: pods take a while to
	// find each other again.
	thawBefore = 30 * time.Second
	// faultsFor is how long faults may keep everything from making progress.
	faultsFor = 5 * time.Minute
	// executing is how much more patience there is while a step is executed.
	executing = 8
)

// drive steps the world until it is over.
func (s *Sim) drive() {
	defer close(s.over)
	for s.step() {
	}
	if s.world.Violation() == nil {
		for _, problem := range snapshot.Check(s.world.Model().Snapshot()) {
			s.world.Fail("the engine's own promises", "%s", problem)
		}
	}
	s.elapsed = s.world.Elapsed()
	for _, x := range s.log {
		x.orphaned = !x.pod.Alive()
	}
	for _, c := range s.slots {
		if c.kill != nil {
			c.kill(errPodCrashed)
		}
	}
	s.world.Close()
	s.end(errOver)
}

var errOver = fmt.Errorf("the simulation is over")

func (s *Sim) step() bool {
	if s.finishing && (len(s.open) == 0 && !s.committed || s.t != nil) {
		return false
	}
	if !s.world.Busy() {
		s.rest()
	}
	s.point()
	if !s.world.Step() {
		if s.world.Violation() != nil {
			return false
		}
		s.pace.wait() // nothing is left to happen until the test does something
	}
	s.pace.Settle()
	s.look()
	return s.world.Violation() == nil
}

// rest calls those that wait for idleness, freezes the world if there is nothing to
// be done for a while, and fails a simulation without progress.
func (s *Sim) rest() {
	if s.world.Frozen() {
		return
	}
	still := s.world.Now().Sub(s.progress)
	if s.calls.Load() > 0 {
		if still >= faultsFor {
			s.heal()
		}
		return
	}
	if len(s.idlers) > 0 || still >= idleFor {
		s.judge()
		if s.quiet {
			s.idle(still)
			return
		}
	}
	if still >= faultsFor && !s.world.Healed() {
		s.heal()
	}
	limit := s.options.Patience
	if s.executing() {
		limit *= executing
	}
	if s.world.Healed() && still > limit && s.world.Now().Sub(s.healedAt) > limit && len(s.open) > 0 {
		s.world.Fail("every run ends", "nothing has happened for %v, and no fault keeps it: %s", limit, s.unfinished())
	}
}

// idle is the world with nothing to be done.
func (s *Sim) idle(still time.Duration) {
	for _, done := range s.idlers {
		done()
	}
	s.idlers = nil
	if still < idleFor || !s.allUp() || s.world.Busy() {
		return
	}
	if s.wake.IsZero() {
		if s.finishing && len(s.open) > 0 {
			s.world.Fail("every run ends", "the test has ended, and nothing sends what is waited for: %s", s.unfinished())
			return
		}
		s.world.Freeze()
		return
	}
	if d := s.wake.Sub(s.world.Now()) - thawBefore; d > thawBefore {
		s.world.Freeze()
		s.world.After(d, s.thaw)
	}
}

// thaw ends a freeze.
func (s *Sim) thaw() {
	if s.world.Frozen() {
		s.world.Thaw()
		s.progress = s.world.Now()
	}
}

func (s *Sim) allUp() bool {
	for _, c := range s.slots {
		if c.pod == nil || c.stopping {
			return false
		}
	}
	return true
}

// judge finds out whether anything is to be done now, and when that will be.
func (s *Sim) judge() {
	if s.judged {
		return
	}
	s.judged, s.quiet, s.wake = true, true, time.Time{}
	tables := s.world.Model().Snapshot()
	waits := 0 // runs of which steps wait for signals
	for _, run := range tables.Runs {
		s.quiet = s.quiet && (run.Core.State.Terminal() || run.Core.State == lifecycle.Pending || !anyIn(run, lifecycle.Running, lifecycle.Queued))
		if !run.Core.State.Terminal() && anyIn(run, lifecycle.Waiting) {
			waits++
		}
	}
	s.quiet = s.quiet && len(tables.Intake)+len(tables.Signaled) == 0
	for _, timer := range tables.Timers {
		if s.open[timer.Run] && (s.wake.IsZero() || timer.At.Before(s.wake)) {
			s.wake = timer.At
		}
	}
	if s.wake.IsZero() && len(s.open) > waits {
		s.quiet = false // a run that nothing will wake: it is stuck, or about to go on
	}
}

// anyIn reports whether a task of a run is in one of the states.
func anyIn(run snapshot.Run, states ...lifecycle.State) bool {
	return slices.ContainsFunc(run.Tasks, func(t snapshot.Task) bool { return slices.Contains(states, t.State) })
}

// executing reports whether a pod that is up executes a step function.
func (s *Sim) executing() bool {
	for i := len(s.log) - 1; i >= 0; i-- {
		if x := s.log[i]; x.end == "" && x.pod.Alive() {
			return true
		}
	}
	return false
}

// look takes in what has changed, and checks what must hold.
func (s *Sim) look() {
	if s.committed {
		s.committed = false
		if changed := s.world.Model().Changed(); len(changed) > 0 {
			s.progress, s.changedAt, s.judged = s.world.Now(), s.world.Now(), false
			for _, id := range changed {
				s.changed(id)
			}
		}
	}
	if s.world.Faulted() >= s.setting.faults() && !s.world.Healed() {
		s.heal()
	}
	s.check()
}

func (s *Sim) changed(id workflow.RunID) {
	run, ok := s.world.Model().RunSnapshot(id)
	if of := run.Family.Parent; ok && s.names[id] == "" && !of.Run.IsZero() {
		if parent, ok := s.world.Model().RunSnapshot(of.Run); ok {
			s.names[id] = s.nameOf(of.Run) + "/" + stepName(&parent, of.Step)
		}
	}
	if !ok || !run.Core.State.Terminal() {
		s.open[id] = ok
		return
	}
	delete(s.open, id)
	if run.Graph.IsMachine() {
		s.replay(&run)
	}
	for _, done := range s.awaiting[id] {
		done()
	}
	delete(s.awaiting, id)
}

// awaitEnd calls done when a run has ended.
func (s *Sim) awaitEnd(id workflow.RunID, done func()) {
	if run, ok := s.world.Model().RunSnapshot(id); ok && run.Core.State.Terminal() {
		done()
		return
	}
	s.awaiting[id] = append(s.awaiting[id], done)
}

// heal ends the faults.
func (s *Sim) heal() {
	if s.world.Healed() {
		return
	}
	s.thaw()
	s.world.Heal()
	s.healedAt = s.world.Now()
	for _, c := range s.slots {
		s.world.After(0, c.start)
	}
}

// pointFor is how long after a change every event is a crash point. Later only
// beats are left, and it does not matter between which of them a pod crashes.
const pointFor = 2 * time.Second

// point counts the crash points, and crashes a pod at the one that the setting
// names.
func (s *Sim) point() {
	if !s.begun.Load() || s.world.Now().Sub(s.changedAt) > pointFor && s.calls.Load() == 0 && !s.executing() {
		return
	}
	s.points++
	if s.points != s.setting.CrashAt {
		return
	}
	c := s.slots[s.setting.CrashPod%len(s.slots)]
	s.crashed = fmt.Sprintf("%12s  %s crashes (point %d)", s.world.Elapsed().Round(time.Microsecond), c.name, s.points)
	if c.pod != nil {
		c.pod.Crash()
	}
}

// unfinished tells what has not ended.
func (s *Sim) unfinished() string {
	var parts []string
	for _, run := range s.world.Model().Snapshot().Runs {
		if run.Core.State.Terminal() {
			continue
		}
		text := s.nameOf(run.ID) + " is " + run.Core.State.String()
		for _, t := range run.Tasks {
			if t.State.Terminal() || t.State == lifecycle.Pending || int(t.Step) >= len(run.Graph.Nodes) {
				continue
			}
			switch node := &run.Graph.Nodes[t.Step]; {
			case t.State == lifecycle.Waiting && node.Kind == workflow.ChildRun:
				text += fmt.Sprintf(", step %q waits for a run of %q", node.Name, node.Child.Workflow)
			case t.State == lifecycle.Waiting && node.Kind == workflow.Map:
				text += fmt.Sprintf(", step %q waits for its elements", node.Name)
			case t.State == lifecycle.Waiting:
				text += fmt.Sprintf(", step %q waits for the signal %q", node.Name, node.Signal)
			default:
				text += fmt.Sprintf(", step %q is %v", node.Name, t.State)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// finish is called when the test's function has returned: the faults end, and
// so must every run.
func (s *Sim) finish() {
	s.world.Enter("finish", func() {
		s.thaw()
		s.heal()
		s.finishing = true
	})
	<-s.over
}
