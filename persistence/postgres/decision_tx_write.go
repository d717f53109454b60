package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/elements"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/family"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/machines"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/workflow"
)

// gather collects what became ready and what others wait for, once all runs
// are decided.
func (p *decisionTx) gather() {
	for _, r := range p.runs {
		for _, e := range r.decision.Enqueued {
			handler, queue := r.target(e.Step)
			p.enqueued = append(p.enqueued, enqueued{
				run: r, step: e.Step, handler: handler, queue: queue, lane: e.Lane, suspect: e.Suspect,
			})
		}
		for _, t := range r.decision.Timers {
			p.noteTimer(t.At)
		}
		if r.decision.Ended {
			p.wake.Ended = append(p.wake.Ended, r.id)
			p.wake.CountEnds(r.definition.Graph.Name, r.decision.Run.State, 1)
		}
		if r.decision.Stops {
			p.wake.Canceling = append(p.wake.Canceling, r.id)
		}
		p.noteCancel(r)
		p.noteFailed(r)
	}
	sortRuns(p.wake.Ended)
}

// noteCancel keeps why a run was asked to stop, and tells the pods that execute tasks of it.
func (p *decisionTx) noteCancel(r *run) {
	for i, fact := range r.facts {
		if request, is := fact.(lifecycle.CancelRequested); is && r.decision.Answers[i] == lifecycle.Moved {
			r.reason = &request.Reason
			if r.decision.Run.Canceling && r.running() { // a machine that hears of a cancel is not stopped by it
				p.wake.Canceling = append(p.wake.Canceling, r.id)
			}
		}
	}
}

// byTask brings what became ready into the order of runs and steps, which does
// not depend on how the batch was put together.
func (p *decisionTx) byTask() {
	slices.SortStableFunc(p.enqueued, func(a, b enqueued) int {
		if c := bytes.Compare(a.run.id[:], b.run.id[:]); c != 0 {
			return c
		}
		return int(a.step) - int(b.step)
	})
}

// finish decides, gives out places and writes everything.
func (p *decisionTx) finish(ctx context.Context, b *pgsql.Batch) error {
	if err := p.decide(ctx); err != nil {
		return err
	}
	return p.conclude(ctx, b)
}

// conclude gives out places and writes everything that was decided.
func (p *decisionTx) conclude(ctx context.Context, b *pgsql.Batch) error {
	p.sum()
	return p.write(ctx, b)
}

// sum collects what was decided, in the order of runs and steps.
func (p *decisionTx) sum() {
	p.gather()
	p.byTask()
}

// write gives out places and sends b, with everything that was decided added
// to it, in one round trip.
func (p *decisionTx) write(ctx context.Context, b *pgsql.Batch) error {
	if err := p.allot(ctx); err != nil {
		return err
	}
	p.queueRuns(b)
	p.queueTaskRows(b)
	p.queueSignals(b)
	if err := p.queueFamily(b); err != nil {
		return err
	}
	p.queueMaps(b)
	p.queueMachines(b)
	p.queueEvents(b)
	p.queueDead(b)
	p.queueTimers(b)
	p.queueReady(b)
	return sessions.SendLast(ctx, p.tx, b.Ahead())
}

// queueMaps adds how far maps have come.
func (p *decisionTx) queueMaps(b *pgsql.Batch) {
	var writes elements.Writes
	for _, r := range p.runs {
		for i := range r.decision.Maps {
			m := &r.decision.Maps[i]
			writes.Move(r.id, m, r.spreads[m.Step])
		}
	}
	writes.Queue(b)
}

// queueMachines adds what activations of machines leave.
func (p *decisionTx) queueMachines(b *pgsql.Batch) {
	var writes machines.Writes
	for _, r := range p.runs {
		if r.activated != nil {
			writes.Activate(r.id, r.activated, r.decision.Created, r.decision.Run.Dynamic)
		}
		if r.continues {
			writes.Continue(r.id, r.number, r.tasks[0].handler, r.tasks[0].queue)
		}
	}
	writes.Queue(b, p.now)
}

// queueFamily adds what was decided about child runs and parents.
func (p *decisionTx) queueFamily(b *pgsql.Batch) error {
	var writes family.Writes
	known := registry.Names{Definitions: map[workflow.Hash]*registry.Definition{}}
	for _, r := range p.runs {
		for _, step := range r.decision.Begun {
			c := r.begins[step]
			edges, err := encodeEdges(c.Edges)
			if err != nil {
				return err
			}
			known.Definitions[c.Definition] = c.of
			abandons := r.tasks[step].Traits.Has(workflow.TraitAbandons)
			writes.Begin(workflow.TaskID{Run: r.id, Step: step}, c.Child, c.of.Number, c.of.Graph.Sinks(), abandons, edges)
		}
		for _, step := range r.decision.Given {
			writes.Give(workflow.TaskID{Run: r.id, Step: step}, r.decided(step).State == lifecycle.Completed)
		}
		if parent := r.family.Parent.Run; r.decision.Ended && !parent.IsZero() {
			writes.TellParent(parent)
		}
		for _, step := range r.decision.Stopped {
			writes.TellChild(workflow.TaskID{Run: r.id, Step: step})
		}
	}
	if writes.Begins() {
		p.s.QueueMatch(b, known)
	}
	writes.Queue(b, p.now, func() { p.wake.Submitted = true })
	return nil
}
