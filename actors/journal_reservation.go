package actors

import (
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// reserve asks the claimer for slots, and reports whether the batch waits for the answer:
// completed tasks may have more children than they leave slots.
func (a *journal) reserve() bool {
	if !a.carryover.granting || a.rt.buggify("reserve nothing") {
		return false
	}
	batch, _ := a.next()
	_, freed, queues := a.room(batch)
	if freed == 0 || mayFollow(batch) <= freed {
		return false
	}
	a.reservedIn = firstOf(queues)
	a.slotRequest.ask(&a.base, &messages.ReserveSlots{Queue: a.reservedIn, Journal: true}, a.onReservationLate)
	return true
}

// mayFollow is how many children may become ready with the reported tasks, at most.
func mayFollow(batch []*messages.ReportOutcome) int {
	children := map[workflow.TaskID]bool{}
	for _, r := range batch {
		for _, step := range r.GetChildren() {
			children[workflow.TaskID{Run: runOf(r.GetTask().GetRun()), Step: step}] = true
		}
	}
	return len(children)
}

// released reports whether a task has released its slot: it had to wait, or no child needs
// the slot.
func (a *journal) released(r *messages.ReportOutcome) bool { return a.queued[keyOf(r.GetTask())] }

// leaveSoon releases the slots of tasks that fit into the next batch, so that others are
// executed meanwhile, once these hold half of all slots: claims stay large. Beside tasks with
// children none is released before that batch begins, as its children may need them all.
func (a *journal) leaveSoon() {
	if a.holding >= a.half {
		a.leaving.begin(&a.base, 0, true, a.leaveNow)
	}
}

func (a *journal) leaveNow() {
	if a.holding = 0; a.carryover.current == nil {
		return
	}
	batch, _ := a.next()
	if !slices.ContainsFunc(batch, func(r *messages.ReportOutcome) bool { return len(r.GetChildren()) > 0 }) {
		pool, freed, _ := a.room(batch)
		a.leave(batch, pool, freed)
	}
}

// leave releases the slots that no child of the reported tasks needs: the functions have
// returned. It returns how many the pool for children has left. Under a limit per tenant
// none is released, because a claim counts the tasks that are not recorded.
func (a *journal) leave(reports []*messages.ReportOutcome, pool string, freed int) (left int) {
	if a.rt.config.TenantLimit > 0 {
		return freed
	}
	message := &messages.FreeSlots{}
	kept := min(freed, mayFollow(reports))
	for _, r := range reports {
		succeeded := r.GetKind() == messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED
		if a.released(r) || !succeeded && r.GetKind() != messages.OutcomeKind_OUTCOME_KIND_ERRORED {
			continue
		}
		if succeeded && r.GetPool() == pool && freed > 0 {
			if freed == kept {
				continue
			}
			freed--
		}
		a.queued[keyOf(r.GetTask())] = true
		message.Tasks = append(message.Tasks, r.GetTask())
	}
	if len(message.GetTasks()) > 0 {
		a.rt.send(a.rt.addresses.runs, message)
	}
	return freed
}

// reservedFor reports whether the requested slots are of the pool that serves these queues.
// Reports that came since may leave more slots of another pool.
func (a *journal) reservedFor(queues []string) bool { return slices.Contains(queues, a.reservedIn) }

// inParentSlots returns how many of the granted children take slots of the reported tasks.
// Tasks that were not recorded leave none, and others have released theirs before. The other
// children take reserved slots.
func (a *journal) inParentSlots(o *openRecord, granted int, answers []persistence.RecordAnswer) int {
	left := 0
	for i, r := range o.reports[:o.part] {
		if r.GetKind() == messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED && r.GetPool() == o.pool &&
			answers[i].Result == lifecycle.Moved && !a.released(r) {
			left++
		}
	}
	return max(min(granted, left), granted-int(o.reservation.GetSlots()))
}

// onSlotsReserved records the next batch. If the request is over, the slots are released at
// once, unless the batch under way uses them.
func (a *journal) onSlotsReserved(m *messages.SlotsReserved) {
	switch {
	case !a.slotRequest.heard(m.GetNumber()):
		if open := a.carryover.current; open == nil || open.reservation.GetNumber() != m.GetNumber() {
			a.rt.releaseSlots(m, nil)
		}
	case a.carryover.fenced:
		a.rt.releaseSlots(m, nil)
	case m.GetSlots() == 0:
		a.record(nil)
	default:
		a.record(m)
	}
}

func (a *journal) onReservationLate() {
	if !a.carryover.fenced {
		a.record(nil)
	}
}
