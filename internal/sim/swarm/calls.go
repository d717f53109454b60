package swarm

import (
	"errors"

	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// answered judges what the database said to a pod.
func (o *oracle) answered(p *sim.Pod, call string, answer any, err error) {
	s := o.seed
	o.leftOut(call, answer, err)
	switch {
	case errors.Is(err, persistence.ErrDeposed):
		s.saw(SawTwoLeaders)
	case errors.Is(err, persistence.ErrPodDead) && (call == "claim_tasks" || call == "record_transitions"):
		s.saw(SawDeadActs)
	}
	if err != nil {
		return
	}
	switch a := answer.(type) {
	case int64:
		if call == "campaign" {
			o.book.leader = p
		}
	case persistence.Expired:
		o.leads(p, call)
		o.expired(a.Pods)
	case persistence.Fired:
		o.leads(p, call)
	case persistence.Parked:
		o.leads(p, call)
		if a.Parked > 0 {
			s.saw(SawParked)
		}
		if a.Unparked > 0 {
			s.saw(SawUnparked)
		}
		if a.Parked+a.Unparked > 0 {
			o.book.fair.park(s.world.Model().Snapshot().Queue)
		}
	case persistence.Woken:
		o.leads(p, call)
		if a.Count > 0 {
			s.saw(SawLookWoke)
		}
	case persistence.Archived:
		o.archived()
	case persistence.Canceled:
		if a.Result == lifecycle.Stale {
			s.saw(SawCancelTooLate)
		}
	case persistence.Recorded:
		o.recordedBy(p, call, a.Answers)
	}
}

// leads judges a call that only a leader may make.
func (o *oracle) leads(p *sim.Pod, call string) {
	if p != o.book.leader {
		o.seed.world.Fail("I4", "%s was deposed, and its %s was accepted", p.Name, call)
	}
}

func (o *oracle) expired(pods []int64) {
	for _, number := range pods {
		o.book.dead[number] = true
		for _, slot := range o.seed.pods {
			if slot.pod != nil && slot.pod.Number() == number {
				o.seed.saw(SawDeclaredDead)
			}
		}
	}
}

func (o *oracle) recordedBy(p *sim.Pod, call string, answers []persistence.RecordAnswer) {
	for i := range answers {
		if call == "record_in_tx" && answers[i].Result == lifecycle.Busy {
			o.seed.saw(SawNotBegun)
		}
		if answers[i].Result != lifecycle.Moved {
			continue
		}
		if call == "record_in_tx" {
			o.seed.saw(SawInTx)
		}
		if o.book.dead[p.Number()] {
			o.seed.world.Fail("I4", "%s was declared dead, and what it recorded was accepted", p.Name)
		}
	}
}

// acknowledged notes the attempts whose reports the database says it has recorded.
func (o *oracle) acknowledged(record persistence.Record, recorded persistence.Recorded) {
	for i, answer := range recorded.Answers {
		o.yielded(&record.Transitions[i], answer.Result)
		o.machines.reported(&record.Transitions[i], answer.Result)
		if answer.Result == lifecycle.Moved {
			t := &record.Transitions[i]
			o.recorded = append(o.recorded, persistence.Held{Task: t.Task, Epoch: t.Epoch})
		}
	}
}

// stored judges that what the transaction says it has recorded is an event of its task.
func (o *oracle) stored() {
	for _, r := range o.recorded {
		b := o.book.runs[r.Task.Run]
		if b == nil || int(r.Task.Step) >= len(b.tasks) || b.tasks[r.Task.Step].n <= r.Epoch {
			o.seed.world.Fail("I1", "%s step %d: a report was acknowledged and is not stored", o.seed.nameOf(r.Task.Run), r.Task.Step)
		}
	}
	o.recorded = o.recorded[:0]
}
