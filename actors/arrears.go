package actors

import (
	"math"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// arrears is what a claimer knows of a line in which somebody is late: tasks that were
// passed over for long, because of what somebody held, stand far below those of others,
// whose new ones would all wait behind them. The line is cut above what is late then, and
// claims take turns between its sections, each by how many tenants have tasks there: who
// was late catches up with nothing but what nobody else wants. The turns are those of
// stride scheduling (Waldspurger and Weihl, 1995).
type arrears struct {
	sections []section // from the lowest on; none: nobody is late
	now      int       // the section of the next claim
	frontier [len(arrearsAges)]glimpse
}

// section is a part of a line, from a place on to where the next one begins.
type section struct {
	from   int64
	recent []turn       // whose its last tasks were, at most recentMax
	whose  map[turn]int // how many of these
	passed float64      // how many turns it had
	idle   bool         // nothing was ready there at last
	stays  time.Time    // until then it is not forgotten: what is being enqueued may stand there
}

// turn is whose turn a task is: each tenant takes turns for runs that go on, and for new
// ones.
type turn struct {
	tenant string
	goesOn bool
}

const (
	// sectionsMax bounds the sections of a line.
	sectionsMax = 16
	// recentMin and recentMax are of how many tasks it is counted whose they were: of
	// twice as many as take turns.
	recentMin, recentMax = 32, 256
)

// any reports whether somebody is late.
func (a *arrears) any() bool { return len(a.sections) > 0 }

// from is where the next claim begins to look, and 0 if the line says where.
func (a *arrears) from() int64 {
	if a.now == 0 {
		return 0
	}
	return a.sections[a.now].from
}

// share is how many tasks the next claim asks for, of so many as there are slots for: so
// many that all sections where something is ready had as many turns then.
func (a *arrears) share(slots int) int {
	if !a.any() {
		return slots
	}
	turns, had := 0.0, float64(slots)
	for i := range a.sections {
		if s := &a.sections[i]; i == a.now || !s.idle {
			own := a.turns(i)
			turns += own
			had += s.passed * own
		}
	}
	fair := (had/turns - a.sections[a.now].passed) * a.turns(a.now)
	return min(max(int(math.Ceil(fair)), 1), slots)
}

// turns is how many take turns in a section: who does in several, in each of them for a
// part.
func (a *arrears) turns(at int) float64 {
	sum := 0.0
	for t := range a.sections[at].whose {
		parts := 0.0
		for i := range a.sections {
			if a.sections[i].whose[t] > 0 {
				parts++
			}
		}
		sum += 1 / parts
	}
	if sum == 0 {
		return 1
	}
	return sum
}

// learn notes what a claim found that began to look at a place. short: that was all there
// is from there on.
func (a *arrears) learn(claimed *persistence.Claimed, after int64, short bool, now time.Time) {
	where := a.cuts(claimed.Frontier, now)
	if !a.any() {
		if !short && where.late(claimed) {
			a.sections = []section{{}}
			a.cut(where, false, now)
			a.serve(0, claimed)
			a.choose()
		}
		return
	}
	at := a.now
	a.serve(a.sectionOf(at, claimed.Lowest), claimed)
	s := &a.sections[at]
	s.idle = short
	last := at == len(a.sections)-1
	empty := !last && (short && len(claimed.Grants) == 0 || claimed.Lowest >= a.sections[at+1].from)
	whole := after <= s.from && (at > 0 || after == 0) // also what somebody held below was looked at
	switch {
	case last:
		if short {
			s.passed = max(s.passed, a.least())
		}
		crowd := short && claimed.Held >= heldCrowd // it would not come past it
		if crowd || where.late(claimed) {
			s.forget() // those stand above
			s.note(claimed)
			a.cut(where, len(claimed.Grants) == 0, now)
		}
	case at == 0 && short && claimed.Held < heldCrowd: // nothing more is ready
		a.end()
	case empty && (!whole || claimed.Held > 0 || now.Before(s.stays)): // nothing for now
		s.forget()
		s.idle, s.passed = true, max(s.passed, a.least()+1)
	case empty:
		a.sections = slices.Delete(a.sections, at, at+1)
	}
	if len(a.sections) == 1 || !slices.ContainsFunc(a.sections, func(s section) bool { return !s.idle }) {
		a.end()
	}
	a.choose()
}

// sectionOf is where a place is, from a section on.
func (a *arrears) sectionOf(at int, place int64) int {
	for at+1 < len(a.sections) && place >= a.sections[at+1].from {
		at++
	}
	return at
}

// serve notes what turns a section gave. If nobody waited there, nobody is owed anything.
func (a *arrears) serve(at int, claimed *persistence.Claimed) {
	if s := &a.sections[at]; s.idle {
		s.passed = max(s.passed, a.least())
	}
	a.sections[at].note(claimed)
	a.sections[at].passed += float64(len(claimed.Grants)) / a.turns(at)
}

// note notes whose they were.
func (s *section) note(claimed *persistence.Claimed) {
	if s.whose == nil {
		s.whose = map[turn]int{}
	}
	for i := range claimed.Grants {
		g := &claimed.Grants[i]
		t := turn{g.Tenant, len(g.Parents) > 0}
		s.recent = append(s.recent, t)
		s.whose[t]++
	}
	for len(s.recent) > min(max(2*len(s.whose), recentMin), recentMax) {
		if t := s.recent[0]; s.whose[t] == 1 {
			delete(s.whose, t)
		} else {
			s.whose[t]--
		}
		s.recent = s.recent[1:]
	}
}

// forget forgets whose they were.
func (s *section) forget() { s.recent, s.whose = nil, nil }

// cut divides the last section. idle: nothing is known to be ready above it.
func (a *arrears) cut(where cuts, idle bool, now time.Time) {
	from, passed := a.sections[len(a.sections)-1].from, a.least()
	made := 0
	for _, place := range where {
		if place <= from {
			continue
		}
		if len(a.sections) == sectionsMax { // it is one with what stands below
			spare := slices.IndexFunc(a.sections[1:sectionsMax-made], func(s section) bool { return s.idle && len(s.recent) == 0 })
			a.sections = slices.Delete(a.sections, 1+max(spare, 0), 2+max(spare, 0))
		}
		a.sections = append(a.sections, section{from: place, passed: passed, idle: idle, stays: now.Add(arrearsAge)})
		made++
		from = place
	}
}

// least is how many turns that section had that had the fewest, of those where something
// is ready, if there are any.
func (a *arrears) least() float64 {
	least, ready := math.Inf(1), false
	for i := range a.sections {
		s := &a.sections[i]
		if ready && s.idle {
			continue
		}
		if !ready && !s.idle {
			least, ready = s.passed, true
		}
		least = min(least, s.passed)
	}
	return least
}

// choose makes it the turn of the section that had the fewest: of several, of one where
// something was ready, and of the highest.
func (a *arrears) choose() {
	a.now = max(len(a.sections)-1, 0)
	for i := a.now - 1; i >= 0; i-- {
		s, best := &a.sections[i], &a.sections[a.now]
		if s.passed < best.passed || s.passed == best.passed && best.idle && !s.idle {
			a.now = i
		}
	}
}

// end makes the line whole.
func (a *arrears) end() { a.sections, a.now = nil, 0 }
