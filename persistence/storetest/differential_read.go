package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
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
	w.byKey(tenant, &r)
	w.elements(tenant, &r)
	w.machineOf(tenant, &r)
	w.list(r.Tenant)
	w.tallyRuns(r.Tenant)
	w.ends()
	w.waits()
	steps := []int32{lifecycle.RunStep}
	for i := range r.Tasks {
		steps = append(steps, r.Tasks[i].Step)
		if r.Tasks[i].Dynamic != nil {
			w.saw("dynamic task read")
		}
	}
	for _, some := range [][]int32{steps, steps[:1]} {
		both(w, fmt.Sprintf("payloads of steps %v", some), func(s *side) ([][]byte, error) {
			return s.Store.Payloads(w.ctx, r.ID, some)
		})
		w.saw("payload read")
	}
	w.payload(tenant, &r)
}

// byKey compares which run a key names.
func (w *differ) byKey(tenant string, r *snapshot.Run) {
	key := persistence.RunKey{Tenant: tenant, Workflow: r.Graph.Name, Key: anyOf(w, []string{"k1", "k2", "absent", "nul\x00"})}
	out := both(w, fmt.Sprintf("run by key %v", key), func(s *side) (workflow.RunID, error) { return s.Store.RunByKey(w.ctx, key) })
	if out.Error == "" {
		w.saw("run read by its key")
	}
}

// payload compares the beginning of a payload.
func (w *differ) payload(tenant string, r *snapshot.Run) {
	names := []string{"", "absent", "nul\x00"}
	for i := range r.Graph.Nodes {
		names = append(names, r.Graph.Nodes[i].Name)
	}
	for i := range r.Tasks {
		if d := r.Tasks[i].Dynamic; d != nil {
			names = append(names, d.Name)
		}
	}
	step, limit := anyOf(w, names), w.IntN(6)-1
	both(w, fmt.Sprintf("the first %d bytes of %q of %v of %q", limit, step, r.ID, tenant), func(s *side) (persistence.PayloadHead, error) {
		head, err := s.Store.Payload(w.ctx, tenant, r.ID, step, limit)
		head.Error = errorText(head.Class, head.Error)
		return head, err
	})
	w.saw("beginning of a payload read")
}

// work compares what work waits for.
func (w *differ) work() {
	tenant := anyOf(w, []string{"a", "b", "c", "", "", "absent", "nul\x00"})
	queues := both(w, fmt.Sprintf("queues of %q", tenant), func(s *side) ([]persistence.QueueRow, error) {
		rows, err := s.Store.Queues(w.ctx, tenant)
		for i := range rows {
			rows[i].Waited = sign(rows[i].Waited)
		}
		return rows, err
	})
	for _, q := range queues.Value {
		if q.Running > 0 && q.Waited > 0 && len(q.Places) > 0 {
			w.saw("queue read")
		}
	}
	w.parkedWork(tenant)
	workflows := both(w, "workflows", func(s *side) ([]persistence.DefinitionRow, error) { return s.Store.Workflows(w.ctx) })
	for _, row := range workflows.Value {
		if len(row.Unregistered) > 0 {
			w.saw("unregistered step read")
		}
	}
	both(w, "pods", func(s *side) ([]persistence.PodRow, error) {
		rows, err := s.Store.Pods(w.ctx)
		for i := range rows {
			p := &rows[i]
			p.ID, p.StartedAt, p.Expires, p.Lease = s.ordinal(p.ID), flat(p.StartedAt), flat(p.Expires), sign(p.Lease)
			p.Leads = false // no session does
		}
		return rows, err
	})
}

// parkedWork compares what no pod can execute.
func (w *differ) parkedWork(tenant string) {
	parked := both(w, fmt.Sprintf("parked work of %q", tenant), func(s *side) ([]persistence.ParkedRow, error) {
		rows, err := s.Store.ParkedWork(w.ctx, tenant)
		for i := range rows {
			rows[i].Since = flat(rows[i].Since)
		}
		return rows, err
	})
	w.sawAll(len(parked.Value), "parked work read")
}

// sign is how durations are compared: by whether they are over.
func sign(d time.Duration) time.Duration { return time.Duration(cmp.Compare(d, 0)) }

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

// waits compares how much waits.
func (w *differ) waits() {
	both(w, "backlog", func(s *side) (persistence.Backlog, error) {
		out, err := s.Store.Backlog(w.ctx)
		s.setNow(&out.Now, err)
		out.Intake, out.OldTx = flat(out.Intake), 0
		for i := range out.Queues {
			out.Queues[i].Oldest = flat(out.Queues[i].Oldest)
		}
		return out, err
	})
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
		seen.Tasks[i] = s.taskRow(seen.Tasks[i])
	}
	if seen.Names, err = s.Store.StepNames(w.ctx, tenant, id); err != nil {
		return seen, err
	}
	const page = 3
	var position persistence.EventPosition
	for {
		events, err := s.Store.Events(w.ctx, tenant, id, position, page)
		if err != nil {
			return seen, err
		}
		for _, e := range events {
			seen.Events = append(seen.Events, s.event(e))
		}
		if len(events) < page {
			break
		}
		position = position.After(events)
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
	w.narrow(&filter)
	out := both(w, fmt.Sprintf("list %+v", filter), func(s *side) (persistence.RunList, error) {
		list, err := s.Store.ListRuns(w.ctx, filter)
		for i := range list.Rows {
			list.Rows[i] = s.row(list.Rows[i])
		}
		return list, err
	})
	w.saw("runs listed")
	if !filter.Parent.IsZero() {
		w.sawAll(len(out.Value.Rows), "child run listed")
	}
}

// narrow has a listing select by more, now and then.
func (w *differ) narrow(filter *persistence.RunFilter) {
	r := anyOf(w, w.state.Runs)
	switch w.IntN(9) {
	case 0:
		filter.Key = anyOf(w, []string{"k1", "k2"})
	case 1:
		filter.Origin = "message"
	case 2:
		filter.Class = "test"
	case 3:
		filter.FailedStep = anyOf(w, []string{"a", "b", "d0.0", "d0.1"})
	case 4:
		filter.Since = madeAt(r.ID)
	case 5:
		filter.Until = madeAt(r.ID)
	case 6, 7:
		w.narrowToChildren(filter)
	}
	filter.Budget = time.Hour // or a slow machine would find less
}

// tallyRuns compares how many runs there are. When they ended is a matter of the clock.
func (w *differ) tallyRuns(tenant string) {
	filter := persistence.CountFilter{Tenant: anyOf(w, []string{tenant, "", "nul\x00"}), By: persistence.CountBy(w.IntN(8))}
	if w.chance(3) {
		filter.Workflow = anyOf(w, w.graphs).Name
	}
	if w.chance(3) {
		filter.States = []lifecycle.State{lifecycle.Completed, lifecycle.Running}
	}
	timed := w.chance(3)
	both(w, fmt.Sprintf("count %+v", filter), func(s *side) ([]persistence.RunCount, error) {
		filter := filter
		if timed {
			filter.Since, filter.Until = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		filter.MaxAge = 0 // an answer of before would be another one
		counts, err := s.Store.CountRuns(w.ctx, filter)
		return hourless(counts), err
	})
	w.saw("runs counted")
}

// hourless are counts by all but the hour.
func hourless(counts []persistence.RunCount) []persistence.RunCount {
	sum := []persistence.RunCount{}
	for _, c := range counts {
		c.From, c.Width = time.Time{}, 0
		at := slices.IndexFunc(sum, func(o persistence.RunCount) bool {
			return o.State == c.State && o.Workflow == c.Workflow && o.Tenant == c.Tenant
		})
		if at < 0 {
			sum = append(sum, c)
			continue
		}
		sum[at].Runs += c.Runs
	}
	return inOrder(sum)
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
	found.End.At = flat(found.End.At)
	for i := range found.End.Failed {
		f := &found.End.Failed[i]
		f.Error, f.At, f.RequeuedAt = errorText(f.Class, f.Error), flat(f.At), flat(f.RequeuedAt)
	}
	found.LeaderLock = nil
	for i := range found.Tasks {
		t := &found.Tasks[i]
		t.Pod, t.Handler = s.ordinal(t.Pod), 0
		t.QueuedAt, t.StartedAt, t.Timer, t.Expires = flat(t.QueuedAt), flat(t.StartedAt), flat(t.Timer), flat(t.Expires)
		t.Since, t.Child.Since = flat(t.Since), flat(t.Child.Since)
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
