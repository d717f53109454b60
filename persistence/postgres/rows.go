package postgres

import (
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Marks of update_tasks: what happens to a task now.
const (
	markQueued int16 = 1 << iota
	markStarted
	markEnded
	markOutput
)

// queueRuns adds the writes of runs that changed.
func (p *decisionTx) queueRuns(b *pgsql.Batch) {
	var (
		ids                           pgsql.UUIDs
		states                        []int16
		remaining, failed             []int32
		events                        []int32
		slow, canceling, failing      []bool
		unhandled, cut, made, started []bool
		reasons                       []*string
		dynamic                       []int32
		signals                       []int64
	)
	for _, r := range p.runs {
		d := &r.decision
		if !d.RunChanged {
			continue
		}
		ids, states, remaining = append(ids, r.id), append(states, int16(d.Run.State)), append(remaining, d.Run.Remaining)
		events, slow = append(events, int32(d.Run.Events)), append(slow, d.Run.Slow)
		canceling, failing = append(canceling, d.Run.Canceling), append(failing, d.Run.Failing)
		unhandled, cut, made = append(unhandled, d.Run.Unhandled), append(cut, d.Run.Cut), append(made, d.Run.HandlerMade)
		failed, reasons = append(failed, r.firstFailure()), append(reasons, r.reason)
		dynamic, signals = append(dynamic, d.Run.Dynamic), append(signals, d.Run.Signals)
		started = append(started, slices.ContainsFunc(d.Events, func(e lifecycle.Event) bool {
			return e.Kind == lifecycle.EventRunStarted
		}))
	}
	if len(ids) == 0 {
		return
	}
	b.Add("update_runs", pgsql.Named{
		"runs": ids, "states": states, "remaining": remaining, "events": events, "slow": slow, "canceling": canceling,
		"failing": failing, "unhandled": unhandled, "cut": cut, "handler_made": made, "failed_steps": failed,
		"started": started, "reasons": reasons, "dynamic_counts": dynamic, "signals": signals, "now": pgsql.Instant(p.now),
	})
}

// firstFailure returns the step that a reader is told about if the run failed,
// -1 if there is none so far.
func (r *run) firstFailure() int32 {
	if r.failedStep != nil {
		return *r.failedStep
	}
	for _, e := range r.decision.Events {
		if e.Kind != lifecycle.EventFailed && e.Kind != lifecycle.EventTimedOut {
			continue
		}
		if t := r.decided(e.Step); !t.Handled() {
			return e.Step
		}
	}
	return -1
}

// queueTaskRows adds the writes of tasks that changed and of those made.
func (p *decisionTx) queueTaskRows(b *pgsql.Batch) {
	ready := map[workflow.TaskID]bool{}
	for _, e := range p.enqueued {
		ready[workflow.TaskID{Run: e.run.id, Step: e.step}] = true
	}
	rows := pgsql.TaskColumns{}
	var parkedRuns pgsql.UUIDs
	var parkedSteps []int32
	for _, r := range p.runs {
		changed := r.changed()
		for i := range changed {
			t := &changed[i]
			before := r.tasks[t.Step]
			marks := int16(0)
			if r.granted[t.Step] {
				marks |= markQueued | markStarted
			}
			if ready[workflow.TaskID{Run: r.id, Step: t.Step}] {
				marks |= markQueued
			}
			if t.State.Terminal() && !before.State.Terminal() {
				marks |= markEnded
			}
			if t.State == lifecycle.Completed && before.State == lifecycle.Running {
				marks |= markOutput
			}
			if before.State == lifecycle.Queued && t.State != lifecycle.Queued {
				parkedRuns, parkedSteps = append(parkedRuns, r.id), append(parkedSteps, t.Step)
			}
			rows.Add(r.id, t, marks, before.output)
		}
	}
	rows.Queue(b, p.now)
	if len(parkedRuns) > 0 {
		b.Add("delete_parked", pgsql.Named{"runs": parkedRuns, "steps": parkedSteps})
	}
	p.queueCreated(b, ready)
}

// changed returns the rows to write, by step: those decided on, and those that
// differed from the stored ones before.
func (r *run) changed() []lifecycle.Task {
	list := slices.Clone(r.decision.Tasks)
	for _, step := range slices.Sorted(maps.Keys(r.touched)) {
		decided := func(t lifecycle.Task) bool { return t.Step == step }
		if !slices.ContainsFunc(r.decision.Tasks, decided) {
			list = append(list, r.tasks[step].Task)
		}
	}
	return list
}

// queueCreated adds the tasks that decisions made. ready are those that got a place.
func (p *decisionTx) queueCreated(b *pgsql.Batch, ready map[workflow.TaskID]bool) {
	var rows pgsql.MadeColumns
	for _, r := range p.runs {
		for i := range r.decision.Created {
			t := &r.decision.Created[i]
			mark, step := int16(0), t.Step
			if r.granted[t.Step] {
				mark |= markQueued | markStarted
			}
			if ready[workflow.TaskID{Run: r.id, Step: t.Step}] {
				mark |= markQueued
			}
			if t.State.Terminal() {
				mark |= markEnded
			}
			if t.Dynamic != nil {
				step = t.Dynamic.Declared
			}
			rows.Add(r.id, t, mark, r.definition.Handlers[step], r.definition.QueueOf(step, r.queue))
		}
	}
	rows.Queue(b, p.now)
}
