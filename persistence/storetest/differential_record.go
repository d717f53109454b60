package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// sent is a transition as both stores get it, and the pod that sent it.
type sent struct {
	pod int64 // ordinal
	persistence.Transition
	spoiled bool // its child run, its map or its activation is refused
}

func (r sent) bad() bool { return r.spoiled || string(r.Output) == BadPayload }

func (s *side) transition(t persistence.Transition) persistence.Transition {
	t.Edges, t.Activation = s.edges(t.Edges), s.activationOf(t.Activation)
	return t
}

// held is a task that a pod holds.
type held struct {
	run  *snapshot.Run
	task *snapshot.Task
}

func (h held) id() workflow.TaskID { return workflow.TaskID{Run: h.run.ID, Step: h.task.Step} }

// holds returns the tasks of a pod (0: of all pods), by run and step.
func (w *differ) holds(pod int64) []held {
	var list []held
	for i := range w.state.Runs {
		r := &w.state.Runs[i]
		for j := range r.Tasks {
			if t := &r.Tasks[j]; t.State == lifecycle.Running && (pod == 0 || t.Pod == pod) {
				list = append(list, held{r, t})
			}
		}
	}
	return list
}

// busy returns the ordinal of a pod that holds tasks, or of any.
func (w *differ) busy() int64 {
	if list := w.holds(0); len(list) > 0 && !w.chance(10) {
		return anyOf(w, list).task.Pod
	}
	return 1 + int64(w.IntN(len(w.model.pods)))
}

// report makes up how an attempt ended.
func (w *differ) report(h held) sent {
	r := sent{pod: h.task.Pod, Transition: persistence.Transition{Task: h.id(), Epoch: h.task.Epoch, Report: lifecycle.Succeeded}}
	handled := lifecycle.Handled(h.task.Children)
	spread := 40
	switch {
	case w.calm:
		spread = 400
	case w.kin, w.wide, w.driven:
		spread = 100
	}
	switch n := w.IntN(spread); {
	case n < 3, handled && n < 28, !h.run.Family.Parent.Run.IsZero() && w.chance(8), h.task.Dynamic != nil && n < 12 && !h.task.IsSpawned():
		r.Report, r.Class, r.Error = lifecycle.Errored, "test", anyOf(w, []string{"it broke", "no\x00 text \xff"})
		r.Exhausted = w.chance(2)
	case n < 7:
		r.Report, r.Class, r.Error, r.Retry, r.RetryIn = lifecycle.Errored, "test", "it broke", true, w.span()
	case n < 9:
		r.Report, r.Class, r.Error, r.TimedOut = lifecycle.Errored, "timeout", "too slow", "attempt"
	case n < 12:
		r.Report = lifecycle.Lost
	case n < 15:
		r.Report = lifecycle.Released
	case n < 16:
		r.Output = []byte(BadPayload)
	default:
		r.Output = fmt.Appendf(nil, "%d", w.count)
	}
	w.turn(&r, h)
	w.turnStopped(&r, h)
	if payload := w.taken(h); payload != nil && r.Report == lifecycle.Succeeded {
		r.Output = payload
	} else if w.chance(6) && payload == nil {
		r.Progress = fmt.Appendf(nil, "progress %d", w.count)
	}
	if r.Report != lifecycle.Succeeded {
		return r
	}
	switch {
	case h.task.Traits.Has(workflow.TraitMachine):
		w.activate(&r, h)
		return r
	case begins(h):
		w.yield(&r, h)
		return r
	case spreadsOut(h) && !w.chance(8): // or its list is empty
		w.spreadOut(&r, h)
		return r
	}
	for _, c := range h.task.Children {
		if edge, ok := w.condition(&h.run.Graph.Nodes[c.Step], 16, -short, short, long); ok {
			r.Edges = append(r.Edges, edge)
		}
	}
	if !w.chance(3) {
		r.Make = w.dynamic(h)
	}
	return r
}

// dynamic makes up what a task of a graph that grows asks for, at times what cannot be made.
func (w *differ) dynamic(h held) []persistence.DynamicTask {
	if h.run.Graph.Name != "growing" && h.run.Graph.Name != "rescued" || h.run.Core.Dynamic > 6 {
		return nil
	}
	var list []persistence.DynamicTask
	for n := range 1 + w.IntN(3) {
		list = append(list, persistence.DynamicTask{
			Declared: anyOf(w, []string{"plan", "plan", "rest", "heavy"}), Name: fmt.Sprintf("d%d.%d", h.task.Step, n),
		})
	}
	if w.chance(15) {
		list[0].Declared = anyOf(w, []string{"tail", "absent", "rescue"})
	}
	return list
}

// record sends what a pod has to report, and now and then what is over.
func (w *differ) record() {
	pod := w.busy()
	var batch []sent
	for _, h := range w.holds(pod) {
		if len(batch) < 5 && !w.chance(3) {
			batch = append(batch, w.report(h))
		}
	}
	if len(batch) > 0 && w.chance(20) {
		if again := anyOf(w, batch); !again.bad() {
			batch = append(batch, again)
			w.saw("task repeated in one batch")
		}
	}
	batch = w.apart(batch)
	for range w.IntN(3) {
		if len(w.past) > 0 && w.chance(3) {
			old := anyOf(w, w.past)
			pod = old.pod
			batch = slices.DeleteFunc(batch, func(r sent) bool { return r.pod != pod })
			batch = append(batch, old)
		}
	}
	if len(batch) > 0 && w.chance(15) {
		w.spoil(&batch[w.IntN(len(batch))])
	}
	record := w.newRecord()
	if !w.chance(4) {
		record.Limit, record.Queues = 1+w.IntN(5), queueNames()[:1+w.IntN(3)]
		record.Spare = int(w.ids % 4)
	}
	w.send(pod, record, batch)
	if w.chance(12) {
		w.send(pod, record, batch)
		w.saw("record repeated")
	}
	w.past = append(w.past, batch...)
}

// apart returns of a batch what is refused in a run that needs decisions, by itself: before or after
// others that need one, too, is up to a store.
func (w *differ) apart(batch []sent) []sent {
	if at := slices.IndexFunc(batch, func(r sent) bool { return r.bad() && (r.spoiled || w.slow(r.Task.Run)) }); at >= 0 {
		return batch[at : at+1]
	}
	return batch
}

// slow reports whether what is reported of a run may need a decision.
func (w *differ) slow(run workflow.RunID) bool {
	at := slices.IndexFunc(w.state.Runs, func(r snapshot.Run) bool { return r.ID == run })
	return at >= 0 && w.state.Runs[at].Core.Slow
}

func (w *differ) newRecord() persistence.Record {
	return persistence.Record{GrantRequest: persistence.GrantRequest{Claim: w.id(), TenantLimit: w.limit}, MaxLost: 1 + w.IntN(3), CancelGrace: w.span()}
}

// spoil makes a transition stale.
func (w *differ) spoil(r *sent) {
	switch w.IntN(3) {
	case 0:
		r.Epoch--
	case 1:
		r.Task.Step = 99
	case 2:
		r.Task.Run[15] ^= 0xff
	}
}

func (w *differ) send(pod int64, record persistence.Record, batch []sent) {
	graphs := w.someGraphs()
	what := fmt.Sprintf("record of pod %d, inline %d+%d: %s", pod, record.Limit, record.Spare, transitions(batch))
	out := both(w, what, func(s *side) (persistence.Recorded, error) {
		own := record
		own.Pod, own.Handlers = s.pod(int(pod)-1), s.handlers(graphs)
		for _, r := range batch {
			own.Transitions = append(own.Transitions, s.transition(r.Transition))
		}
		out, err := s.Store.RecordTransitions(w.ctx, own)
		return s.recorded(out, err), err
	})
	w.sawRefused(out.Error)
	for i, answer := range out.Value.Answers {
		w.sawRecord(batch[i], answer)
	}
	w.sawAll(len(out.Value.Grants), "inline grant")
}

func (s *side) recorded(out persistence.Recorded, err error) persistence.Recorded {
	s.setNow(&out.Now, err)
	out.Wake, out.Grants = sameWake(out.Wake), s.grants(out.Grants)
	out.Answers = slices.Clone(out.Answers)
	for i := range out.Answers {
		out.Answers[i].Err = kindOnly(out.Answers[i].Err)
	}
	return out
}

func transitions(batch []sent) string {
	text := ""
	for _, r := range batch {
		text += fmt.Sprintf("\n      %v/%d epoch %d: report %d %s edges %+v make %+v child %+v map %+v activation %+v retry %v in %v timeout %q",
			r.Task.Run, r.Task.Step, r.Epoch, r.Report, r.Output, r.Edges, r.Make, r.Child, r.Map, r.Activation, r.Retry, r.RetryIn, r.TimedOut)
	}
	return text
}

func (w *differ) sawRecord(r sent, answer persistence.RecordAnswer) {
	switch answer.Result {
	case lifecycle.AlreadyYours:
		w.saw("transition already recorded")
		switch {
		case r.Activation != nil:
			w.saw("activation repeated")
		case r.Map != nil:
			w.saw("map begun before")
		case r.Child != nil:
			w.saw("child run begun before")
		}
	case lifecycle.Stale:
		w.saw("transition stale")
	case lifecycle.BadRow:
		w.saw("bad row")
		switch {
		case r.Activation != nil && r.spoiled:
			w.saw("activation refused")
		case r.Map != nil && r.spoiled:
			w.saw("map refused")
		case r.spoiled:
			w.saw("child run refused")
		}
	case lifecycle.Illegal, lifecycle.Busy:
		w.diverge("unexpected answer %d", answer.Result)
	case lifecycle.Moved:
		switch {
		case r.Activation != nil:
			w.sawActivation(r)
		case r.Map != nil:
			w.sawSpread(r)
		case r.Report == lifecycle.Yielded:
			w.sawYield(r)
		case r.Report == lifecycle.Lost:
			w.saw("loss")
		case r.Report == lifecycle.Released:
			w.saw("release")
		case r.TimedOut != "":
			w.saw("timeout")
		case r.Retry:
			w.saw("retry")
		case r.Report == lifecycle.Errored:
			w.saw("attempt failed")
		case len(r.Make) > 0:
			w.saw("dynamic tasks made")
		case len(r.Edges) > 0:
			w.saw("condition on a completion")
		default:
			w.saw("task completed")
		}
	}
}

// recordInTx completes a task in a transaction of the user, in which a run may
// be triggered, or gives the transaction up.
func (w *differ) recordInTx() {
	list := w.holds(0)
	if len(list) == 0 {
		return
	}
	h := anyOf(w, list)
	if begins(h) || h.task.Traits&(workflow.TraitMap|workflow.TraitMachine) != 0 {
		return // no function is called, or none in a transaction
	}
	r := w.report(h)
	if r.Report == lifecycle.Succeeded && w.taken(h) == nil && w.chance(6) {
		r.Output = []byte(BadPayload)
	}
	if w.chance(8) {
		w.spoil(&r)
	}
	var inner *trigger
	if w.chance(2) {
		t := w.draft()
		t.Key = "" // another transaction may hold it
		if string(t.Input) == BadPayload {
			t.Input = nil
		}
		inner = &t
	}
	givesUp := w.chance(5)
	record := w.newRecord()
	out := both(w, "record in tx: "+transitions([]sent{r}), func(s *side) (persistence.Recorded, error) {
		own := record
		own.Pod, own.TxLimit = s.pod(int(r.pod)-1), time.Minute
		out, err := s.Store.RecordInTx(w.ctx, own, func(ctx context.Context, tx any) (persistence.Transition, error) {
			if inner != nil {
				if _, err := s.Store.TriggerInTx(ctx, tx, s.trigger(*inner)); err != nil {
					return persistence.Transition{}, err
				}
			}
			if givesUp {
				return persistence.Transition{}, errGivenUp
			}
			return s.transition(r.Transition), nil
		})
		return s.recorded(out, err), err
	})
	switch {
	case givesUp:
		w.saw("transaction given up")
	case len(out.Value.Answers) == 1 && out.Value.Answers[0].Result == lifecycle.BadRow:
		w.saw("bad row in a transaction")
	case len(out.Value.Answers) == 1 && out.Value.Answers[0].Result == lifecycle.Moved:
		w.saw("completed in a transaction")
	}
}
