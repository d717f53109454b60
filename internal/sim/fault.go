package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Class is a kind of fault.
type Class string

// Fault is one fault that happened: the n-th of its class at a place.
type Fault struct {
	Class Class
	Place string
	N     int
	At    time.Duration // since the start; not part of its name
}

// Name names the fault within its seed, whatever else happens.
func (f Fault) Name() string { return fmt.Sprintf("%s@%s#%d", f.Class, f.Place, f.N) }

// Faults decides which faults happen in one world.
type Faults struct {
	seed  uint64
	rates map[Class]float64
	only  map[string]bool // names of those that may happen; nil: all
	sites map[siteName]*site
	done  []Fault
	off   bool
}

type siteName struct {
	class Class
	place string
}

// site is one place where faults of a class may happen. Which of its visits
// are hit does not depend on anything but the seed: the gaps between hits are
// drawn one by one, so a visit costs a comparison.
type site struct {
	key    uint64
	rate   float64
	visits int
	next   int // visit that is hit
	hits   int
	drawn  uint64 // for the parameters of the last hit
}

// newFaults draws for each class whether it happens in this world, and how
// often: half of them do not, the rest by a rate that is uniform in its
// logarithm.
func newFaults(seed uint64, classes []Class, only []string, scale float64, own map[Class]float64) *Faults {
	f := &Faults{seed: seed, rates: map[Class]float64{}, sites: map[siteName]*site{}}
	for _, class := range classes {
		h := mix(seed, hashText(hashStart, string(class)))
		if h&1 == 0 && only == nil {
			continue
		}
		rate, ok := own[class]
		if !ok {
			rate = usual(class)
		}
		f.rates[class] = math.Min(0.5, scale*rate*math.Pow(10, 2*unit(mix(h, 1))-1))
	}
	if only != nil {
		f.only = map[string]bool{}
		for _, name := range only {
			f.only[name] = true
		}
	}
	return f
}

// unit maps bits to [0, 1).
func unit(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

// site returns a place; nil if nothing of the class happens in this world.
func (f *Faults) site(class Class, place string) *site {
	rate := f.rates[class]
	if rate == 0 {
		return nil
	}
	name := siteName{class, place}
	s := f.sites[name]
	if s == nil {
		s = &site{key: mix(f.seed, hashText(hashText(hashStart, string(class)), place)), rate: rate}
		s.draw()
		f.sites[name] = s
	}
	return s
}

// visit reports whether this visit is hit.
func (s *site) visit() bool {
	s.visits++
	if s.visits < s.next {
		return false
	}
	s.drawn = mix(s.key, uint64(s.hits)<<8|1)
	s.hits++
	s.draw()
	return true
}

// draw chooses the next visit that is hit, by the geometric distribution.
func (s *site) draw() {
	u := unit(mix(s.key, uint64(s.hits)<<8))
	gap := math.Log1p(-u) / math.Log1p(-s.rate)
	s.next = s.visits + 1 + int(math.Min(gap, 1<<40))
}

// between draws a parameter of the last hit, uniform in its logarithm: a
// millisecond is as likely as a minute.
func (s *site) between(low, high time.Duration) time.Duration {
	s.drawn = mix(s.drawn, 3)
	span := math.Log(float64(high) / float64(low))
	return time.Duration(float64(low) * math.Exp(span*unit(s.drawn)))
}

// chance draws a parameter of the last hit.
func (s *site) chance(p float64) bool {
	s.drawn = mix(s.drawn, 5)
	return unit(s.drawn) < p
}

// Happens visits a place of the world, and reports whether a fault happens
// there now. The history tells it.
func (w *World) Happens(class Class, place string) (*Draw, bool) {
	if w.faults.off || w.faults.rates[class] == 0 {
		return nil, false
	}
	return w.Spot(class, place).Hit()
}

// Visit is Happens for faults without parameters.
func (w *World) Visit(class Class, place string) bool {
	_, ok := w.Happens(class, place)
	return ok
}

// Spot is a place where faults of one class may happen, to be visited often.
type Spot struct {
	world *World
	class Class
	place string
	site  *site
}

// Spot returns a place; nil if nothing of the class happens in this world. A
// nil Spot may be visited.
func (w *World) Spot(class Class, place string) *Spot {
	s := w.faults.site(class, place)
	if s == nil {
		return nil
	}
	return &Spot{world: w, class: class, place: place, site: s}
}

// Hit visits the place, and reports whether a fault happens there now.
func (s *Spot) Hit() (*Draw, bool) {
	if s == nil || !s.site.visit() {
		return nil, false
	}
	w := s.world
	fault := Fault{Class: s.class, Place: s.place, N: s.site.hits - 1, At: w.Elapsed()}
	if w.faults.off || w.faults.only != nil && !w.faults.only[fault.Name()] {
		return nil, false
	}
	w.faults.done = append(w.faults.done, fault)
	w.note("fault", s.place, fault.Name())
	return &Draw{s.site}, true
}

// Draw draws the parameters of a fault.
type Draw struct{ site *site }

// Between draws a duration, uniform in its logarithm.
func (d *Draw) Between(low, high time.Duration) time.Duration { return d.site.between(low, high) }

// Chance is true with probability p.
func (d *Draw) Chance(p float64) bool { return d.site.chance(p) }

// Index draws a number below n.
func (d *Draw) Index(n int) int {
	d.site.drawn = mix(d.site.drawn, 7)
	return int(unit(d.site.drawn) * float64(n))
}

// Happened lists the faults so far, in order.
func (w *World) Happened() []Fault { return slices.Clone(w.faults.done) }

// Rates tells which classes may happen in this world, and how often.
func (w *World) Rates() string {
	var parts []string
	for class, rate := range w.faults.rates {
		parts = append(parts, fmt.Sprintf("%s %.2g", class, rate))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
