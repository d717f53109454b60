package clock

import (
	"sync"
	"time"
)

// Manual is a clock that moves only in Advance. Callbacks run on the goroutine
// that advances, ordered by their time and, at equal times, by the order of
// their After calls. Safe for concurrent use, except that a callback must not
// call Advance.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	agenda Agenda
}

var _ Clock = (*Manual)(nil)

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// After implements Clock; f runs inside the Advance that reaches its time.
func (m *Manual) After(d time.Duration, f func()) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.agenda.Add(m.now.Add(max(d, 0)), f)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.agenda.Remove(e)
	}
}

// Advance moves the clock by d and runs what becomes due on the way, each
// callback at its own time: Now inside it is the time it asked for, and what
// it asks for in turn runs too if it falls within d. A negative d panics: time
// does not go back.
func (m *Manual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: Advance by a negative duration")
	}
	end := m.Now().Add(d)
	for {
		run := m.due(end)
		if run == nil {
			return
		}
		run()
	}
}

// Next is the time of the earliest callback that waits; false means none does.
func (m *Manual) Next() (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.agenda.First()
	if e == nil {
		return time.Time{}, false
	}
	return e.At, true
}

// due moves the clock to the next callback within end and returns it, or to
// end itself and returns nil. The callback runs without the lock.
func (m *Manual) due(end time.Time) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.agenda.Take(end)
	if e == nil {
		m.now = end
		return nil
	}
	m.now = e.At
	return e.Run
}
