package simtest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
)

// New returns a cluster of one pod without faults, for plain tests of a
// workflow in virtual time. Call it in a bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		s := simtest.New(t)
//		orders := simtest.Register(s, Orders)
//		run := orders.Start(order)
//		s.RunUntilIdle()
//		require.Equal(t, troupe.StateSleeping, run.States()["fraud-window"])
//		s.Advance(24 * time.Hour)
//	})
//
// It ends with the test; what has not ended by then is dropped. Crash, Pause
// and Stop work here too.
func New(t *testing.T) *Sim {
	t.Helper()
	inBubble(t)
	s := newSim(sim.NewLab(), Options{Pods: 1, Faults: None()}, calm())
	s.t = t
	go s.drive()
	t.Cleanup(func() {
		s.finish()
		for range 1000 {
			synctest.Wait()
			if s.attempts.Load() == 0 {
				break
			}
			time.Sleep(time.Hour)
		}
		if v := s.world.Violation(); v != nil {
			t.Error(v)
		}
	})
	return s
}

func inBubble(t *testing.T) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatal(fmt.Errorf("%v: call simtest.New inside of synctest.Test", r))
		}
	}()
	synctest.Wait()
}
