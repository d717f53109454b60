package actors

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Whenever the database's clock is stepped between two renewals, no living pod is declared
// dead, and a dead one is in time.
func TestALeapOfTheClockKillsNobodyWhoLives(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		counts := newGauge()
		w.register(storetest.Single(), counts.work(20*time.Minute))
		for range 3 {
			w.start(Config{Slots: 4})
			pass(1700 * time.Millisecond) // they renew in turn
		}
		w.many(w.pods[0], "single", 12)
		pass(time.Minute)
		for range 60 {
			w.ahead.Add(int64(time.Hour))
			pass(9300 * time.Millisecond)
		}
		for _, run := range w.store.Snapshot().Runs {
			require.Zero(t, run.Tasks[0].Lost)
			require.Equal(t, lifecycle.Running, run.Tasks[0].State)
		}
		ghost, _, err := w.store.JoinPod(t.Context(), persistence.PodInfo{Handlers: w.handlers(), Queues: []string{DefaultQueue}, Slots: 10, TTL: DefaultConfig().LeaseTTL})
		require.NoError(t, err)
		for range 4 { // more than there are slots
			w.trigger(w.pods[0], "single")
		}
		claimed, err := w.store.ClaimTasks(t.Context(), persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{Pod: ghost, Queues: []string{DefaultQueue}, Limit: 10, Handlers: w.handlers()}})
		require.NoError(t, err)
		require.Len(t, claimed.Grants, 4)
		pass(time.Second)
		w.ahead.Add(int64(time.Hour))
		pass(2 * DefaultConfig().LeaseTTL)
		lost := 0
		for _, run := range w.store.Snapshot().Runs {
			lost += int(run.Tasks[0].Lost)
		}
		require.Equal(t, 4, lost, "those of one that died")
		pass(time.Hour)
	})
}

// handlers returns the numbers of all that is registered.
func (w *world) handlers() []int32 { return slices.Sorted(maps.Keys(w.functions)) }

// A clock that is ahead by more than a retention drops nothing for an hour.
func TestALeapOfTheClockDropsNothingForAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		const day = 24 * time.Hour
		p := w.start(Config{Retention: persistence.Retention{7 * day, 7 * day, 7 * day}, DeadLetterRetention: 7 * day})
		run := w.trigger(p, "single")
		w.completed(run)
		pass(10 * time.Minute)
		w.ahead.Add(int64(8 * day))
		pass(vitals.ClockStepHold - time.Minute)
		_, err := w.store.Run(context.Background(), "", run)
		require.NoError(t, err)
		pass(2 * dropEvery)
		_, err = w.store.Run(context.Background(), "", run)
		require.ErrorIs(t, err, persistence.ErrRunNotFound, "it was not put right")
	})
}

// However soon after a clock step rows are removed for their age, they are old enough
// without the step.
func TestALeapRightBeforeSomethingIsRemoved(t *testing.T) {
	t.Parallel()
	for name, removal := range map[string]string{"history": "drop", "dead letters": "purge"} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			const week = 7 * 24 * time.Hour
			var due, leapt atomic.Bool
			w.faults.failBefore(func(_ context.Context, call string) error {
				if call == removal && due.Load() {
					w.ahead.Store(int64(2 * week))
					leapt.Store(true)
				}
				return nil
			})
			w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) { return Output{}, errors.New("no") },
				func(f *StepFunction) { f.Options.Retry = workflow.RetryPolicy{Attempts: 1} })
			p := w.start(Config{Retention: persistence.Retention{week, week, week}, DeadLetterRetention: week})
			run := w.trigger(p, "single")
			pass(10 * time.Minute) // it is in history
			due.Store(true)
			pass(vitals.ClockStepHold / 2)
			require.True(t, leapt.Load())
			_, err := w.store.Run(t.Context(), "", run)
			require.NoError(t, err)
			require.Len(t, w.store.Snapshot().Dead, 1)
			pass(vitals.ClockStepHold)
			_, err = w.store.Run(t.Context(), "", run)
			require.ErrorIs(t, err, persistence.ErrRunNotFound, "it was not put right")
		}))
	}
}
