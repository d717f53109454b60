package swarm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/sim"
)

// Replay is a seed and the faults that are left of it: enough to see the same
// again. Those under testdata/replay are of mistakes that were mended.
type Replay struct {
	Seed    uint64   `json:"seed"`
	Only    []string `json:"only"` // names of the faults; null: all of the seed
	FIFO    bool     `json:"fifo,omitempty"`
	Promise string   `json:"promise"`        // that was broken
	Note    string   `json:"note,omitempty"` // what the mistake was
}

// Options are those of the seed that the replay runs.
func (r Replay) Options() Options { return Options{Seed: r.Seed, Only: r.Only, FIFO: r.FIFO} }

// String is how people read a replay.
func (r Replay) String() string {
	order := "its order of messages"
	if r.FIFO {
		order = "the plainest order of messages"
	}
	faults := "all of its faults"
	if r.Only != nil {
		faults = "no faults"
	}
	if len(r.Only) > 0 {
		faults = strings.Join(r.Only, ", ")
	}
	return fmt.Sprintf("seed %d breaks %s with %s and %s", r.Seed, r.Promise, faults, order)
}

// shrinker looks for fewer faults that break the same promise.
type shrinker struct {
	run  func(Replay) *Report
	left int // tries
	best Replay
}

// Shrink finds out which faults of a failed seed matter: it takes the plainest
// order of messages if that breaks the same promise, leaves out whole classes,
// then single faults by halves (Zeller's ddmin), in at most so many tries.
func (l *Lab) Shrink(options Options, failed *Report, tries int) Replay {
	run := func(replay Replay) *Report {
		attempt := replay.Options()
		attempt.Classes = options.Classes
		return l.Run(attempt)
	}
	s := &shrinker{run: run, left: tries, best: Replay{
		Seed: options.Seed, Only: options.Only, FIFO: options.FIFO, Promise: failed.Violation.Promise,
	}}
	return s.shrink(failed)
}

func (s *shrinker) shrink(failed *Report) Replay {
	names := namesOf(failed.Faults)
	if !s.best.FIFO {
		plain := s.best
		plain.FIFO = true
		if r := s.see(plain); r != nil {
			s.best, names = plain, namesOf(r.Faults)
		}
	}
	if !s.try(names) { // the faults that happened are not all that matters
		return s.best
	}
	for _, class := range classesOf(names) {
		s.try(without(s.best.Only, class))
	}
	s.halve()
	return s.best
}

// halve leaves out parts of the faults, ever smaller ones.
func (s *shrinker) halve() {
	for parts := 2; len(s.best.Only) > 0 && s.left > 0; {
		only := s.best.Only
		parts = min(parts, len(only))
		shorter := false
		for i := 0; i < parts && !shorter; i++ {
			low, high := i*len(only)/parts, (i+1)*len(only)/parts
			shorter = s.try(slices.Concat(only[:low], only[high:]))
		}
		switch {
		case shorter:
			parts = max(parts-1, 2)
		case parts == len(only):
			return
		default:
			parts *= 2
		}
	}
}

// try keeps these faults if they break the same promise.
func (s *shrinker) try(only []string) bool {
	attempt := s.best
	attempt.Only = append([]string{}, only...)
	if s.see(attempt) == nil {
		return false
	}
	s.best = attempt
	return true
}

// see runs a replay, and returns its report if it breaks the same promise.
func (s *shrinker) see(replay Replay) *Report {
	if s.left--; s.left < 0 {
		return nil
	}
	r := s.run(replay)
	if r.Violation == nil || r.Violation.Promise != s.best.Promise {
		return nil
	}
	return r
}

func namesOf(faults []sim.Fault) []string {
	names := make([]string, len(faults))
	for i := range faults {
		names[i] = faults[i].Name()
	}
	return names
}

// classesOf lists the classes of faults, the most frequent first.
func classesOf(names []string) []string {
	count := map[string]int{}
	for _, name := range names {
		class, _, _ := strings.Cut(name, "@")
		count[class]++
	}
	classes := make([]string, 0, len(count))
	for class := range count {
		classes = append(classes, class)
	}
	slices.SortFunc(classes, func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
	return classes
}

func without(names []string, class string) []string {
	var kept []string
	for _, name := range names {
		if c, _, _ := strings.Cut(name, "@"); c != class {
			kept = append(kept, name)
		}
	}
	return kept
}
