package actors

import (
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// arrears is what a claimer knows of the tenants of a queue that are late: they were
// passed over for long, because of what somebody held, and their tasks stand far below
// those of others, whose new ones would all wait behind them. So claims take turns
// between those who are late and the others, who all get as many tasks as each other:
// who was late catches up with nothing.
type arrears struct {
	mark   int64        // others stand from there on; 0: nobody is late
	late   []lateTenant // at most lateMax
	claims int          // of those who are late
	recent []string     // whose the last tasks of others were, at most recentMax
	owed   float64      // how many others get before the next of those who are late
	alone  bool         // no other was ready at last
}

// lateTenant is a tenant that is late.
type lateTenant struct {
	group int32
	met   int // when it came first in a claim of those who are late, as arrears.claims counts
}

const (
	// arrearsBlocks is how far below what was granted before somebody's tasks stand
	// who is late.
	arrearsBlocks = 64
	// lateMax bounds how many tenants are known to be late. More are treated as others
	// are.
	lateMax = 64
	// lateRounds is for how many claims, for each tenant that is late, one counts as
	// late that came first in none of them.
	lateRounds = 4
	// recentMax is of how many tasks of others it is counted whose they were.
	recentMax = 32
)

// othersNext reports whether the next claim is for others.
func (a *arrears) othersNext() bool { return a.mark > 0 && a.owed >= 1 }

// but are the groups that the next claim takes nothing of.
func (a *arrears) but() []int32 {
	if !a.othersNext() {
		return nil
	}
	groups := make([]int32, len(a.late))
	for i, l := range a.late {
		groups[i] = l.group
	}
	return groups
}

// share is how many tasks the next claim asks for, of so many as there are slots for.
func (a *arrears) share(slots int) int {
	switch late := len(a.late); {
	case a.othersNext():
		return min(slots, int(a.owed))
	case a.mark == 0, a.alone:
		return slots
	default:
		all := late + a.others()
		return (slots*late + all - 1) / all
	}
}

// others is how many tenants beside those who are late had tasks lately.
func (a *arrears) others() int {
	names := slices.Clone(a.recent)
	slices.Sort(names)
	return max(len(slices.Compact(names)), 1)
}

// servedOthers notes what a claim for others found. short: that was all.
func (a *arrears) servedOthers(claimed *persistence.Claimed, short bool) {
	for i := range claimed.Grants {
		a.recent = append(a.recent, claimed.Grants[i].Tenant)
	}
	a.recent = a.recent[max(len(a.recent)-recentMax, 0):]
	a.owed -= float64(len(claimed.Grants))
	if a.alone = short; short {
		a.owed = 0
	}
}

// served notes what another claim found: whether somebody is late, and who. short:
// that was all. What is late stays late by the same mark: what others are granted moves
// the frontier on, past what yet others were given behind it.
func (a *arrears) served(claimed *persistence.Claimed, short bool) {
	mark := a.mark
	if mark == 0 {
		mark = placeOf(claimed.Frontier - arrearsBlocks)
	}
	if short || claimed.Lowest == 0 || claimed.Lowest >= mark {
		*a = arrears{}
		return
	}
	a.mark, a.alone = mark, false
	a.claims++
	a.meet(claimed.Lowest)
	a.owed += float64(len(claimed.Grants)*a.others()) / float64(len(a.late))
}

// meet notes the tenant of a place that came first, and forgets who came first in none
// of the last claims.
func (a *arrears) meet(place int64) {
	group, _, _ := lifecycle.SplitFairID(place)
	rounds := lateRounds * (len(a.late) + 1)
	a.late = slices.DeleteFunc(a.late, func(l lateTenant) bool { return l.group == group || a.claims-l.met > rounds })
	if len(a.late) < lateMax {
		a.late = append(a.late, lateTenant{group, a.claims})
	}
}

// placeOf is the first place of a block.
func placeOf(block int64) int64 { return lifecycle.FairID(0, 0, max(block, 0)) }
