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
	case persistence.Canceled:
		if a.Result == lifecycle.Stale {
			s.saw(SawCancelTooLate)
		}
	case persistence.Recorded:
		o.recorded(p, call, a.Answers)
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

func (o *oracle) recorded(p *sim.Pod, call string, answers []persistence.RecordAnswer) {
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
