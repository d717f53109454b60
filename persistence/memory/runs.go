package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Run implements persistence.Runs.
func (s *Store) Run(_ context.Context, tenant string, id workflow.RunID, without ...persistence.Without) (persistence.RunRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return persistence.RunRow{}, err
	}
	row := r.row()
	if slices.Contains(without, persistence.WithoutOutputs) {
		row.Output = nil
	}
	return row, nil
}

func (r *run) row() persistence.RunRow {
	t := r.trigger
	row := persistence.RunRow{
		ID: t.Run, Workflow: t.Workflow, Definition: t.Definition, Tenant: t.Tenant, Key: t.Key,
		State: r.core.State, Canceling: r.core.Canceling, CancelReason: r.cancelReason, Origin: t.Origin,
		Labels: maps.Clone(t.Labels), CreatedAt: r.createdAt, StartedAt: r.startedAt, FinishedAt: r.finishedAt,
		Parent: r.family.Parent,
	}
	output := r.definition.graph.Output
	if sink := r.task(output); sink != nil && sink.State == lifecycle.Completed {
		row.HasOutput, row.Output = true, bytes.Clone(r.detail(output).output)
	}
	if r.failure != nil {
		row.FailedStep, row.Class, row.Error = r.failure.step, r.failure.class, r.failure.text
	}
	return row
}

// Tasks implements persistence.Runs.
func (s *Store) Tasks(_ context.Context, tenant string, id workflow.RunID, without ...persistence.Without) ([]persistence.TaskRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(tenant, id)
	if err != nil {
		return nil, err
	}
	rows := make([]persistence.TaskRow, 0, len(r.tasks))
	for i := range r.tasks {
		if r.tasks[i].IsElement() {
			continue
		}
		row := s.taskRow(r, r.tasks[i].Step)
		if slices.Contains(without, persistence.WithoutOutputs) {
			row.Output = nil
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (s *Store) taskRow(r *run, step int32) persistence.TaskRow {
	t, d, node := r.task(step), r.detail(step), r.node(step)
	row := persistence.TaskRow{
		Step: step, Name: node.Name, State: t.State, Epoch: t.Epoch, Attempt: t.Attempt, Lost: t.Lost,
		Pod: t.Pod, PodName: s.podNames[t.Pod], Output: bytes.Clone(d.output), OutputSize: sizeOf(d.output), Class: t.Class, Error: t.Error,
		WakeAt: s.timers.of(r.id(), step), StartedAt: d.startedAt, FinishedAt: d.finishedAt,
		Child: r.children[step], Map: r.mapRow(step),
	}
	if t.State == lifecycle.Running || t.State == lifecycle.Completed && !t.Traits.Unattended() ||
		t.State == lifecycle.Waiting && t.Traits.Has(workflow.TraitChild) {
		row.Attempt++
	}
	if t.State == lifecycle.Queued {
		row.Parked = s.parked(r, step)
	}
	return row
}

// parked reports whether a task waits where no living pod registers its step.
func (s *Store) parked(r *run, step int32) bool {
	if r == nil || r.task(step) == nil {
		return false
	}
	return slices.ContainsFunc(s.queue(r.queueOf(step)).parked, func(q queueRow) bool {
		return q.task == workflow.TaskID{Run: r.id(), Step: step}
	})
}

// named fills in the names of pods.
func (s *Store) named(events []lifecycle.Event) []lifecycle.Event {
	for i := range events {
		events[i].PodName = s.podNames[events[i].Pod]
	}
	return events
}

// EndedRuns implements persistence.Runs.
func (s *Store) EndedRuns(_ context.Context, runs []workflow.RunID) ([]workflow.RunID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ended []workflow.RunID
	for _, id := range runs {
		if r := s.runs[id]; r == nil || r.core.State.Terminal() && !s.unreadable(id) {
			ended = append(ended, id)
		}
	}
	return ended, nil
}

// Payloads implements persistence.Runs.
func (s *Store) Payloads(_ context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[run]
	payloads := make([][]byte, len(steps))
	for i, step := range steps {
		switch {
		case r == nil:
			return nil, persistence.ErrRunNotFound
		case s.unreadable(run):
			return nil, persistence.ErrUnavailable
		case step == lifecycle.RunStep:
			payloads[i] = bytes.Clone(r.trigger.Input)
		case r.task(step) == nil:
			return nil, persistence.ErrRunNotFound
		default:
			payloads[i] = bytes.Clone(r.detail(step).output)
		}
	}
	return payloads, nil
}
