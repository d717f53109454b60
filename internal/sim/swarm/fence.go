package swarm

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/workflow"
)

// execution is one attempt that has not returned.
type execution struct {
	ctx  context.Context //nolint:containedctx // the attempt's, to be looked at
	pod  *sim.Pod
	run  workflow.RunID
	step string
}

// execute notes that a step function is being executed, until it returns.
func (s *seed) execute(ctx context.Context, p *sim.Pod, about *actors.TaskInfo) (returned func()) {
	e := &execution{ctx: ctx, pod: p, run: about.Run, step: about.Step}
	s.spare()
	s.executing = append(s.executing, e)
	return func() {
		s.spare()
		s.executing = slices.DeleteFunc(s.executing, func(x *execution) bool { return x == e })
	}
}

// fenced judges the loss of a task: the pod that held it must have ended the
// attempt's context by itself, before others may begin. A pod that was frozen
// cannot have; the fence in the database is for that.
func (o *oracle) fenced(run workflow.RunID, step string, number int64) {
	s := o.seed
	for _, e := range s.executing {
		p := e.pod
		quiet := s.world.Now().Sub(p.Disturbed()) > 2*s.setting.lease
		if e.run != run || e.step != step || p.Number() != number || !p.Alive() || !quiet || e.ctx.Err() != nil {
			continue
		}
		s.world.Fail("I4", "%s/%s was taken from %s, which still executes it", s.nameOf(run), step, p.Name)
	}
}

const (
	// settleWithin is how long a healed cluster may take to have a leader, to
	// declare the dead dead and to hear all wakes.
	settleWithin = 45 * time.Second
	// promptly is how late a timer may fire after that, and how long a ready
	// task may wait while there are free slots.
	promptly = 5 * time.Second
)

// settled reports whether an instant is one at which the cluster has been whole
// for long.
func (s *seed) settled(at time.Time) bool {
	return s.healed && at.Sub(s.healedAt) > settleWithin
}

// late judges a timer that has fired.
func (o *oracle) late(run workflow.RunID, step int32, due, at time.Time) {
	if s := o.seed; s.settled(due) && at.Sub(due) > promptly {
		s.world.Fail("I7", "%s step %d: the timer of %v fired %v late", s.nameOf(run), step, due, at.Sub(due))
	}
}

// waits judges how long a task was ready before it started. Under a limit of
// its tenant, or when something does not return, it may take long.
func (o *oracle) waits(run workflow.RunID, step int32, since readiness, at time.Time) {
	s, ready := o.seed, since.at
	if s.setting.limit > 0 || !s.settled(ready) || s.spare()-since.spare <= promptly || o.busy() {
		return
	}
	s.world.Fail("I13", "%s step %d was ready for %v before it started", s.nameOf(run), step, at.Sub(ready))
}

// readiness is since when a task is ready, and for how long slots had been free until then.
type readiness struct {
	at    time.Time
	spare time.Duration
}

// spare is for how long step functions did not hold as many slots as a pod has, all in all: work
// that keeps them busy without a pause may let a task wait for long.
func (s *seed) spare() time.Duration {
	now := s.world.Now()
	if !s.sparedAt.IsZero() && len(s.executing) < s.setting.slots {
		s.spareFor += now.Sub(s.sparedAt)
	}
	s.sparedAt = now
	return s.spareFor
}

// busy reports whether step functions hold slots for long.
func (o *oracle) busy() bool {
	return len(o.seed.executing) >= o.seed.setting.slots || o.seed.deafUntil.After(o.seed.world.Now())
}
