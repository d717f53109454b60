package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// deadFilter selects some dead letters.
func (w *differ) deadFilter() persistence.DeadFilter {
	f := persistence.DeadFilter{Limit: w.IntN(5)}
	if w.chance(2) {
		f.Tenant = anyOf(w, []string{"a", "b", "c", "absent", "nul\x00"})
	}
	if w.chance(3) {
		f.Workflow = anyOf(w, w.graphs).Name
	}
	if w.chance(4) {
		f.Step = anyOf(w, []string{"a", "bad", "try", "d0.0", "\xff"})
	}
	if w.chance(4) {
		f.Queue = anyOf(w, append(queueNames(), "nowhere", "nul\x00"))
	}
	if w.chance(4) {
		f.Handler = anyOf(w, anyOf(w, w.graphs).Nodes).Fingerprint.String()[:anyOf(w, []int{1, 8, 12, 64})]
	}
	f.Newest = w.chance(3)
	if w.chance(3) {
		f.Reasons = []lifecycle.DeadReason{anyOf(w, lifecycle.DeadReasons()), lifecycle.AttemptsExhausted}
	}
	if w.chance(3) {
		f.OlderThan = 30 * time.Minute
	}
	if w.chance(4) {
		f.YoungerThan = 30 * time.Minute
	}
	f.Requeued = persistence.Requeued(w.IntN(3))
	if len(w.state.Dead) > 0 && w.chance(3) {
		f.After = anyOf(w, w.state.Dead).Task
	}
	return f
}

// mourn compares what readers see of dead letters.
func (w *differ) mourn() {
	f := w.deadFilter()
	out := both(w, fmt.Sprintf("list dead %+v", f), func(s *side) ([]persistence.DeadLetter, error) {
		list, err := s.Store.ListDeadLetters(w.ctx, f)
		for i := range list {
			list[i] = letterSeen(list[i])
		}
		return list, err
	})
	w.sawAll(len(out.Value), "dead letter listed")
	both(w, "count dead", func(s *side) (int, error) { return s.Store.CountDeadLetters(w.ctx, f) })
	if len(w.state.Dead) == 0 {
		return
	}
	task := anyOf(w, w.state.Dead).Task
	if w.chance(10) {
		task.Step++
	}
	both(w, fmt.Sprintf("show dead %v of %q", task, f.Tenant), func(s *side) (persistence.DeadDetail, error) {
		d, err := s.Store.DeadLetter(w.ctx, f.Tenant, task)
		d.DeadLetter, d.Parents = letterSeen(d.DeadLetter), outcomes(d.Parents)
		for i := range d.Events {
			d.Events[i] = s.event(d.Events[i])
		}
		return d, err
	})
}

func letterSeen(l persistence.DeadLetter) persistence.DeadLetter {
	l.CreatedAt, l.StartedAt, l.DiedAt, l.RequeuedAt = flat(l.CreatedAt), flat(l.StartedAt), flat(l.DiedAt), flat(l.RequeuedAt)
	l.Error = errorText(l.Class, l.Error)
	return l
}

// deadTask returns the task of a dead letter, rather one whose run is gone.
func (w *differ) deadTask() workflow.TaskID {
	for _, l := range w.state.Dead {
		if w.ofChild(l.Task.Run) && w.chance(2) {
			return l.Task
		}
	}
	for _, l := range w.state.Dead {
		if !w.kept(l.Task.Run) && w.chance(3) {
			return l.Task
		}
	}
	return anyOf(w, w.state.Dead).Task
}

// ofChild reports whether a run is there, and a child of another.
func (w *differ) ofChild(run workflow.RunID) bool {
	return slices.ContainsFunc(w.state.Runs, func(r snapshot.Run) bool { return r.ID == run && !r.Family.Parent.Run.IsZero() })
}

// requeue has the run of a dead letter go on, or start anew.
func (w *differ) requeue() {
	if len(w.state.Dead) == 0 {
		return
	}
	order := persistence.RequeueOrder{
		Letter: w.deadTask(), Run: w.runID(), Again: w.chance(2), Fresh: w.chance(4), Judged: w.chance(4),
		Tenant: anyOf(w, []string{"", "", "", "a", "nul\x00"}),
	}
	if w.chance(4) {
		order.Queue = anyOf(w, append(queueNames(), "nowhere", "nowhere"))
	}
	if w.chance(5) {
		order.Labels, order.TraceContext = map[string]string{"color": "red"}, "requeued"
	}
	if order.Judged && w.chance(2) {
		order.Edges = []persistence.EdgeResult{{Child: "a", Flags: lifecycle.FlagSkip}}
	}
	if order.Fresh && w.chance(2) {
		g := anyOf(w, w.graphs)
		order.Definition, order.Input = g.Hash, fmt.Appendf(nil, "%d", w.ids)
	}
	at := anyOf(w, []time.Time{{}, {}, {}, present.Add(long)})
	what := fmt.Sprintf("requeue %+v at %v", order, at)
	for range 1 + w.IntN(2) {
		out := both(w, what, func(s *side) (persistence.RequeueAnswer, error) {
			own := order
			own.At = s.in(at)
			answer, err := s.Store.RequeueDeadLetter(w.ctx, own)
			answer.Err = kindOnly(answer.Err)
			return answer, err
		})
		w.sawRequeue(order, out.Value)
	}
}

func (w *differ) sawRequeue(order persistence.RequeueOrder, answer persistence.RequeueAnswer) {
	switch answer.Result {
	case persistence.RequeueStored:
		w.saw("dead letter requeued")
		w.sawFamilyRequeued(order.Letter)
		w.sawMapRequeued(order.Letter)
		if w.ofMachine(order.Letter.Run) {
			w.saw("dead letter of a machine requeued")
		}
		if answer.Kept > 0 {
			w.saw("steps taken over")
		}
	case persistence.RequeuedBefore:
		w.saw("dead letter requeued before")
	case persistence.RunGoesOn:
		w.saw("requeue too early")
	case persistence.RunGone:
		w.saw("requeue too late")
	case persistence.InputUnjudged:
		w.saw("requeue with an input that was not judged")
	case persistence.LetterLeftBehind:
		w.saw("requeue of a failure that a machine has handled")
	case persistence.RequeueRefused:
		if order.Queue == "" && order.Definition == (workflow.Hash{}) {
			w.diverge("refused: %+v", answer)
		}
		w.saw("requeue refused")
	}
}

// purge removes some dead letters.
func (w *differ) purge() {
	f := w.deadFilter()
	f.Limit = 1 + w.IntN(2)
	out := both(w, fmt.Sprintf("purge %+v", f), func(s *side) (int, error) { return s.Store.PurgeDeadLetters(w.ctx, f) })
	w.sawAll(out.Value, "dead letter purged")
}
