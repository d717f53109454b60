package storetest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// read compares what readers see.
func (w *differ) read() {
	if len(w.state.Runs) == 0 {
		return
	}
	r := anyOf(w, w.state.Runs)
	tenant := anyOf(w, []string{r.Tenant, r.Tenant, r.Tenant, "", "absent", "nul\x00"})
	out := both(w, fmt.Sprintf("read %v of %q", r.ID, tenant), func(s *side) (runSeen, error) { return s.see(w, tenant, r.ID) })
	if out.Error != "" {
		w.saw("run hidden from another tenant")
		return
	}
	w.saw("run read")
	w.list(r.Tenant)
	w.ends()
	steps := []int32{lifecycle.RunStep}
	for step := range r.Tasks {
		steps = append(steps, int32(step))
	}
	for _, some := range [][]int32{steps, steps[:1]} {
		both(w, fmt.Sprintf("payloads of steps %v", some), func(s *side) ([][]byte, error) {
			return s.Store.Payloads(w.ctx, r.ID, some)
		})
		w.saw("payload read")
	}
}

// ends asks which of some runs go on.
func (w *differ) ends() {
	var runs []workflow.RunID
	for i := range w.state.Runs {
		runs = append(runs, w.state.Runs[i].ID)
	}
	runs = append(runs, workflow.RunID{9}) // which there is none of
	out := both(w, fmt.Sprintf("which of %v have ended", runs), func(s *side) ([]workflow.RunID, error) {
		ended, err := s.Store.EndedRuns(w.ctx, runs)
		slices.SortFunc(ended, func(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) })
		return ended, err
	})
	if len(out.Value) < len(runs) {
		w.saw("run not ended")
	}
}

// runSeen is a run as readers see it.
type runSeen struct {
	Run    persistence.RunRow
	Tasks  []persistence.TaskRow
	Names  []string
	Events []lifecycle.Event
}

func (s *side) see(w *differ, tenant string, id workflow.RunID) (seen runSeen, err error) {
	if seen.Run, err = s.Store.Run(w.ctx, tenant, id); err != nil {
		return seen, err
	}
	seen.Run = s.row(seen.Run)
	if seen.Tasks, err = s.Store.Tasks(w.ctx, tenant, id); err != nil {
		return seen, err
	}
	for i := range seen.Tasks {
		t := &seen.Tasks[i]
		t.Pod, t.WakeAt, t.StartedAt, t.FinishedAt = s.ordinal(t.Pod), flat(t.WakeAt), flat(t.StartedAt), flat(t.FinishedAt)
		t.Error = errorText(t.Class, t.Error)
	}
	if seen.Names, err = s.Store.StepNames(w.ctx, tenant, id); err != nil {
		return seen, err
	}
	const page = 3
	after := int64(0)
	for {
		events, next, err := s.Store.Events(w.ctx, tenant, id, after, page)
		if err != nil {
			return seen, err
		}
		for _, e := range events {
			seen.Events = append(seen.Events, s.event(e))
		}
		if len(events) < page {
			break
		}
		after = next
	}
	// Within a transaction the order of events of different tasks is open.
	slices.SortFunc(seen.Events, func(a, b lifecycle.Event) int {
		if a.Step != b.Step {
			return int(a.Step) - int(b.Step)
		}
		return int(a.N - b.N)
	})
	return seen, nil
}

func (s *side) row(r persistence.RunRow) persistence.RunRow {
	r.CreatedAt, r.StartedAt, r.FinishedAt = flat(r.CreatedAt), flat(r.StartedAt), flat(r.FinishedAt)
	r.Error = errorText(r.Class, r.Error)
	return r
}

// list compares a page of runs.
func (w *differ) list(tenant string) {
	filter := persistence.RunFilter{Tenant: anyOf(w, []string{tenant, ""}), Limit: w.IntN(8)}
	if w.chance(2) {
		filter.Workflow = anyOf(w, w.graphs).Name
	}
	if w.chance(2) {
		filter.States = []lifecycle.State{lifecycle.Completed, lifecycle.Running}
	}
	if w.chance(3) {
		filter.Labels = map[string]string{"color": "red"}
	}
	if w.chance(3) {
		filter.Before = anyOf(w, w.state.Runs).ID
	}
	both(w, fmt.Sprintf("list %+v", filter), func(s *side) ([]persistence.RunRow, error) {
		rows, err := s.Store.ListRuns(w.ctx, filter)
		for i := range rows {
			rows[i] = s.row(rows[i])
		}
		return rows, err
	})
	w.saw("runs listed")
}

// situation compares why a run does not move, down to the sentences.
func (w *differ) situation() {
	if len(w.state.Runs) == 0 {
		return
	}
	r := anyOf(w, w.state.Runs)
	tenant := anyOf(w, []string{r.Tenant, r.Tenant, "", "absent", "nul\x00"})
	type told struct {
		Situation explain.Situation
		Causes    []explain.Cause
	}
	out := both(w, fmt.Sprintf("situation of %v of %q", r.ID, tenant), func(s *side) (told, error) {
		found, err := s.Store.Situation(w.ctx, tenant, r.ID)
		if err != nil {
			return told{}, err
		}
		causes := []explain.Cause{}
		for _, reason := range explain.Explain(found) {
			causes = append(causes, reason.Cause)
		}
		return told{s.flatSituation(found), causes}, nil
	})
	if out.Error != "" {
		return
	}
	for _, cause := range out.Value.Causes {
		if cause == explain.CauseNone {
			w.diverge("nothing explains a step of %v: %+v", r.ID, out.Value.Situation)
		}
	}
	w.saw("situation read")
}

// flatSituation is a situation without what differs by nature: numbers of pods
// and handlers, and instants.
func (s *side) flatSituation(found explain.Situation) explain.Situation {
	found.Now, found.StartsAt, found.Fenced, found.Leader = flat(found.Now), flat(found.StartsAt), flat(found.Fenced), 0
	found.LeaderLock = nil
	for i := range found.Tasks {
		t := &found.Tasks[i]
		t.Pod, t.Handler = s.ordinal(t.Pod), 0
		t.QueuedAt, t.StartedAt, t.Timer, t.Expires = flat(t.QueuedAt), flat(t.StartedAt), flat(t.Timer), flat(t.Expires)
		t.Error = errorText(t.Class, t.Error)
	}
	for i := range found.Pods {
		p := &found.Pods[i]
		p.ID, p.Expires = s.ordinal(p.ID), flat(p.Expires)
		for j := range p.Handlers {
			p.Handlers[j] = 0
		}
	}
	for i := range found.Handlers {
		found.Handlers[i] = explain.Handler{LastSeen: flat(found.Handlers[i].LastSeen)}
	}
	return found
}
