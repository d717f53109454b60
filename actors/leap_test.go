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

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// What took long to be answered is no leap, and neither is a clock that goes back.
func TestWhatIsALeap(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	l := leap{slack: 3 * time.Second}
	require.Zero(t, l.latest(at(0)))
	require.Zero(t, l.saw(at(100), at(0), at(1)), "it may differ from ours by anything")
	require.Equal(t, at(113), l.latest(at(10)))
	require.Zero(t, l.saw(at(110), at(10), at(30)), "asked at once, and answered late")
	require.Zero(t, l.saw(at(150), at(31), at(50)), "answered late, and at the last moment")
	require.Zero(t, l.saw(at(153), at(51), at(51)))
	require.Zero(t, l.at)
	require.Equal(t, time.Hour, l.saw(at(154).Add(time.Hour), at(52), at(52)))
	require.Equal(t, at(52), l.at)
	require.Zero(t, l.saw(at(155), at(53), at(53)), "it was put right")
	require.Zero(t, l.saw(at(156), at(54), at(54)))
	require.Equal(t, at(52), l.at)
}

// An answer that was slow does not loosen what the clock shows at most.
func TestASlowAnswerSaysLittleAboutTheClock(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	l := leap{slack: 3 * time.Second}
	require.Zero(t, l.saw(at(0), at(0), at(0)))
	require.Zero(t, l.saw(at(20), at(10), at(20)), "it was read at the end")
	require.Equal(t, at(24), l.latest(at(21)))
	require.Equal(t, 9*time.Second, l.saw(at(31), at(22), at(22)))
	require.Zero(t, l.farAt)
}

// Leaps that are short add up, unless there is long enough between them.
func TestShortLeapsAddUp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		leaps int
		ahead time.Duration
		after time.Duration
		far   bool
	}{
		{"one of a minute, seen a little shorter", 1, farLeap, time.Second, true},
		{"one of half of that", 1, farLeap / 2, time.Second, false},
		{"two soon after each other", 2, farLeap / 2, leapHold / 2, true},
		{"two long after each other", 2, farLeap / 2, 2 * leapHold, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, ours := leap{slack: 3 * time.Second}, now
			l.saw(now, ours, ours)
			for n := range c.leaps {
				ours = ours.Add(c.after)
				asked := ours.Add(-20 * time.Millisecond)
				require.Positive(t, l.saw(now.Add(asked.Sub(now)+time.Duration(n+1)*c.ahead), asked, ours))
			}
			require.Equal(t, c.far, !l.farAt.IsZero())
		})
	}
}

// Wherever between two renewals the database's clock leaps, no pod that lives is declared
// dead, and one that does not is in time.
func TestALeapOfTheClockKillsNobodyWhoLives(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		counts := newGauge()
		w.register(storetest.Single(), counts.work(20*time.Minute))
		for range 3 {
			w.start(Config{Slots: 4})
			pass(1700 * time.Millisecond) // they renew in turn
		}
		for range 12 {
			w.trigger(w.pods[0], "single")
		}
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
		claimed, err := w.store.ClaimTasks(t.Context(), persistence.ClaimRequest{Pod: ghost, Queue: DefaultQueue, Limit: 10, Handlers: w.handlers()})
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
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		const day = 24 * time.Hour
		p := w.start(Config{Retention: persistence.Retention{7 * day, 7 * day, 7 * day}, DeadLetterRetention: 7 * day})
		run := w.trigger(p, "single")
		w.completed(run)
		pass(10 * time.Minute)
		w.ahead.Add(int64(8 * day))
		pass(leapHold - time.Minute)
		_, err := w.store.Run(context.Background(), "", run)
		require.NoError(t, err)
		pass(2 * dropEvery)
		_, err = w.store.Run(context.Background(), "", run)
		require.ErrorIs(t, err, persistence.ErrRunNotFound, "it was not put right")
	})
}

// leaping is a store whose clock leaps right before something is removed for its age.
type leaping struct {
	persistence.Store

	drop, purge func()
}

func (s *leaping) DropHistory(ctx context.Context, epoch int64, r persistence.Retention, by time.Time) (persistence.Dropped, error) {
	s.drop()
	return s.Store.DropHistory(ctx, epoch, r, by)
}

func (s *leaping) PurgeDeadLetters(ctx context.Context, filter persistence.DeadFilter) (int, error) {
	s.purge()
	return s.Store.PurgeDeadLetters(ctx, filter)
}

// However soon after a leap something is removed for its age, it is old enough without
// that.
func TestALeapRightBeforeSomethingIsRemoved(t *testing.T) {
	t.Parallel()
	for name, leaps := range map[string]func(s *leaping, leap func()){
		"history":      func(s *leaping, leap func()) { s.drop = leap },
		"dead letters": func(s *leaping, leap func()) { s.purge = leap },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, w *world) {
				const week = 7 * 24 * time.Hour
				var due, leapt atomic.Bool
				s := &leaping{w.store, func() {}, func() {}}
				leaps(s, func() {
					if due.Load() {
						w.ahead.Store(int64(2 * week))
						leapt.Store(true)
					}
				})
				w.faults.Store = s
				w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) { return Output{}, errors.New("no") },
					func(f *StepFunction) { f.Options.Retry = workflow.RetryPolicy{Attempts: 1} })
				p := w.start(Config{Retention: persistence.Retention{week, week, week}, DeadLetterRetention: week})
				run := w.trigger(p, "single")
				pass(10 * time.Minute) // it is in history
				due.Store(true)
				pass(leapHold / 2)
				require.True(t, leapt.Load())
				_, err := w.store.Run(t.Context(), "", run)
				require.NoError(t, err)
				require.Len(t, w.store.Snapshot().Dead, 1)
				pass(leapHold)
				_, err = w.store.Run(t.Context(), "", run)
				require.ErrorIs(t, err, persistence.ErrRunNotFound, "it was not put right")
			})
		})
	}
}
