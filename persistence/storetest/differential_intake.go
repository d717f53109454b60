package storetest

import (
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
)

// submit triggers in a transaction of the user's own, and leaves it open at
// times: at most one is, since a second one with the same key would wait.
func (w *differ) submit() {
	w.beginTx()
	for range 1 + w.IntN(2) {
		t := w.draft()
		if string(t.Input) == BadPayload {
			t.Input = nil // a database may end the transaction over it
		}
		w.inTx = append(w.inTx, t)
		out := both(w, fmt.Sprintf("submit %+v", t), func(s *side) (persistence.TriggerAnswer, error) {
			answer, err := s.Store.TriggerInTx(w.ctx, s.tx.Value, s.trigger(t))
			answer.Err = kindOnly(answer.Err)
			return answer, err
		})
		w.sawTrigger(t, out.Value, "run submitted")
		if out.Value.Result != persistence.Triggered {
			w.found = append(w.found, t)
		}
	}
	if w.chance(3) {
		w.end()
	}
}

// beginTx opens a transaction unless one is open.
func (w *differ) beginTx() {
	if w.txOpen {
		return
	}
	w.txOpen = true
	both(w, "begin", func(s *side) (string, error) {
		tx, err := s.Begin(w.ctx)
		s.tx = tx
		return "", err
	})
}

// end commits the open transaction or rolls it back.
func (w *differ) end() {
	if !w.txOpen {
		return
	}
	w.signals = append(w.signals, w.sentInTx...)
	w.txOpen, w.inTx, w.found, w.sentInTx = false, nil, nil, nil
	if w.chance(4) {
		both(w, "roll back", func(s *side) (string, error) { return "", s.tx.Rollback(w.ctx) })
		w.saw("submission rolled back")
		return
	}
	both(w, "commit", func(s *side) (string, error) { return "", s.tx.Commit(w.ctx) })
}

// close leaves no transaction open.
func (w *differ) close() {
	w.end()
	w.compareStates()
	for i := range w.state.Runs {
		w.sawEnd(&w.state.Runs[i])
	}
}

// abandon ends what a world leaves open that stops in the middle: a store
// could not be closed otherwise.
func (w *differ) abandon() {
	if w.txOpen {
		_ = w.model.tx.Rollback(w.ctx)
		_ = w.product.tx.Rollback(w.ctx)
	}
}

// drain starts submitted runs.
func (w *differ) drain() {
	limit, before := w.drainMost(), w.state
	out := both(w, fmt.Sprintf("drain %d", limit), func(s *side) (persistence.Drained, error) {
		out, err := s.Store.DrainIntake(w.ctx, limit)
		s.setNow(&out.Now, err)
		out.Wake = sameWake(out.Wake)
		return out, err
	})
	w.sawAll(out.Value.Count, "run drained")
	w.sawAll(out.Value.Delivered, "signal delivered")
	w.sawAll(out.Value.Dropped, "signal dropped")
	w.compareStates()
	w.sawFamilies(before)
}
