package actors

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// journal records what the run actors report, and the cancels that callers ask for. All
// reports that came during the last commit are recorded in one transaction.
//
// Owns: the reports that wait; the one batch under way; the cancels under way.
// Parent: pod.
// Accepts: ReportOutcome, SlotsReserved, CancelRun, LeaseFenced, LeaseRestored,
// StopGranting, FlushJournal.
// Sends: OutcomesAnswered, ReserveSlots, SlotsReleased, CancelRecorded,
// CancelRefused, JournalFlushed, CheckCancels, RepeatOutcomes, WorkReady,
// TablesChanged.
// On failure: restart with backoff. The batch whose outcome is unknown is
// carried over and recorded again under the same claim id, and cancels are
// repeated; the run actors send the other reports again.
type journal struct {
	base
	pod         int64
	store       persistence.Journal
	carryover   *journalState
	waiting     []*messages.ReportOutcome
	queued      map[taskKey]bool
	busyUntil   map[taskKey]time.Time // reports that were answered Busy: not before
	call        call
	paused      bool // a timer will flush
	linger      linger
	slotRequest slotRequest
	reservedIn  string // queue whose pool the requested slots are of
}

// journalState is what survives a restart of journal.
type journalState struct {
	current  *openRecord
	fenced   bool
	granting bool
	flushing bool // the pod waits for JournalFlushed
	told     bool
	limit    vitals.BatchLimit
	cancels  []*cancelQuestion // not answered yet, in the order of their arrival
}

// openRecord is one batch until it is answered, maybe in parts.
type openRecord struct {
	record      persistence.Record        // of what is not answered yet
	reports     []*messages.ReportOutcome // likewise
	part        int                       // how many of them, from the first on, the call under way is about
	pool        string                    // whose slots children may take
	freed       int                       // slots of it that the reports' tasks leave
	reservation *messages.SlotsReserved   // of slots for more of them; nil: none
}

// cancelQuestion is one cancel until it is answered.
type cancelQuestion struct {
	asker

	cancel persistence.Cancel
	call   call
	answer func(persistence.Canceled, error)
}

// cancelCall is a cancel from Pod.
type cancelCall struct{ ask *cancelQuestion }

func spawnJournal(rt *runtime, ports *Ports, pod int64, h *journalState) func() receiver {
	return func() receiver {
		return &journal{
			base: base{rt, rt.addresses.journal}, pod: pod, store: ports.Store, carryover: h,
			queued: map[taskKey]bool{}, busyUntil: map[taskKey]time.Time{},
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
	case *happened:
		a.handle(msg)
	case *messages.SlotsReserved:
		a.onSlotsReserved(msg)
	case *messages.CancelRun:
		a.onCancelRun(ctx.Sender(), msg)
	case *cancelCall:
		if !msg.ask.taken() {
			a.cancel(msg.ask)
		}
	case *messages.LeaseFenced:
		a.carryover.fenced = true
	case *messages.LeaseRestored:
		if a.carryover.fenced {
			a.carryover.fenced = false
			a.flush()
		}
	case *messages.StopGranting:
		a.carryover.granting = false
	case *messages.FlushJournal:
		a.carryover.flushing = true
		a.flush()
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("journal", msg)
	}
}

// onStarted records the batch again whose outcome is unknown, and asks for the reports
// that the last incarnation had not recorded.
func (a *journal) onStarted() {
	if a.carryover.current != nil {
		for _, r := range a.carryover.current.reports {
			a.queued[keyOf(r.GetTask())] = true
		}
		a.send()
	}
	if a.carryover.current == nil || a.carryover.current.reservation == nil {
		a.rt.hasNoReservation(true)
	}
	a.rt.send(a.rt.addresses.runs, &messages.RepeatOutcomes{})
	for _, q := range a.carryover.cancels { // answers may have come while no journal ran
		q.call.number = 0
		a.askCancel(q)
	}
}

// onReport queues a report once, however often it is sent.
func (a *journal) onReport(m *messages.ReportOutcome) {
	key := keyOf(m.GetTask())
	if a.queued[key] {
		return
	}
	a.queued[key] = true
	a.waiting = append(a.waiting, m)
	a.rt.recorder.set(MetricJournalDepth, float64(len(a.waiting)))
	a.flush()
}

// flush records the next batch unless one is under way.
func (a *journal) flush() {
	if a.carryover.current != nil || a.slotRequest.waits() {
		return
	}
	a.tellFlushed()
	if len(a.waiting) > 0 && !a.carryover.fenced && !a.linger.begin(&a.base, len(a.waiting), a.rt.recorder.value(MetricRunning) > 1, a.begin) {
		a.begin()
	}
}

// begin begins the next batch unless one is under way. It first asks for slots for the
// children; reports that come meanwhile join the batch.
func (a *journal) begin() {
	if a.carryover.current == nil && !a.slotRequest.waits() && !a.carryover.fenced && !a.reserve() {
		a.record(nil)
	}
}

// record begins a batch, if there is anything to record.
func (a *journal) record(reservation *messages.SlotsReserved) {
	batch, rest := a.next()
	if len(batch) == 0 {
		a.rt.releaseSlots(reservation, nil)
		if len(rest) > 0 {
			a.recordLater(a.rt.retryDelay(1))
		}
		return
	}
	a.waiting = rest
	open := &openRecord{record: a.rt.recordOf(a.pod), reports: batch}
	open.record.Claim = a.rt.newClaimID()
	for _, r := range batch {
		open.record.Transitions = append(open.record.Transitions, transitionOf(r))
	}
	if a.carryover.granting && !a.rt.buggify("grant nothing") {
		open.pool, open.freed, open.record.Queues = a.room(batch)
		open.record.Handlers = a.rt.claimable()
	}
	if open.freed > 0 && reservation != nil && a.reservedFor(open.record.Queues) {
		open.reservation, open.record.Spare = reservation, int(reservation.GetSlots())
	} else {
		a.rt.releaseSlots(reservation, nil)
	}
	open.record.Limit = open.freed + open.record.Spare
	a.carryover.current = open
	a.rt.recorder.observe(MetricRecordBatch, float64(len(batch)))
	a.send()
}

// room returns how many children may take the slots of their parents, and of which queues:
// those of the pool of which the batch frees the most slots. Tasks that had to wait have
// released their slots before.
func (a *journal) room(batch []*messages.ReportOutcome) (best string, limit int, queues []string) {
	freed := map[string]int{}
	for _, r := range batch {
		if !frees(r) || a.waits(r) {
			continue
		}
		freed[r.GetPool()]++
		if n := freed[r.GetPool()]; n > limit {
			limit, best = n, r.GetPool()
		}
	}
	if limit == 0 {
		return "", 0, nil
	}
	for _, p := range a.rt.config.pools() {
		if p.name == best {
			queues = p.queues
		}
	}
	return best, limit, queues
}

// frees reports whether a report leaves its slot to what becomes ready with it, as
// persistence.Transition.Frees does.
func frees(r *messages.ReportOutcome) bool {
	return r.GetKind() == messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED || r.GetKind() == messages.OutcomeKind_OUTCOME_KIND_YIELDED
}

// next takes the reports that fit into one transaction, in order. It skips reports that
// were answered Busy a moment ago.
func (a *journal) next() (batch, rest []*messages.ReportOutcome) {
	now, bytes := a.rt.now(), 0
	limit := a.rt.batch("record one", a.carryover.limit.Cap(persistence.RecordBatchMax))
	for i, r := range a.waiting {
		size := int(reported(r)) + len(r.GetError()) + 256
		if len(batch) == limit || len(batch) > 0 && bytes+size > batchBytesMax {
			return batch, append(rest, a.waiting[i:]...)
		}
		if a.busyUntil[keyOf(r.GetTask())].After(now) {
			rest = append(rest, r)
			continue
		}
		batch = append(batch, r)
		bytes += size
	}
	return batch, rest
}

// recordLater records again after a pause, unless a pause is under way.
func (a *journal) recordLater(pause time.Duration) {
	if a.paused {
		return
	}
	a.paused = true
	a.later(pause, func() {
		a.paused = false
		if a.carryover.current == nil {
			a.flush()
		} else if !a.call.open() {
			a.send()
		}
	})
}

// onRecorded answers a batch, or a part of it. A batch whose outcome is unknown is recorded
// again; if it was recorded after all, the answers are the same.
func (a *journal) onRecorded(recorded persistence.Recorded, err error) {
	open := a.carryover.current
	a.carryover.limit.Ended(open.part, a.rt.now(), err)
	a.rt.refusedAsDead(err)
	if wait, failed := a.call.failed(a.rt, "record_transitions", err); failed {
		a.recordLater(wait)
		return
	}
	if recorded.Refused != nil {
		a.rt.storeFailed("record_transitions", recorded.Refused)
	}
	a.rt.status.with((*podFacts).reportedAlive)
	a.answerPart(open, &recorded)
	a.rt.announce(recorded.Wake)
	if a.carryover.current != nil {
		a.send()
		return
	}
	a.flush()
}

func (a *journal) answer(to *messages.OutcomesAnswered, r *messages.ReportOutcome, answer persistence.RecordAnswer) {
	key := keyOf(r.GetTask())
	if answer.Result == lifecycle.Busy {
		to.Waiting = append(to.Waiting, r.GetTask())
		a.busyUntil[key] = a.rt.now().Add(a.rt.retryDelay(2))
		a.waiting = append(a.waiting, r)
		return
	}
	if a.waits(r) && a.rt.config.TenantLimit > 0 { // its slot was released before: no SlotsFreed tells the claimer
		a.rt.send(a.rt.addresses.claimer, &messages.WorkReady{})
	}
	delete(a.busyUntil, key)
	delete(a.queued, key)
	if answer.Result == lifecycle.Stale {
		a.rt.recorder.add(MetricStale, 1)
	}
	if child := r.GetChild(); child != nil && (answer.Result == lifecycle.Moved || answer.Result == lifecycle.AlreadyYours) {
		a.rt.recorder.add(MetricChildRuns, 1, child.GetWorkflow())
	}
	answered := &messages.OutcomeAnswered{Task: r.GetTask(), Result: answerName(answer.Result)}
	if answer.Err != nil {
		answered.Error = answer.Err.Error()
	}
	to.Answers = append(to.Answers, answered)
}

// waits reports whether a report was answered Busy before; runs was told then.
func (a *journal) waits(r *messages.ReportOutcome) bool {
	_, waits := a.busyUntil[keyOf(r.GetTask())]
	return waits
}

func (a *journal) tellFlushed() {
	if a.carryover.flushing && !a.carryover.told && len(a.waiting) == 0 && len(a.carryover.cancels) == 0 {
		a.carryover.told = true
		a.rt.send(a.rt.addresses.pod, &messages.JournalFlushed{})
	}
}

// send records as much of the open batch as the server is likely to record in time. A part
// keeps the claim id of the batch, so that its grants are known if all of it was recorded
// after all, and grants nothing itself.
func (a *journal) send() {
	open := a.carryover.current
	if open.part = a.carryover.limit.Begin(len(open.reports), a.rt.now()); open.part < len(open.reports) || !a.carryover.granting {
		open.record.Limit, open.record.Spare = 0, 0
	}
	record := open.record
	record.Transitions = record.Transitions[:open.part]
	ask(&a.base, &a.call, "record_transitions", storeTimeout, func(ctx context.Context) (persistence.Recorded, error) {
		return a.store.RecordTransitions(ctx, record)
	}, a.onRecorded)
}

// answerPart answers the recorded reports, and leaves the rest of the batch open. Children
// that were granted beyond the answered reports may have no slot: they are handed back.
// They come once: the rest gets another claim id, as a step with InTx may have ended
// before its next answer would name it again.
func (a *journal) answerPart(open *openRecord, recorded *persistence.Recorded) {
	// The children take slots of the pool whose queues were named.
	granted := startTasks(recorded.Grants, func(int32) string { return firstOf(open.record.Queues) })
	own := a.inParentSlots(open, len(granted), recorded.Answers)
	answers := &messages.OutcomesAnswered{Granted: granted[:own:own]}
	for i, r := range open.reports[:open.part] {
		a.answer(answers, r, recorded.Answers[i])
	}
	a.rt.recorder.add(MetricInlineGrants, float64(len(recorded.Grants)))
	a.rt.recorder.set(MetricJournalDepth, float64(len(a.waiting)))
	a.rt.send(a.rt.addresses.runs, answers)
	a.rt.releaseSlots(open.reservation, granted[own:])
	open.reservation = nil
	// Not before the answers are handed over.
	open.reports, open.record.Transitions = open.reports[open.part:], open.record.Transitions[open.part:]
	switch {
	case len(open.reports) == 0:
		a.carryover.current = nil
	case len(recorded.Grants) > 0:
		open.record.Claim = a.rt.newClaimID()
	}
}
