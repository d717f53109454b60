package actors

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// journal records what the run actors report, all that came during the last
// commit in one transaction, and the cancels that callers ask for.
//
// Owns: the reports that wait; the one batch under way; the cancels under way.
// Parent: pod.
// Accepts: ReportOutcome, CancelRun, LeaseFenced, LeaseRestored, StopGranting,
// FlushJournal.
// Sends: OutcomesAnswered, CancelRecorded, CancelRefused, JournalFlushed,
// PodDied, RepeatOutcomes, WorkReady, TablesChanged.
// On failure: restart with backoff. The batch whose outcome is unknown is
// carried over and recorded again under the same claim id; the run actors send
// the rest again.
type journal struct {
	rt       *runtime
	self     *PID
	pod      int64
	heir     *journalHeir
	handlers []int32
	waiting  []*messages.ReportOutcome
	queued   map[taskKey]bool
	held     map[taskKey]time.Time // reports of runs that are locked: not before
	number   int64                 // of the call under way; 0: none
	failures int
	cancels  map[int64]*cancelQuestion
	paused   bool // a timer will flush
}

// journalHeir is what the next incarnation of journal goes on with.
type journalHeir struct {
	current  *openRecord
	fenced   bool
	granting bool
	flushing bool // the pod waits for JournalFlushed
	told     bool
}

// openRecord is one batch until it is answered.
type openRecord struct {
	record  persistence.Record
	reports []*messages.ReportOutcome
}

// cancelQuestion is one cancel until it is answered.
type cancelQuestion struct {
	cancel   persistence.Cancel
	failures int
	deadline time.Time
	gone     func() bool // nobody waits any more; nil: never
	taken    func() bool // marks it as taken in, and reports whether it was before; nil: sent once
	answer   func(persistence.Canceled, error)
}

// Messages of the journal to itself, and from the edge.
type (
	cancelCall  struct{ ask *cancelQuestion }
	cancelAgain struct{ ask *cancelQuestion }
	recordAgain struct{}
)

func spawnJournal(rt *runtime, pod int64, h *heirs) func() receiver {
	return func() receiver {
		return &journal{
			rt: rt, self: rt.team.journal, pod: pod, heir: h.journal, handlers: rt.handlerNumbers(),
			queued: map[taskKey]bool{}, held: map[taskKey]time.Time{}, cancels: map[int64]*cancelQuestion{},
		}
	}
}

// Receive implements protoactor's Actor.
func (a *journal) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.onStarted()
	case *messages.ReportOutcome:
		a.onReport(msg)
	case *answered[persistence.Recorded]:
		a.onRecorded(msg)
	case *recordAgain:
		a.onRecordAgain()
	case *messages.CancelRun:
		a.onCancelRun(ctx.Sender(), msg)
	case *cancelCall:
		if !msg.ask.taken() {
			a.cancel(msg.ask)
		}
	case *cancelAgain:
		a.cancel(msg.ask)
	case *answered[persistence.Canceled]:
		a.onCanceled(msg)
	case *messages.LeaseFenced:
		a.heir.fenced = true
	case *messages.LeaseRestored:
		a.heir.fenced = false
		a.flush()
	case *messages.StopGranting:
		a.heir.granting = false
	case *messages.FlushJournal:
		a.heir.flushing = true
		a.flush()
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("journal", msg)
	}
}

// onStarted goes on with the batch whose outcome is unknown, and asks for the
// reports that the last incarnation forgot.
func (a *journal) onStarted() {
	if a.heir.current != nil {
		for _, r := range a.heir.current.reports {
			a.queued[keyOf(r.GetTask())] = true
		}
		a.send()
	}
	a.rt.send(a.rt.team.runs, &messages.RepeatOutcomes{})
}

// onReport queues a report once, however often it is sent.
func (a *journal) onReport(m *messages.ReportOutcome) {
	key := keyOf(m.GetTask())
	if a.queued[key] {
		return
	}
	a.queued[key] = true
	a.waiting = append(a.waiting, m)
	a.rt.meter.set(MetricJournalDepth, float64(len(a.waiting)))
	a.flush()
}

// flush records the next batch unless one is under way.
func (a *journal) flush() {
	if a.heir.current != nil || a.heir.fenced {
		return
	}
	batch, rest := a.next()
	if len(batch) == 0 {
		if len(rest) > 0 && !a.paused {
			a.paused = true
			a.rt.after(a.rt.retryDelay(1), a.self, &recordAgain{})
		}
		a.tellFlushed()
		return
	}
	a.waiting = rest
	open := &openRecord{record: a.rt.recordOf(a.pod), reports: batch}
	open.record.Claim = a.rt.newClaimID()
	for _, r := range batch {
		open.record.Transitions = append(open.record.Transitions, transitionOf(r))
	}
	if a.heir.granting {
		open.record.InlineLimit, open.record.InlineQueues = a.room(batch)
		open.record.InlineHandlers = a.handlers
	}
	a.heir.current = open
	a.rt.meter.observe(MetricRecordBatch, float64(len(batch)))
	a.send()
}

// room returns how many children may take the slots of their parents, and of
// which queues: those of the pool that the batch frees most slots of.
func (a *journal) room(batch []*messages.ReportOutcome) (limit int, queues []string) {
	freed := map[string]int{}
	var best string
	for _, r := range batch {
		if r.GetKind() != messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED {
			continue
		}
		freed[r.GetPool()]++
		if n := freed[r.GetPool()]; n > limit {
			limit, best = n, r.GetPool()
		}
	}
	if limit == 0 {
		return 0, nil
	}
	for _, p := range a.rt.config.pools() {
		if p.name == best {
			queues = p.queues
		}
	}
	return limit, queues
}

// next takes what fits into one transaction, in order, passing over reports
// whose run is locked.
func (a *journal) next() (batch, rest []*messages.ReportOutcome) {
	now, bytes := a.rt.now(), 0
	for i, r := range a.waiting {
		size := len(r.GetOutput()) + len(r.GetError()) + 256
		if len(batch) == persistence.RecordBatchMax || len(batch) > 0 && bytes+size > batchBytesMax {
			return batch, append(rest, a.waiting[i:]...)
		}
		if a.held[keyOf(r.GetTask())].After(now) {
			rest = append(rest, r)
			continue
		}
		batch = append(batch, r)
		bytes += size
	}
	return batch, rest
}

func (a *journal) send() {
	record := a.heir.current.record
	a.number = ask(a.rt, a.self, "record_transitions", storeTimeout, func(ctx context.Context) (persistence.Recorded, error) {
		return a.rt.ports.Store.RecordTransitions(ctx, record)
	})
}

func (a *journal) onRecordAgain() {
	a.paused = false
	if a.heir.current != nil {
		if a.number == 0 {
			a.send()
		}
		return
	}
	a.flush()
}

// onRecorded answers a batch. One whose outcome is unknown is recorded again:
// what was recorded after all is answered as such.
func (a *journal) onRecorded(m *answered[persistence.Recorded]) {
	open := a.heir.current
	if m.number != a.number || open == nil {
		return
	}
	a.number = 0
	switch {
	case errors.Is(m.err, persistence.ErrPodDead):
		a.rt.send(a.rt.team.pod, &messages.PodDied{Pod: a.pod})
		return
	case m.err != nil:
		a.failures++
		a.rt.storeFailed("record_transitions", m.err)
		if !a.paused {
			a.paused = true
			a.rt.after(a.rt.retryDelay(a.failures), a.self, &recordAgain{})
		}
		return
	}
	a.failures = 0
	a.heir.current = nil
	answers := &messages.OutcomesAnswered{Granted: startTasks(m.value.Grants, a.rt.queueOfGrant)}
	for i, r := range open.reports {
		a.answer(answers, r, m.value.Answers[i])
	}
	a.rt.meter.add(MetricInlineGrants, float64(len(m.value.Grants)))
	a.rt.meter.set(MetricJournalDepth, float64(len(a.waiting)))
	a.rt.send(a.rt.team.runs, answers)
	a.rt.spread(m.value.Wake)
	a.flush()
}

func (a *journal) answer(to *messages.OutcomesAnswered, r *messages.ReportOutcome, answer persistence.RecordAnswer) {
	key := keyOf(r.GetTask())
	if answer.Result == lifecycle.Busy {
		a.held[key] = a.rt.now().Add(a.rt.retryDelay(2))
		a.waiting = append(a.waiting, r)
		return
	}
	delete(a.held, key)
	delete(a.queued, key)
	if answer.Result == lifecycle.Stale {
		a.rt.meter.add(MetricStale, 1)
	}
	answered := &messages.OutcomeAnswered{Task: r.GetTask(), Result: answerName(answer.Result)}
	if answer.Err != nil {
		answered.Error = answer.Err.Error()
	}
	to.Answers = append(to.Answers, answered)
}

func (a *journal) tellFlushed() {
	if a.heir.flushing && !a.heir.told && len(a.waiting) == 0 && len(a.cancels) == 0 {
		a.heir.told = true
		a.rt.send(a.rt.team.pod, &messages.JournalFlushed{})
	}
}

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
		cancel: c, deadline: a.rt.now().Add(a.rt.config.TriggerTimeout),
		answer: func(done persistence.Canceled, err error) {
			if sender != nil {
				a.rt.send(sender, cancelAnswer(m, done, err))
			}
		},
	})
}

// errCancelsPending refuses a cancel while too many wait.
var errCancelsPending = errors.New("too many cancels wait to be recorded: try again later")

func (a *journal) cancel(q *cancelQuestion) {
	if len(a.cancels) >= cancelsPendingMax {
		q.answer(persistence.Canceled{}, errCancelsPending)
		return
	}
	number := ask(a.rt, a.self, "cancel_run", storeTimeout, func(ctx context.Context) (persistence.Canceled, error) {
		return a.rt.ports.Store.CancelRun(ctx, q.cancel)
	})
	a.cancels[number] = q
}

// onCanceled answers a cancel, or asks again: it is idempotent.
func (a *journal) onCanceled(m *answered[persistence.Canceled]) {
	q := a.cancels[m.number]
	if q == nil {
		return
	}
	delete(a.cancels, m.number)
	again := errors.Is(m.err, persistence.ErrUnavailable) || errors.Is(m.err, persistence.ErrConflict) || m.value.Result == lifecycle.Busy
	late := !q.deadline.IsZero() && a.rt.now().After(q.deadline) || q.gone != nil && q.gone()
	if again && !late {
		q.failures++
		a.rt.after(a.rt.retryDelay(q.failures), a.self, &cancelAgain{ask: q})
		return
	}
	q.answer(m.value, m.err)
	a.rt.spread(m.value.Wake)
	if a.heir.flushing {
		a.flush()
	}
}

func cancelAnswer(m *messages.CancelRun, done persistence.Canceled, err error) any {
	refused := &messages.CancelRefused{RequestId: m.GetRequestId(), Run: m.GetRun()}
	switch {
	case err == nil:
		return &messages.CancelRecorded{
			RequestId: m.GetRequestId(), Run: m.GetRun(), State: done.State.String(), EndedBefore: done.Result == lifecycle.Stale,
		}
	case errors.Is(err, persistence.ErrRunNotFound):
		refused.Code = messages.CancelRefused_CODE_UNKNOWN_RUN
		refused.Remedy = "check the run id and the tenant"
	case errors.Is(err, errCancelsPending):
		refused.Code = messages.CancelRefused_CODE_OVERLOADED
		refused.Remedy = err.Error()
	default:
		refused.Code = messages.CancelRefused_CODE_UNAVAILABLE
		refused.Remedy = "ask again: " + err.Error()
	}
	return refused
}
