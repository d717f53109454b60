package actors

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// signalQuestion is one signal that waits to be stored, and how to answer its sender.
type signalQuestion struct {
	asker

	signal persistence.Signal
	busyTo time.Time          // a transaction sends one of the same id until then, at least
	busy   int                // how often it did
	asked  bool               // in the batch under way
	done   bool               // answered; taken off the list at the next flush
	answer func(signalAnswer) // called once
}

// signalAnswer answers one signal: what became of it, or why nothing was stored.
type signalAnswer struct {
	answer  persistence.SignalAnswer
	refused *Refusal
	err     error // of the database, for callers, if that says more than refused
}

// busyBatchMax bounds a batch of signals that were busy: each may wait as long as a lock may.
const busyBatchMax = 4

// signalCall is a signal of a caller, which Pod has checked.
type signalCall struct{ ask *signalQuestion }

// signalSending is how far storing signals has come.
type signalSending struct {
	call   call
	pause  timer // of the wait before the next call
	rest   timer // until one that was busy is sent again
	again  bool  // the last batch was of such
	linger linger
	crowd  int // signals in the last batch
	limit  vitals.BatchLimit
}

// onSendSignal takes in a signal that came as a message. It copies the bytes, which the
// sender may reuse once the message is answered.
func (a *intake) onSendSignal(sender *PID, m *messages.SendSignal) {
	answer := func(got signalAnswer) {
		switch {
		case sender == nil:
		case got.refused != nil:
			a.rt.send(sender, got.refused.asSignalMessage(m.GetRequestId()))
		default:
			a.rt.send(sender, &messages.SignalStored{
				RequestId: m.GetRequestId(), Run: got.answer.Run[:], Repeated: got.answer.Result == persistence.SignalRepeated,
			})
		}
	}
	signal, refused := a.rt.signalOf(m)
	if refused != nil {
		a.rt.countSignal(signalAnswer{refused: refused})
		answer(signalAnswer{refused: refused})
		return
	}
	a.acceptSignal(&signalQuestion{
		asker: asker{deadline: a.rt.now().Add(a.rt.config.TriggerTimeout)}, signal: signal, answer: answer,
	})
}

// signalOf turns a message into a signal, and checks it.
func (rt *runtime) signalOf(m *messages.SendSignal) (persistence.Signal, *Refusal) {
	tenant := m.GetTenant()
	if tenant == "" {
		tenant = rt.config.DefaultTenant
	}
	signal := persistence.Signal{
		Run: runOf(m.GetRun()), Tenant: tenant, Name: m.GetName(), ID: m.GetId(), Payload: bytes.Clone(m.GetPayload()),
	}
	switch {
	case len(m.GetRun()) > 0 && signal.Run.IsZero():
		return signal, refuse(RunNotFound, "run", "pass the 16 bytes of a run's id, or a key in its place")
	case signal.Run.IsZero():
		signal.Key = persistence.RunKey{Tenant: tenant, Workflow: m.GetWorkflow(), Key: m.GetKey()}
	}
	if signal.ID == "" {
		signal.ID = rt.newRunID().String()
	}
	return signal, CheckSignal(&signal, rt.config.PayloadLimit)
}

// acceptSignal takes a signal in, unless there is no room. Calls of the API hold permits, so
// only messages can find it full.
func (a *intake) acceptSignal(q *signalQuestion) {
	if q.again() {
		return
	}
	switch {
	case a.carryover.stopping:
		a.finishSignal(q, signalAnswer{refused: refuseStopping()})
	case q.taken == nil && a.full():
		a.finishSignal(q, signalAnswer{refused: refuseFull()})
	default:
		a.carryover.signals = append(a.carryover.signals, q)
		a.flushSignals()
	}
}

// flushSignals stores the next batch unless one is under way.
func (a *intake) flushSignals() {
	s := &a.signals
	if s.call.open() || s.pause.isSet() {
		return
	}
	if waiting := len(a.carryover.signals); waiting == 0 || !s.linger.begin(&a.base, waiting, s.crowd > 1, a.sendSignals) {
		a.sendSignals()
	}
}

// sendSignals stores the next batch. Its ids stay the same, so a batch that is stored again
// after an unknown outcome is answered as repeated.
func (a *intake) sendSignals() {
	if a.signals.call.open() || a.signals.pause.isSet() {
		return
	}
	batch := a.nextSignals()
	if len(batch) == 0 {
		a.tellDrained()
		return
	}
	rows := make([]persistence.Signal, len(batch))
	for i, q := range batch {
		q.asked, rows[i] = true, q.signal
	}
	a.signals.crowd = len(batch)
	a.signals.limit.Begin(len(rows), a.rt.now())
	ask(&a.base, &a.signals.call, "send_signals", storeTimeout, func(ctx context.Context) (persistence.Signals, error) {
		return a.inbox.SendSignals(ctx, rows)
	}, func(sent persistence.Signals, err error) { a.onSignalsSent(batch, sent, err) })
}

// nextSignals returns the next batch, without those whose callers have left. Those that were busy
// have batches of their own, since they may wait again, and others come between these.
func (a *intake) nextSignals() (batch []*signalQuestion) {
	now := a.rt.now()
	for _, q := range a.carryover.signals {
		switch q.asked = false; {
		case q.done:
		case q.left():
			a.finishSignal(q, signalAnswer{refused: refuseGone()})
		case q.late(now):
			a.finishSignal(q, signalAnswer{refused: refuse(Unavailable, "", "not stored in time: send again with the same id")})
		}
	}
	a.carryover.signals = slices.DeleteFunc(a.carryover.signals, func(q *signalQuestion) bool { return q.done })
	var free, busy []*signalQuestion
	var rest time.Duration
	for _, q := range a.carryover.signals {
		switch wait := q.busyTo.Sub(now); {
		case q.busy == 0:
			free = append(free, q)
		case wait <= 0:
			busy = append(busy, q)
		case rest == 0 || wait < rest:
			rest = wait
		}
	}
	if rest > 0 {
		a.signals.rest.set(&a.base, rest, a.flushSignals)
	}
	if a.signals.again = len(busy) > 0 && (len(free) == 0 || !a.signals.again); a.signals.again {
		return a.fit(busy[:min(len(busy), busyBatchMax)])
	}
	return a.fit(free)
}

// fit returns as many signals, the first ones, as fit into one transaction. At least one does.
func (a *intake) fit(signals []*signalQuestion) (batch []*signalQuestion) {
	size, most := 0, a.signals.limit.Cap(a.rt.batch("send one", persistence.SignalBatchMax))
	for _, q := range signals {
		if size += signalBytes(&q.signal); len(batch) == most || len(batch) > 0 && size > batchBytesMax {
			break
		}
		batch = append(batch, q)
	}
	return batch
}

// onSignalsSent answers a batch, or keeps it to be stored again. Delivering follows from the
// wake: the feed passes it to this intake first.
func (a *intake) onSignalsSent(batch []*signalQuestion, sent persistence.Signals, err error) {
	a.signals.limit.Ended(len(batch), a.rt.now(), err)
	if wait, failed := a.signals.call.failed(a.rt, "send_signals", err); failed {
		a.signalsFailed(batch, err)
		a.signals.pause.set(&a.base, wait, a.flushSignals)
		return
	}
	a.rt.status.with(func(f *podFacts) { f.sawDatabaseTime(sent.Now, a.rt.now()) })
	for i := range min(len(batch), len(sent.Answers)) { // the store may have answered too few: the rest is asked again
		q, answer := batch[i], sent.Answers[i]
		if answer.Result == persistence.SignalBusy {
			q.failed(answer.Err)
			q.busy++
			q.busyTo = a.rt.now().Add(a.rt.retryDelay(q.busy))
			continue
		}
		a.finishSignal(q, signalAnswer{answer: answer, refused: SignalRefusal(&q.signal, answer)})
	}
	a.rt.announce(sent.Wake)
	a.flushSignals()
}

// signalsFailed keeps a batch whose call failed, unless a repetition cannot help. One that the
// server lacks resources for alone lets others go first.
func (a *intake) signalsFailed(batch []*signalQuestion, err error) {
	for _, q := range batch {
		q.failed(err)
		switch {
		case errors.Is(err, persistence.ErrSchema): // until the schema is migrated
			a.finishSignal(q, signalAnswer{refused: refuse(Unavailable, "", err.Error()), err: err})
		case errors.Is(err, persistence.ErrBadRow) && len(batch) == 1:
			a.finishSignal(q, signalAnswer{refused: refuse(BadInput, "", err.Error())})
		case errors.Is(err, persistence.ErrNoResources) && len(batch) == 1:
			rest := slices.DeleteFunc(a.carryover.signals, func(other *signalQuestion) bool { return other == q })
			a.carryover.signals = append(rest, q)
		}
	}
}

func (a *intake) finishSignal(q *signalQuestion, answer signalAnswer) {
	a.rt.countSignal(answer)
	q.done = true
	q.answer(answer)
}

// countSignal counts the answer to a signal.
func (rt *runtime) countSignal(answer signalAnswer) {
	result := "stored"
	switch {
	case answer.refused != nil:
		result = string(answer.refused.Code)
	case answer.answer.Result == persistence.SignalRepeated:
		result = "repeated"
	}
	rt.recorder.add(MetricSignals, 1, result)
}

// countDelivered counts what a drain did with signals.
func (a *intake) countDelivered(drained *persistence.Drained) {
	if drained.Delivered > 0 {
		a.rt.recorder.add(MetricSignalsDelivered, float64(drained.Delivered))
	}
	if drained.Dropped > 0 {
		a.rt.recorder.add(MetricSignalsDropped, float64(drained.Dropped))
		a.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "signals were dropped, because their runs had ended before they were delivered",
			slog.Int("signals", drained.Dropped))
	}
}
