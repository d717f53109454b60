package actors

import (
	"context"
	"errors"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

func (a *journal) onCancelRun(sender *PID, m *messages.CancelRun) {
	c := persistence.Cancel{
		Run: runOf(m.GetRun()), Tenant: m.GetTenant(), Reason: m.GetReason(), By: m.GetBy(), Grace: a.rt.config.CancelGrace,
	}
	if c.Tenant == "" {
		c.Tenant = a.rt.config.DefaultTenant
	}
	if c.By == "" {
		c.By = "message"
	}
	a.cancel(&cancelQuestion{
		asker: asker{deadline: a.rt.now().Add(a.rt.config.TriggerTimeout)}, cancel: c,
		answer: func(done persistence.Canceled, err error) {
			if sender != nil {
				a.rt.send(sender, cancelAnswer(m, done, err))
			}
		},
	})
}

// Why a cancel is refused before the database was asked.
var (
	errCancelsPending = errors.New("too many cancels wait to be recorded: try again later")
	errCancelStopping = errors.New("the pod is stopping: cancel on another one")
)

func (a *journal) cancel(q *cancelQuestion) {
	switch {
	case a.carryover.flushing:
		q.answer(persistence.Canceled{}, errCancelStopping)
	case len(a.carryover.cancels) >= cancelsPendingMax:
		q.answer(persistence.Canceled{}, errCancelsPending)
	default:
		a.carryover.cancels = append(a.carryover.cancels, q)
		a.askCancel(q)
	}
}

func (a *journal) askCancel(q *cancelQuestion) {
	if q.call.open() {
		return
	}
	ask(&a.base, &q.call, "cancel_run", storeTimeout, func(ctx context.Context) (persistence.Canceled, error) {
		return a.store.CancelRun(ctx, q.cancel)
	}, func(done persistence.Canceled, err error) { a.onCanceled(q, done, err) })
}

// onCanceled answers a cancel, or asks again: it is idempotent.
func (a *journal) onCanceled(q *cancelQuestion, done persistence.Canceled, err error) {
	again := errors.Is(err, persistence.ErrUnavailable) || errors.Is(err, persistence.ErrConflict) || done.Result == lifecycle.Busy
	again = again && !errors.Is(err, persistence.ErrSchema) // which stays so until the schema is migrated
	if again && !q.late(a.rt.now()) && !q.left() {
		q.call.failures++
		q.failed(err)
		a.later(a.rt.retryDelay(q.call.failures), func() { a.askCancel(q) })
		return
	}
	a.carryover.cancels = slices.DeleteFunc(a.carryover.cancels, func(other *cancelQuestion) bool { return other == q })
	q.answer(done, err)
	a.rt.announce(done.Wake)
	if a.carryover.flushing {
		a.flush()
	}
}

func cancelAnswer(m *messages.CancelRun, done persistence.Canceled, err error) any {
	if err != nil {
		return cancelRefused(m, err)
	}
	return &messages.CancelRecorded{
		RequestId: m.GetRequestId(), Run: m.GetRun(), State: done.State.String(), EndedBefore: done.Result == lifecycle.Stale,
	}
}

func cancelRefused(m *messages.CancelRun, err error) *messages.CancelRefused {
	refused := &messages.CancelRefused{RequestId: m.GetRequestId(), Run: m.GetRun(), Remedy: err.Error()}
	switch {
	case errors.Is(err, persistence.ErrRunNotFound):
		refused.Code = messages.CancelRefused_CODE_UNKNOWN_RUN
		refused.Remedy = "check the run id and the tenant"
	case errors.Is(err, errCancelsPending):
		refused.Code = messages.CancelRefused_CODE_OVERLOADED
	case errors.Is(err, errCancelStopping):
		refused.Code = messages.CancelRefused_CODE_STOPPING
	default:
		refused.Code = messages.CancelRefused_CODE_UNAVAILABLE
		refused.Remedy = "ask again: " + err.Error()
	}
	return refused
}
