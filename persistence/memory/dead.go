package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// letter is a dead letter with what a requeue needs once its run is gone.
type letter struct {
	persistence.DeadLetter

	queue  string
	labels map[string]string
	trace  string
	input  []byte            // once the run is gone
	events []lifecycle.Event // the same
}

// bury writes the dead letters of tasks that failed for good just now.
func (b *batch) bury(r *run, deaths []lifecycle.Death) {
	for _, death := range deaths {
		if !death.Reason.Counts(b.s.options.DeadReasons) {
			continue
		}
		t, id := r.task(death.Step), workflow.TaskID{Run: r.id(), Step: death.Step}
		b.s.letters[id] = &letter{
			DeadLetter: persistence.DeadLetter{
				Task: id, Definition: r.trigger.Definition, Workflow: r.trigger.Workflow,
				Step: r.node(death.Step).Name, Handler: r.node(death.Step).Fingerprint,
				Queue: r.queueOf(death.Step), Tenant: r.trigger.Tenant, Reason: death.Reason,
				Class: t.Class, Error: t.Error, Attempts: t.Attempt, Lost: t.Lost, Handled: death.Handled,
				CreatedAt: r.createdAt, StartedAt: r.detail(death.Step).startedAt, DiedAt: b.now,
			},
			queue: r.trigger.Queue, labels: r.trigger.Labels, trace: r.trigger.TraceContext,
		}
	}
}

// noteFailed adds what failed for good just now to the wake.
func (b *batch) noteFailed(r *run, deaths []lifecycle.Death) {
	for _, death := range deaths {
		t := r.task(death.Step)
		b.wake.Failed = append(b.wake.Failed, persistence.FailedTask{
			Task: workflow.TaskID{Run: r.id(), Step: death.Step}, Workflow: r.trigger.Workflow, Step: r.node(death.Step).Name,
			Tenant: r.trigger.Tenant, Attempt: t.Attempt, Lost: t.Lost, Class: t.Class, Error: t.Error,
		})
	}
}

// outlive gives the letters of a run that goes away what they need of it.
func (s *Store) outlive(r *run) {
	for id, l := range s.letters {
		if id.Run == r.id() {
			l.input, l.events = r.trigger.Input, r.lastEvents(id.Step)
		}
	}
}

// lastEvents returns the last events of a task, oldest first.
func (r *run) lastEvents(step int32) []lifecycle.Event {
	var events []lifecycle.Event
	for _, e := range r.events {
		if e.Step == step {
			events = append(events, e)
		}
	}
	return events[max(0, len(events)-persistence.HistoryMax):]
}

// ListDeadLetters implements persistence.DeadLetters.
func (s *Store) ListDeadLetters(_ context.Context, filter persistence.DeadFilter) ([]persistence.DeadLetter, error) {
	b := s.begin()
	defer s.mu.Unlock()
	var rows []persistence.DeadLetter
	list := b.selected(filter)
	if filter.Newest {
		slices.Reverse(list)
	}
	for _, l := range list {
		if behind(l.Task, &filter) && len(rows) < filter.Page() {
			rows = append(rows, l.DeadLetter)
		}
	}
	return rows, nil
}

// behind reports whether a letter comes on the page that a filter asks for, or later.
func behind(task workflow.TaskID, f *persistence.DeadFilter) bool {
	order := compareTasks(task, f.After)
	if f.Newest {
		return order < 0 || f.After == (workflow.TaskID{})
	}
	return order > 0
}

// CountDeadLetters implements persistence.DeadLetters.
func (s *Store) CountDeadLetters(_ context.Context, filter persistence.DeadFilter) (int, error) {
	b := s.begin()
	defer s.mu.Unlock()
	return len(b.selected(filter)), nil
}

// selected returns the letters that a filter selects, by task.
func (b *batch) selected(filter persistence.DeadFilter) []*letter {
	var list []*letter
	for _, l := range b.s.letters {
		if l.matches(&filter, b.now) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(x, y *letter) int { return compareTasks(x.Task, y.Task) })
	return list
}

func (l *letter) matches(f *persistence.DeadFilter, now time.Time) bool {
	switch {
	case f.Tenant != "" && l.Tenant != f.Tenant, f.Workflow != "" && l.Workflow != f.Workflow,
		f.Step != "" && l.Step != f.Step, f.Queue != "" && l.Queue != f.Queue,
		!strings.HasPrefix(l.Handler.String(), f.Handler), !l.Reason.Counts(f.Reasons),
		f.OlderThan > 0 && l.DiedAt.After(persistence.NotAfter(now, f.By).Add(-f.OlderThan)),
		f.YoungerThan > 0 && !l.DiedAt.After(now.Add(-f.YoungerThan)),
		f.Requeued == persistence.NotRequeued && l.Requeues > 0,
		f.Requeued == persistence.RequeuedOnce && l.Requeues == 0:
		return false
	}
	return true
}

// letterOf returns the letter of a task that a tenant may see.
func (s *Store) letterOf(tenant string, task workflow.TaskID) (*letter, error) {
	l := s.letters[task]
	if l == nil || tenant != "" && l.Tenant != tenant {
		return nil, persistence.ErrDeadLetterNotFound
	}
	return l, nil
}

// DeadLetter implements persistence.DeadLetters.
func (s *Store) DeadLetter(_ context.Context, tenant string, task workflow.TaskID) (persistence.DeadDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.letterOf(tenant, task)
	if err != nil {
		return persistence.DeadDetail{}, err
	}
	out := persistence.DeadDetail{DeadLetter: l.DeadLetter, Input: bytes.Clone(l.input), Events: slices.Clone(l.events)}
	if r := s.runs[task.Run]; r != nil {
		out.RunKept, out.Input, out.Events = true, bytes.Clone(r.trigger.Input), r.lastEvents(task.Step)
		for _, parent := range r.node(task.Step).Parents {
			o := r.outcome(parent)
			if o.Size > persistence.InlinePayloadMax {
				o.Output, o.Large = nil, true
			}
			out.Parents = append(out.Parents, o)
		}
	}
	s.named(out.Events)
	return out, nil
}

// RequeueDeadLetter implements persistence.DeadLetters.
func (s *Store) RequeueDeadLetter(
	_ context.Context, order persistence.RequeueOrder,
) (persistence.RequeueAnswer, error) {
	b := s.begin()
	defer s.mu.Unlock()
	l, err := s.letterOf(order.Tenant, order.Letter)
	if err != nil {
		return persistence.RequeueAnswer{}, err
	}
	old := s.runs[order.Letter.Run]
	switch {
	case s.runs[order.Run] != nil:
		return s.repeated(&order, old), nil
	case l.Requeues > 0 && !order.Again:
		return persistence.RequeueAnswer{Result: persistence.RequeuedBefore, Run: l.RequeuedAs}, nil
	case old != nil && !old.core.State.Terminal():
		return persistence.RequeueAnswer{Result: persistence.RunGoesOn}, nil
	}
	t := l.trigger(&order, old)
	def := s.definitions[t.Definition]
	if order.Fresh && !order.Judged && def != nil && def.graph.InputFree {
		order.Judged, order.Edges, t.Edges = true, nil, nil
	}
	switch {
	case old == nil && !(order.Fresh && order.Judged):
		return persistence.RequeueAnswer{Result: persistence.RunGone}, nil
	case def == nil || def.graph.Name != l.Workflow:
		return persistence.RequeueAnswer{Result: persistence.RequeueRefused, Trigger: persistence.UnknownWorkflow}, nil
	case order.Fresh && order.Input != nil && !order.Judged:
		return persistence.RequeueAnswer{Result: persistence.InputUnjudged}, nil
	case old.leftBehind(&order):
		return persistence.RequeueAnswer{Result: persistence.LetterLeftBehind}, nil
	}
	kept := map[int32][]byte{}
	var again []int32
	if old != nil {
		t.Edges, kept, again = old.goOn(&order)
	}
	examined := s.examine(t, draft{}, &Tx{})
	if examined.Result == persistence.Triggered {
		if err := s.refuse(t.Input); err != nil {
			examined = persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}
		}
	}
	if examined.Result != persistence.Triggered {
		return persistence.RequeueAnswer{Result: persistence.RequeueRefused, Trigger: examined.Result, Err: examined.Err}, nil
	}
	s.submissions++
	s.submitted(s.submissions, t, b.now)
	next, count := s.runs[t.Run], len(kept)
	next.takenOver, next.options = kept, order.Options
	if old != nil && !order.Fresh {
		next.keyRun = old.firstRun()
		if old.definition.graph.IsMachine() {
			count = s.resumeMachine(old, next, b.now)
		} else {
			s.continueInbox(old, next, kept)
			next.takeElements(old, again, b.now)
		}
	}
	return persistence.RequeueAnswer{
		Result: persistence.RequeueStored, Run: t.Run, Kept: count, Letters: b.requeued(order.Letter.Run, t.Run),
		Wake: persistence.Wake{Submitted: true},
	}, nil
}

// repeated answers an order that was carried out before as it was answered then.
func (s *Store) repeated(order *persistence.RequeueOrder, old *run) persistence.RequeueAnswer {
	answer := persistence.RequeueAnswer{
		Result: persistence.RequeueStored, Run: order.Run, Wake: persistence.Wake{Submitted: true},
	}
	if old != nil {
		_, kept, _ := old.goOn(order)
		answer.Kept = len(kept)
		if old.definition.graph.IsMachine() && !order.Fresh {
			answer.Kept = len(old.resumed().Ended)
		}
	}
	for id, l := range s.letters {
		if id.Run == order.Letter.Run && l.RequeuedAs == order.Run {
			answer.Letters++
		}
	}
	return answer
}

// trigger is that of the new run; old is the ended one, nil if it is gone.
func (l *letter) trigger(order *persistence.RequeueOrder, old *run) persistence.Trigger {
	t := persistence.Trigger{
		Run: order.Run, Definition: l.Definition, Workflow: l.Workflow, Tenant: l.Tenant, Input: l.input, At: order.At,
		Queue: l.queue, Labels: maps.Clone(l.labels), TraceContext: cmp.Or(order.TraceContext, l.trace), Origin: persistence.OriginRequeue, Edges: order.Edges,
	}
	if old != nil {
		t.Input = old.trigger.Input
		if !order.Fresh && old.definition.graph.IsMachine() { // which it may have got behind the failure
			t.Definition = old.trigger.Definition
		}
	}
	if order.Queue != "" {
		t.Queue = order.Queue
	}
	if order.Labels != nil {
		t.Labels = order.Labels
	}
	if order.Fresh && order.Definition != (workflow.Hash{}) {
		t.Definition = order.Definition
	}
	if order.Fresh && order.Input != nil {
		t.Input = order.Input
	}
	return t
}

// goOn returns what conditions on the input say of the run that continues this
// one, the outputs that it takes over, and the maps of which it takes over elements.
func (r *run) goOn(order *persistence.RequeueOrder) (edges []persistence.EdgeResult, outputs map[int32][]byte, again []int32) {
	outputs = map[int32][]byte{}
	var kept []int32
	if !order.Fresh {
		kept, again = lifecycle.Resume(r.definition.graph, r.tasks, order.Letter.Step)
	}
	for _, step := range kept {
		outputs[step] = bytes.Clone(r.detail(step).output)
	}
	if order.Judged {
		return order.Edges, outputs, again
	}
	return persistence.EdgesOnInput(r.definition.graph, r.tasks, kept), outputs, again
}

// firstRun returns the run whose idempotency keys this one has.
func (r *run) firstRun() workflow.RunID {
	if r.keyRun.IsZero() {
		return r.id()
	}
	return r.keyRun
}

// requeued counts a requeue on every letter of a run, and returns how many
// these are.
func (b *batch) requeued(old, as workflow.RunID) int {
	count := 0
	for id, l := range b.s.letters {
		if id.Run == old {
			l.Requeues++
			l.RequeuedAt, l.RequeuedAs = b.now, as
			count++
		}
	}
	return count
}

// PurgeDeadLetters implements persistence.DeadLetters.
func (s *Store) PurgeDeadLetters(_ context.Context, filter persistence.DeadFilter) (int, error) {
	b := s.begin()
	defer s.mu.Unlock()
	count := 0
	for _, l := range b.selected(filter) {
		if count < filter.Purge() && compareTasks(l.Task, filter.After) > 0 {
			delete(s.letters, l.Task)
			count++
		}
	}
	return count, nil
}
