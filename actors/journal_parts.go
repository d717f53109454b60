package actors

import (
	"context"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// send records as much of the open batch as the server is likely to record in time. In
// parts it keeps its claim id, which tells what was granted if all of it was recorded
// after all, and grants nothing itself.
func (a *journal) send() {
	open := a.carryover.current
	if open.part = a.rt.recording.begin(len(open.reports), a.rt.now()); open.part < len(open.reports) {
		open.record.InlineLimit, open.record.InlineSpare = 0, 0
	}
	record := open.record
	record.Transitions = record.Transitions[:open.part]
	a.number = ask(a.rt, a.self, "record_transitions", storeTimeout, func(ctx context.Context) (persistence.Recorded, error) {
		return a.rt.ports.Store.RecordTransitions(ctx, record)
	})
}

// answerPart answers what was recorded, and leaves the rest of its batch open. For
// children that were granted by more than is answered now there may be no slot: they
// are handed back. They come once: the rest has another claim id then, as a step with
// InTx may have ended before its next answer would name it again.
func (a *journal) answerPart(open *openRecord, recorded *persistence.Recorded) {
	// The children take slots of the pool whose queues were named.
	granted := startTasks(recorded.Grants, func(int32) string { return firstOf(open.record.InlineQueues) })
	own := a.inParentSlots(open, len(granted), recorded.Answers)
	answers := &messages.OutcomesAnswered{Granted: granted[:own:own]}
	for i, r := range open.reports[:open.part] {
		a.answer(answers, r, recorded.Answers[i])
	}
	a.rt.meter.add(MetricInlineGrants, float64(len(recorded.Grants)))
	a.rt.meter.set(MetricJournalDepth, float64(len(a.waiting)))
	a.rt.send(a.rt.team.runs, answers)
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
