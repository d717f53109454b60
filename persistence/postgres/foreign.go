package postgres

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// Somebody may remove the definitions of another program that is not running: only it can
// register them again. Until then its runs are passed over, however many they are: they
// are told by their definitions, of which there are few. So are those of definitions that a
// later version of the engine stored and this one cannot read.

const (
	// foreignFor is for how long a definition that was not there is taken for missing.
	foreignFor = 2 * time.Second
	// foreignKept is for how long one is remembered of which no run is met: its program may
	// be gone for good, and somebody may have removed the runs.
	foreignKept = 10 * time.Minute
)

// foreign are definitions that runs have and the database does not know, of programs that
// are not this one. It is safe for concurrent use.
type foreign struct {
	log *slog.Logger // nil: nothing is logged

	mu      sync.Mutex
	missing map[int32]missing
	timers  bool // some of unknown kinds were met
}

// missing is when a definition that was not there was met last, and asked for last.
type missing struct{ met, asked time.Time }

// add notes that a definition is missing.
func (f *foreign) add(ctx context.Context, number int32) {
	f.mu.Lock()
	_, known := f.missing[number]
	if f.missing == nil {
		f.missing = map[int32]missing{}
	}
	now := clock.System{}.Now()
	f.missing[number] = missing{met: now, asked: now}
	f.mu.Unlock()
	if !known && f.log != nil {
		f.log.LogAttrs(ctx, slog.LevelError, "the definition of a workflow is not there, or is of a later version of the engine; its runs are passed over: start the program that has it, which registers it again",
			slog.Int("definition", int(number)))
	}
}

// addTimers notes that some timers are due of kinds that this version does not know. The log
// says so once.
func (f *foreign) addTimers(ctx context.Context, count int) {
	if count == 0 {
		return
	}
	f.mu.Lock()
	first := !f.timers
	f.timers = true
	f.mu.Unlock()
	if first && f.log != nil {
		f.log.LogAttrs(ctx, slog.LevelWarn, "timers are due that only a later version of the engine knows, and are left to it: start a pod of that version",
			slog.Int("timer_count", count))
	}
}

// list returns the definitions that are missing.
func (f *foreign) list() []int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.AppendSeq([]int32{}, maps.Keys(f.missing))
}

// stale returns those of which it was not asked lately whether they are there; who asks
// tells found.
func (f *foreign) stale() (numbers []int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := clock.System{}.Now()
	maps.DeleteFunc(f.missing, func(_ int32, m missing) bool { return now.Sub(m.met) >= foreignKept })
	for number, m := range f.missing {
		if now.Sub(m.asked) >= foreignFor {
			m.asked = now
			numbers, f.missing[number] = append(numbers, number), m
		}
	}
	return numbers
}

// found notes that definitions are there.
func (f *foreign) found(definitions []*definition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range definitions {
		delete(f.missing, d.number)
	}
}

// skips are what a call passes over: runs that cannot be read, and those of definitions
// that another program has to register again.
type skips struct {
	runs        uuids
	definitions []int32
}

// skips returns what is passed over now. Others may change that in the middle of a call.
func (s *Store) skips() skips { return skips{runs: s.lost.list(), definitions: s.foreign.list()} }

// passedOver returns the definitions whose runs are passed over. If it cannot be asked
// whether they are there again, they are not.
func (s *Store) passedOver(ctx context.Context) []int32 {
	if stale := s.foreign.stale(); len(stale) > 0 {
		there, err := s.loadDefinitions(ctx, s.pool, stale, nil)
		if err == nil {
			s.foreign.found(there)
		}
	}
	return s.foreign.list()
}

// knownOf returns the definition of a run, or nil if it is another program's, which has to
// register it again.
func (s *Store) knownOf(ctx context.Context, on querier, number int32) (*definition, error) {
	d, err := s.definitionOf(ctx, on, number)
	if errors.Is(err, errRegistryLost) && !s.catalog.ownsNumber(number) {
		s.foreign.add(ctx, number)
		return nil, nil
	}
	return d, err
}
