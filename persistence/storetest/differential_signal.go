package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// signal sends signals to runs, by run or by key, now and then what is refused.
func (w *differ) signal() {
	batch := make([]persistence.Signal, 1+w.IntN(4))
	for i := range batch {
		batch[i] = w.draftSignal(w.addressee())
		if i > 0 && w.chance(10) {
			batch[i].ID = batch[i-1].ID
		}
	}
	if w.chance(3) {
		for i := range batch {
			batch[i].Run, batch[i].Key, batch[i].Tenant = batch[0].Run, batch[0].Key, batch[0].Tenant
		}
	}
	out := both(w, fmt.Sprintf("signal %+v", batch), func(s *side) (persistence.Signals, error) {
		out, err := s.Store.SendSignals(w.ctx, batch)
		s.setNow(&out.Now, err)
		for i := range out.Answers {
			out.Answers[i].Err = kindOnly(out.Answers[i].Err)
		}
		return out, err
	})
	for i, answer := range out.Value.Answers {
		w.sawSignal(answer.Result)
		w.signals = append(w.signals, batch[i])
	}
}

// signalInTx sends a signal in the open transaction, rather to a run of this transaction.
func (w *differ) signalInTx() {
	w.beginTx()
	to := w.addressee()
	if len(w.inTx) > 0 && !w.chance(3) {
		t := anyOf(w, w.inTx)
		to = persistence.Signal{Run: t.Run, Tenant: t.Tenant}
		if t.Key != "" && w.chance(2) {
			to = persistence.Signal{Key: persistence.RunKey{Tenant: t.Tenant, Workflow: t.Workflow, Key: t.Key}}
		}
	}
	signal := w.draftSignal(to)
	if len(w.sentInTx) > 0 && w.chance(6) {
		signal = anyOf(w, w.sentInTx)
	}
	w.sentInTx = append(w.sentInTx, signal)
	out := both(w, fmt.Sprintf("signal in tx %+v", signal), func(s *side) (persistence.SignalAnswer, error) {
		answer, err := s.Store.SendSignalInTx(w.ctx, s.tx.Value, signal)
		answer.Err = kindOnly(answer.Err)
		return answer, err
	})
	w.sawSignal(out.Value.Result)
	if w.chance(3) {
		w.end()
	}
}

func (w *differ) sawSignal(result persistence.SignalResult) {
	switch result {
	case persistence.SignalStored:
		w.saw("signal sent")
	case persistence.SignalRepeated:
		w.saw("signal repeated")
	case persistence.SignalNoRun, persistence.SignalRunEnded, persistence.SignalUnknown, persistence.SignalInboxFull,
		persistence.SignalBadRow, persistence.SignalBusy:
		w.saw("signal refused")
	}
}

// waits reports whether steps of a run wait for signals.
func waits(r *snapshot.Run) bool { return len(r.Graph.Signals()) > 0 }

// addressee names a run, mostly one that a signal can be delivered to.
func (w *differ) addressee() persistence.Signal {
	var open, list []*snapshot.Run
	for i := range w.state.Runs {
		r := &w.state.Runs[i]
		list = append(list, r)
		if waits(r) && !r.Core.State.Terminal() {
			open = append(open, r)
		}
	}
	keyed := slices.DeleteFunc(slices.Clone(w.triggers), func(t trigger) bool { return t.Key == "" })
	switch {
	case len(keyed) > 0 && w.chance(4):
		t := anyOf(w, keyed)
		return persistence.Signal{Key: persistence.RunKey{Tenant: t.Tenant, Workflow: t.Workflow, Key: t.Key}}
	case w.chance(30):
		return persistence.Signal{Key: persistence.RunKey{Tenant: "a", Workflow: "approval", Key: anyOf(w, []string{"none", "nul\x00"})}}
	case len(open) > 0 && !w.chance(6):
		list = open
	case len(list) == 0:
		return persistence.Signal{Run: w.runID()}
	}
	r := anyOf(w, list)
	return persistence.Signal{Run: r.ID, Tenant: anyOf(w, []string{"", r.Tenant, r.Tenant})}
}

// draftSignal makes a signal for a run. Its id is new, but now and then that of one before.
func (w *differ) draftSignal(to persistence.Signal) persistence.Signal {
	w.ids++
	to.ID, to.Payload = fmt.Sprintf("s%d", w.ids), fmt.Appendf(nil, "%d", w.ids)
	to.Name = anyOf(w, []string{"approved", "approved", "reminded", "go"})
	for i := range w.state.Runs {
		if r := &w.state.Runs[i]; r.ID == to.Run && waits(r) {
			to.Name = anyOf(w, r.Graph.Signals())
		}
	}
	switch w.IntN(40) {
	case 0:
		to.Name = anyOf(w, []string{"unknown", "nul\x00"})
	case 1:
		to.Tenant = "absent"
	case 2:
		to.ID = anyOf(w, []string{"", "nul\x00", "\xff", strings.Repeat("x", persistence.SignalIDMax+1)})
	case 3:
		to.Payload = []byte(BadPayload)
	case 4:
		to.Payload = nil
	case 5, 6, 7, 8:
		if len(w.signals) == 0 {
			break
		}
		again := anyOf(w, w.signals)
		if !slices.ContainsFunc(w.sentInTx, func(s persistence.Signal) bool { return s.ID == again.ID }) { // or it would wait
			return again
		}
	}
	return to
}

// signaled gives a trigger a signal, now and then.
func (w *differ) signaled(t *trigger) {
	at := slices.IndexFunc(w.graphs, func(g *workflow.Graph) bool { return g.Hash == t.Definition && len(g.Signals()) > 0 })
	if at < 0 && !w.chance(30) || at >= 0 && w.chance(2) {
		return
	}
	signal := w.draftSignal(persistence.Signal{})
	signal.Run, signal.Key = workflow.RunID{}, persistence.RunKey{}
	if at >= 0 && !w.chance(8) {
		signal.Name = anyOf(w, w.graphs[at].Signals())
	}
	if string(signal.Payload) == BadPayload {
		signal.Payload = nil // whose value is refused is up to a store
	}
	t.Signal = &signal
}

// sawTriggerSignals counts what became of the signals of triggers, and the runs that wait for
// older pods to leave.
func (w *differ) sawTriggerSignals(batch []trigger, out persistence.Triggers) {
	signals := slices.ContainsFunc(batch, func(t trigger) bool { return t.Signal != nil })
	if out.Wake.Submitted && !signals {
		w.saw("run held back by an older pod")
	}
	for _, answer := range out.Answers {
		w.sawSignal(answer.Signal)
	}
}

// waiting lists the steps that wait for a signal.
func (w *differ) waiting() (tasks []workflow.TaskID) {
	for i := range w.state.Runs {
		r := &w.state.Runs[i]
		for j := range r.Tasks {
			if t := &r.Tasks[j]; t.State == lifecycle.Waiting && !t.Traits.Has(workflow.TraitMachine) && !t.IsSpawned() {
				tasks = append(tasks, workflow.TaskID{Run: r.ID, Step: r.Tasks[j].Step})
			}
		}
	}
	return tasks
}

// sawDeadlines counts how waits have ended, of those that were there before timers fired.
func (w *differ) sawDeadlines(before []workflow.TaskID) {
	for i := range w.state.Runs {
		r := &w.state.Runs[i]
		for j := range r.Tasks {
			t := &r.Tasks[j]
			if !slices.Contains(before, workflow.TaskID{Run: r.ID, Step: t.Step}) {
				continue
			}
			switch {
			case t.State == lifecycle.Skipped:
				w.saw("wait skipped at its deadline")
			case t.State == lifecycle.Failed && t.Class == lifecycle.ClassWaitTimeout:
				w.saw("wait failed at its deadline")
			case t.State == lifecycle.Queued, t.State == lifecycle.Completed:
				w.saw("signal delivered before a deadline")
			}
		}
	}
}

// taken returns the payload of the signal that a step has taken, or the output of its child run;
// nil: it waits for none.
func (w *differ) taken(h held) []byte {
	if (h.task.Traits.Has(workflow.TraitChild) || h.run.Graph.HasMaps()) && h.task.Flags.Has(lifecycle.FlagKept) {
		return append([]byte{}, h.task.Progress...)
	}
	if !h.task.Traits.Has(workflow.TraitWaits) {
		return nil
	}
	at := slices.IndexFunc(w.state.Inbox, func(e snapshot.Entry) bool { return e.Run == h.run.ID && e.Step == h.task.Step })
	if at < 0 {
		w.diverge("step %d of run %v runs without a signal", h.task.Step, h.run.ID)
	}
	return append([]byte{}, w.state.Inbox[at].Payload...)
}
