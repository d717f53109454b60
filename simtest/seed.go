package simtest

import (
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/snapshot"
)

// outcome is what came of one simulation.
type outcome struct {
	setting   setting
	violation *sim.Violation // nil: everything held
	faults    []sim.Fault
	rates     string
	planned   string // the fault that the setting planned
	points    int
	hash      uint64
	steps     int
	successes int
	elapsed   time.Duration
	log       []*execution
	saw       map[string]bool
	logs      []string
	named     *strings.Replacer // puts the names of runs in the place of their ids
}

// hangsAfter is how long a simulation may take, in real time, before it prints a
// warning.
const hangsAfter = time.Minute

// play runs one simulation in a bubble of its own.
func (b *batch) play(set setting) *outcome {
	b.t.Helper()
	var s *Sim
	alarm := time.AfterFunc(hangsAfter, func() { // in real time: it is no goroutine of the bubble
		fmt.Fprintf(os.Stderr, "simtest: simulation %s of %s is still running after %v: a goroutine of it may be blocked by a mutex, "+
			"the network or a busy loop, which stops virtual time\n", set.name(), b.t.Name(), hangsAfter)
	})
	defer alarm.Stop()
	played := func() (deadlock string) {
		defer func() {
			if r := recover(); r != nil {
				deadlock = fmt.Sprint(r)
				if s == nil || !strings.Contains(deadlock, "deadlock") {
					panic(r)
				}
			}
		}()
		synctest.Test(b.t, func(*testing.T) {
			s = newSim(b.lab, b.options, set)
			s.run(b.body)
		})
		return ""
	}
	deadlock := played()
	if s.world.Violation() == nil && deadlock != "" {
		s.world.Fail("the simulation ends", "goroutines wait for ever: %s", s.stuck())
	}
	return s.outcome()
}

// run is the course of a simulation.
func (s *Sim) run(body func(*Sim)) {
	go s.drive()
	left := make(chan struct{})
	go func() {
		defer close(left)
		returned := false
		defer func() {
			if r := recover(); r != nil {
				s.broken("the test's function does not panic", fmt.Sprintf("%v\n%s", r, debug.Stack()))
			} else if !returned {
				s.broken("a check of the test", "the function ended its goroutine: use the *Sim where you would use t")
			}
		}()
		body(s)
		returned = true
	}()
	select {
	case <-left:
		s.finish()
	case <-s.over:
	}
	for range 1000 { // steps and the function end by themselves, now that all contexts have
		synctest.Wait()
		if s.attempts.Load() == 0 && isClosed(left) {
			return
		}
		time.Sleep(time.Hour)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stuck tells what has not returned.
func (s *Sim) stuck() string {
	var parts []string
	for _, x := range s.log {
		if !x.left.Load() {
			parts = append(parts, x.name()+" does not return when its context ends")
		}
	}
	if len(parts) == 0 && slices.ContainsFunc(s.world.Model().Snapshot().Runs, func(r snapshot.Run) bool { return anyIn(r, lifecycle.Waiting) }) {
		parts = append(parts, "nothing sends what is waited for: "+s.unfinished())
	}
	if len(parts) == 0 {
		return "the test's function, or a goroutine that it or a step has started, does not end"
	}
	return strings.Join(parts, "; ")
}

func (s *Sim) outcome() *outcome {
	var named []string
	for id, name := range s.names {
		named = append(named, id.String(), name)
	}
	return &outcome{
		named:   strings.NewReplacer(named...),
		setting: s.setting, violation: s.world.Violation(), faults: s.world.Happened(), rates: s.world.Rates(), planned: s.crashed,
		points: s.points, hash: s.world.Hash(), steps: s.world.Steps(), successes: s.successes, elapsed: s.elapsed,
		log: s.log, saw: maps.Clone(s.saw), logs: slices.Clone(s.logs),
	}
}
