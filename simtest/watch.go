package simtest

import (
	"fmt"
	"time"
)

// invariant is what must hold after every step of the world.
type invariant struct {
	name  string
	check func() error
}

// eventual is what must hold before an instant.
type eventual struct {
	name  string
	holds func() bool
	done  func()
}

// Always checks after every step of the simulation, and whatever has happened
// until then, that holds returns true. It is called while nothing else runs, so
// it may look at everything; it must not wait or call the Sim.
func (s *Sim) Always(name string, holds func() bool) {
	s.Check(name, func() error {
		if !holds() {
			return errDoesNotHold
		}
		return nil
	})
}

// Check is Always with a function that says what is wrong.
func (s *Sim) Check(name string, check func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = append(s.always, invariant{name, check})
}

var errDoesNotHold = fmt.Errorf("it does not hold any more")

// Sometimes says that holds must be true at least once in all the seeds of a
// [Run], or the test fails: what is to be tested was not reached. It may be
// called on any goroutine of the simulation.
func (s *Sim) Sometimes(name string, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saw[name] = s.saw[name] || holds
}

// Eventually ends the faults and waits until holds returns true, which must
// come within a virtual time. It is called like that of Always.
func (s *Sim) Eventually(within time.Duration, name string, holds func() bool) {
	s.begin()
	s.visit("eventually", func(done func()) {
		s.heal()
		e := &eventual{name: name, holds: holds, done: done}
		s.eventual = append(s.eventual, e)
		s.world.After(within, func() {
			if e.done != nil {
				s.world.Fail(fmt.Sprintf("eventually %q", name), "it did not within %v", within)
			}
		})
	})
}

// check checks what must hold.
func (s *Sim) check() {
	s.mu.Lock()
	always := s.always
	s.mu.Unlock()
	for _, a := range always {
		if err := a.check(); err != nil {
			s.world.Fail(fmt.Sprintf("always %q", a.name), "%v", err)
			return
		}
	}
	kept := s.eventual[:0]
	for _, e := range s.eventual {
		if e.holds() {
			e.done()
			e.done = nil
			continue
		}
		kept = append(kept, e)
	}
	s.eventual = kept
}
