package swarm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// besidesWithin bounds how long runs that need no blocked row may take once all other faults
// have ended.
const besidesWithin = 5 * time.Minute

// outlast keeps rows blocked after all other faults have ended, until every run that needs
// none of them has ended. Every eighth seed blocks more then, and triggers more runs once the
// cluster has settled, so that these meet a queue of which tasks are left out.
func (s *seed) outlast(blocked []memory.Blocked) {
	s.world.Block(blocked...)
	if s.number%8 == 3 {
		s.world.BlockAgain()
	}
	if len(s.world.Blocked()) == 0 {
		return
	}
	for i := 0; s.number%8 == 3 && i < lateRuns; i++ {
		s.client.begin(&order{
			name: fmt.Sprint(lateName, i), shape: s.old[i], tenant: fmt.Sprint(lateName, i), input: []byte("0"),
			after: settleWithin + time.Duration(5+i)*time.Second,
		})
	}
	s.world.After(time.Second, s.besides)
}

// archivedWithin is how long rows stay blocked in these seeds at least: long enough that runs
// that have ended are archived, children of blocked ones among them.
const archivedWithin = 2 * time.Minute

// lateRuns is how many runs are triggered while rows are blocked and no other fault happens,
// each of a tenant of its own.
const (
	lateRuns = 3
	lateName = "late-"
)

// besides looks once a second whether only runs that need blocked rows are left. A step
// that has ignored its context keeps its slot until it is recorded: where there were such
// steps, blocked runs may keep all slots, and others are not judged.
func (s *seed) besides() {
	lasts := s.world.Now().Sub(s.healedAt)
	switch stuck := s.stuckBesides(); {
	case stuck == "" && s.number%8 == 3 && lasts < archivedWithin:
		s.world.After(time.Second, s.besides)
	case stuck == "" || lasts > besidesWithin && s.stepsWereDeaf():
		s.saw(SawBesides)
		s.world.Release()
		s.healedAt, s.deadline = s.world.Now(), s.deadline.Add(lasts)
	case lasts > besidesWithin:
		s.world.Fail("I13", "%s needs no blocked row and has not ended %v after all other faults did", stuck, lasts)
	default:
		s.world.After(time.Second, s.besides)
	}
}

// stepsWereDeaf reports whether a step has ignored its context.
func (s *seed) stepsWereDeaf() bool {
	return slices.ContainsFunc(s.world.Happened(), func(f sim.Fault) bool { return f.Class == StepDeaf })
}

// stuckBesides returns a run, or a trigger, that needs no blocked row and has not ended.
func (s *seed) stuckBesides() string {
	blocked := s.world.Blocked()
	for _, o := range s.client.sorted {
		switch {
		case !o.acked && slices.ContainsFunc(blocked, func(b memory.Blocked) bool { return s.needs(o, b) }), o.acked && s.oracle.familyBlocked(o.run), s.limits(o):
		case !o.acked || o.cancel > 0 && !o.canceled || !o.told:
			return o.name
		}
	}
	for id, seen := range s.oracle.runs {
		if !seen.ended && !s.oracle.familyBlocked(id) && s.setting.limit == 0 {
			return "another run of an order"
		}
	}
	return ""
}

// limits reports whether blocked tasks may be all that the tenant of an order may run.
func (s *seed) limits(o *order) bool {
	return s.setting.limit > 0 && !strings.HasPrefix(o.tenant, lateName)
}

// needs reports whether an order may not be stored while a row is blocked. The pod that is
// asked stores a run of its own version of the workflow, which a deploy may have changed.
func (s *seed) needs(o *order, b memory.Blocked) bool {
	return b.Tenant == o.tenant || slices.ContainsFunc(slices.Concat(s.old, s.new), func(w *shape) bool {
		return w.graph.Name == o.shape.graph.Name && w.graph.Hash == b.Definition
	})
}

// leftOut notes what the database left out because it is blocked.
func (o *oracle) leftOut(call string, answer any, err error) {
	s := o.seed
	if err != nil {
		if errors.Is(err, persistence.ErrUnavailable) && (call == "run" || call == "payload") {
			s.saw(SawUnreadable)
		}
		return
	}
	switch a := answer.(type) {
	case persistence.Claimed:
		if a.Again > 0 {
			s.saw(SawLeftOut)
		}
	case persistence.Drained:
		if a.Again > 0 {
			s.saw(SawIntakeLeftOut)
		}
	case persistence.Triggers:
		if slices.ContainsFunc(a.Answers, func(x persistence.TriggerAnswer) bool { return x.Result == persistence.KeyBusy }) {
			s.saw(SawTriggerBusy)
		}
	case persistence.Recorded:
		if call == "record_transitions" && slices.ContainsFunc(a.Answers, func(x persistence.RecordAnswer) bool { return x.Result == lifecycle.Busy }) {
			s.saw(SawBusy)
		}
	}
}
