package acceptance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// V8: durable sleep.

const day = 24 * time.Hour

// clockIn returns a step function that notes how much time has passed.
func clockIn(d *diary, name string) func(context.Context, bool) (string, error) {
	before := time.Now()
	return func(context.Context, bool) (string, error) {
		d.note("%s %v", name, time.Since(before))
		return name, nil
	}
}

func TestR4SleepHoldsItsChildrenForADay(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d, before := &diary{}, time.Now()
		engine, handle := start(t, troupe.Define("sleep", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			sleep := troupe.Sleep(b, "sleep", day)
			return troupe.Step0(b, "after", clockIn(d, "after"), troupe.After(sleep))
		}))
		run := begin(t, handle, true)
		require.Equal(t, "running sleep=sleeping after=pending", states(t, run))
		require.Equal(t, day, stepOf(t, run, "sleep").WakeAt.Sub(before))
		require.Zero(t, engine.Stats().Running, "a sleep holds no slot")

		time.Sleep(day - time.Second)
		synctest.Wait()
		require.Equal(t, "running sleep=sleeping after=pending", states(t, run))
		time.Sleep(time.Second)
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"after 24h0m0s"}, d.all(), "when it is due, and not before")
	})
}

func TestR4SleepInAChain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("chain", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			a := troupe.Step0(b, "a", clockIn(d, "a"))
			sleep := troupe.Sleep(b, "sleep", time.Hour, troupe.After(a))
			return troupe.Step0(b, "b", clockIn(d, "b"), troupe.After(sleep))
		}))
		_, err := handle.Run(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, []string{"a 0s", "b 1h0m0s"}, d.all())
	})
}

// TestR4SleepInAnUntakenBranchNeverStarts: nor does its timer exist.
func TestR4SleepInAnUntakenBranchNeverStarts(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d, before := &diary{}, time.Now()
		_, handle := start(t, troupe.Define("branch", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			v := troupe.Step0(b, "validate", validate)
			valid, invalid := troupe.If(v, verdict.valid)
			charge := troupe.Step1(b, "charge", does(d, "charge"), v, valid)
			window := troupe.Sleep(b, "window", day, troupe.After(charge))
			ship := troupe.Step1(b, "ship", passes[bool](d, "ship"), charge, troupe.After(window))
			reject := troupe.Step1(b, "reject", does(d, "reject"), v, invalid)
			return troupe.Step2(b, "end", func(_ context.Context, _ bool, l, r troupe.Opt[string]) (string, error) {
				return l.Or(r.Or("")), nil
			}, troupe.Maybe(ship), troupe.Maybe(reject))
		}))
		run := begin(t, handle, false)
		require.Equal(t, "completed validate=completed charge=skipped window=skipped ship=skipped reject=completed end=completed", states(t, run))
		require.Zero(t, time.Since(before))
		require.True(t, stepOf(t, run, "window").WakeAt.IsZero())
		require.Equal(t, "skipped", trail(t, run, "window"))

		got, err := handle.Run(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, "charge→ship", got)
		require.Equal(t, day, time.Since(before))
	})
}

func TestR4TwoSleepsEndByThemselves(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("two", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			short := troupe.Sleep(b, "short", time.Hour)
			long := troupe.Sleep(b, "long", 3*time.Hour)
			first := troupe.Step0(b, "first", clockIn(d, "first"), troupe.After(short))
			second := troupe.Step0(b, "second", clockIn(d, "second"), troupe.After(long))
			return troupe.Step0(b, "end", clockIn(d, "end"), troupe.After(first, second))
		}))
		run := begin(t, handle, true)
		require.Equal(t, "running short=sleeping long=sleeping first=pending second=pending end=pending", states(t, run))
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"first 1h0m0s", "second 3h0m0s", "end 3h0m0s"}, d.all())
	})
}

func TestR4SleepUntilTakesItsInstantFromAnOutput(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d, before := &diary{}, time.Now()
		_, handle := start(t, troupe.Define("until", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			due := troupe.Step0(b, "due", func(_ context.Context, future bool) (time.Time, error) {
				if future {
					return before.Add(36 * time.Hour), nil
				}
				return before.Add(-time.Hour), nil
			})
			until := troupe.SleepUntil(b, "until", due, func(at time.Time) time.Time { return at })
			return troupe.Step0(b, "after", clockIn(d, "after"), troupe.After(until))
		}))
		_, err := handle.Run(t.Context(), false)
		require.NoError(t, err)
		_, err = handle.Run(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, []string{"after 0s", "after 36h0m0s"}, d.all(), "an instant in the past ends it at once")
	})
}

func TestR4SleepUntilTakesAnyInstantOfTheYears1To9999(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("until", func(b *troupe.Builder[time.Time]) troupe.StepRef[bool] {
			due := troupe.Step0(b, "due", func(_ context.Context, at time.Time) (time.Time, error) { return at, nil })
			until := troupe.SleepUntil(b, "until", due, func(at time.Time) time.Time { return at })
			return troupe.Step0(b, "after", func(context.Context, time.Time) (bool, error) { return true, nil }, troupe.After(until))
		}))
		for _, past := range []time.Time{time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)} {
			_, err := handle.Run(t.Context(), past)
			require.NoError(t, err, "%v ends it at once", past)
		}
		for _, future := range []time.Time{time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
			run := begin(t, handle, future)
			require.Equal(t, "running due=completed until=sleeping after=pending", states(t, run))
			require.Equal(t, future, stepOf(t, run, "until").WakeAt.UTC())
			require.NoError(t, run.Cancel(t.Context(), ""))
		}
	})
}

// TestR6ADayOfVirtualTimeIsCheap: the bubble's clock stands still for as long
// as anything can happen, so only real work costs real time.
func TestR6ADayOfVirtualTimeIsCheap(t *testing.T) {
	machine := time.Now()
	t.Run("a day", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, handle := start(t, troupe.Define("days", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
				return troupe.Step0(b, "after", clockIn(&diary{}, "after"), troupe.After(troupe.Sleep(b, "sleep", day)))
			}))
			before := time.Now()
			_, err := handle.Run(t.Context(), true)
			require.NoError(t, err)
			require.Equal(t, day, time.Since(before))
		})
	})
	pgtest.Within(t, 10*time.Second, time.Since(machine), "a day of virtual time")
}
