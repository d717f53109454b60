package features_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// bookings reserves something, and confirms it a day later. book has to honour the key of its step.
func bookings(book func(ctx context.Context, what string) error) *troupe.Workflow[string, string] {
	tries := troupe.Retry{Attempts: 50}
	return troupe.Define("bookings", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		reserved := troupe.Step0(b, "reserve", func(ctx context.Context, what string) (string, error) { return what, book(ctx, what) }, tries)
		day := troupe.Sleep(b, "a-day", 24*time.Hour, troupe.After(reserved))
		return troupe.Step1(b, "confirm", func(_ context.Context, _, what string) (string, error) { return what + " confirmed", nil },
			reserved, troupe.After(day), tries)
	})
}

// errFull is cured by no other attempt.
var errFull = troupe.Terminal(errors.New("fully booked"))

// surveys asks a traveller how it was, three days later.
func surveys() *troupe.Workflow[string, string] {
	return troupe.Define("surveys", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		later := troupe.Sleep(b, "three-days", 3*24*time.Hour)
		return troupe.Step0(b, "ask", func(_ context.Context, who string) (string, error) { return who + " was asked", nil },
			troupe.After(later), troupe.Retry{Attempts: 50})
	})
}

// trip is what a traveller asks for.
type trip struct{ Who, Flight, Hotel string }

// trips books a flight and a hotel, each in a run of its own. Without a flight the trip fails, and
// the other booking is canceled; without a hotel there is a tent. The survey continues,
// whatever becomes of the trip.
func trips(book func(ctx context.Context, what string) error) *troupe.Workflow[trip, string] {
	tries := troupe.Retry{Attempts: 50}
	return troupe.Define("trips", func(b *troupe.Builder[trip]) troupe.StepRef[string] {
		part := func(name string, of func(trip) string) troupe.StepRef[string] {
			return troupe.Step0(b, name, func(_ context.Context, t trip) (string, error) { return of(t), nil }, tries)
		}
		troupe.Child(b, "survey", surveys(), part("who", func(t trip) string { return t.Who }), troupe.AbandonChild())
		flight := troupe.Child(b, "book-flight", bookings(book), part("flight", func(t trip) string { return t.Flight }))
		hotel := troupe.Child(b, "book-hotel", bookings(book), part("hotel", func(t trip) string { return t.Hotel }))
		return troupe.Step2(b, "plan", func(_ context.Context, _ trip, flight string, hotel troupe.Outcome[string]) (string, error) {
			bed, err := hotel.Value()
			if errors.Is(err, troupe.ErrChildFailed) {
				bed = "a tent"
			}
			return flight + ", " + bed, nil
		}, flight, troupe.Settled(hotel), tries)
	})
}

// full books what is not full.
func full(what ...string) func(context.Context, string) error {
	return func(_ context.Context, asked string) error {
		for _, name := range what {
			if asked == name {
				return errFull
			}
		}
		return nil
	}
}

// onTrips registers the three workflows with an engine in memory.
func onTrips(t *testing.T, book func(ctx context.Context, what string) error, use func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[trip, string])) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newCounters()
		engine, err := troupe.NewInMemory(troupe.Config{Metrics: kept})
		require.NoError(t, err)
		_, err = troupe.Register(engine, bookings(book))
		require.NoError(t, err)
		_, err = troupe.Register(engine, surveys())
		require.NoError(t, err)
		use(t, engine, start(t, engine, trips(book)))
		require.InDelta(t, 2, kept.sum("troupe_child_runs_total{bookings}"), 0)
		require.InDelta(t, 1, kept.sum("troupe_child_runs_total{surveys}"), 0)
	})
}

// childrenOf returns the states of the child runs of a run, by the steps that began them.
func childrenOf(t *testing.T, engine *troupe.Engine, run troupe.RunID) map[string]troupe.State {
	t.Helper()
	synctest.Wait() // they hear of a cancel when it was delivered
	status, err := engine.Status(t.Context(), "", run)
	require.NoError(t, err)
	states := map[string]troupe.State{}
	for _, step := range status.Steps {
		if step.Child.IsZero() {
			continue
		}
		child, err := engine.Status(t.Context(), "", step.Child)
		require.NoError(t, err)
		require.Equal(t, run, child.Parent)
		states[step.Name] = child.State
	}
	return states
}

// A step that waits for a child run holds no slot. If that fails, so does the step, unless the one
// behind it takes the failure.
func TestChildRuns(t *testing.T) {
	onTrips(t, full("Ritz"), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[trip, string]) {
		run, err := handle.RunNoWait(t.Context(), trip{"ann", "LH 441", "Ritz"})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, troupe.StateWaiting, statesOf(t, engine, run.ID())["book-flight"])
		require.Equal(t, 0, engine.Stats().Running)
		page, err := engine.Runs(t.Context(), troupe.Filter{Parent: run.ID()})
		require.NoError(t, err)
		require.Len(t, page.Runs, 3)
		text, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "LH 441 confirmed, a tent", text)
	})
}

// Without a flight the trip fails: the booking of the hotel is canceled, and the survey is not.
func TestChildRunsOfARunThatFails(t *testing.T) {
	onTrips(t, full("LH 441"), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[trip, string]) {
		run, err := handle.RunNoWait(t.Context(), trip{"ann", "LH 441", "Ritz"})
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrChildFailed)
		require.ErrorContains(t, err, `step "book-flight"`)
		require.ErrorContains(t, err, "fully booked")
		require.Equal(t, map[string]troupe.State{
			"survey": troupe.StateRunning, "book-flight": troupe.StateFailed, "book-hotel": troupe.StateCanceled,
		}, childrenOf(t, engine, run.ID()))
	})
}

// A cancel reaches the child runs, but for the one that is abandoned.
func TestChildRunsOfARunThatIsCanceled(t *testing.T) {
	onTrips(t, full(), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[trip, string]) {
		run, err := handle.RunNoWait(t.Context(), trip{"ann", "LH 441", "Ritz"})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, run.Cancel(t.Context(), "ann is ill"))
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)
		require.Equal(t, map[string]troupe.State{
			"survey": troupe.StateRunning, "book-flight": troupe.StateCanceled, "book-hotel": troupe.StateCanceled,
		}, childrenOf(t, engine, run.ID()))
		time.Sleep(4 * 24 * time.Hour)
		require.Equal(t, troupe.StateCompleted, childrenOf(t, engine, run.ID())["survey"])
	})
}

// agency is a booking service that honours keys.
type agency struct{ booked map[string]string }

// The same on clusters that crash: each trip is booked once, however often its steps are executed.
func TestChildRunsUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		state := &agency{booked: map[string]string{}}
		service := simtest.NewService(s, state)
		book := func(ctx context.Context, what string) error {
			key := troupe.Task(ctx).IdempotencyKey
			return service.Do(ctx, func(a *agency) error {
				if what == "full" {
					return errFull
				}
				a.booked[key] = what
				return nil
			})
		}
		simtest.Register(s, bookings(book))
		simtest.Register(s, surveys())
		w := simtest.Register(s, trips(book))
		names := []string{"full", "x", "y"}
		asked := trip{"ann", names[s.Rand().IntN(3)], names[s.Rand().IntN(3)]}
		run := w.Start(asked)
		if s.Rand().IntN(4) == 0 {
			s.Advance(time.Duration(s.Rand().IntN(30)) * time.Hour)
			run.Cancel("ann is ill")
		}
		text, err := run.Await()
		switch {
		case errors.Is(err, troupe.ErrRunCanceled):
			s.Sometimes("the trip was canceled", true)
		case asked.Flight == "full":
			require.ErrorIs(s, err, troupe.ErrChildFailed)
			s.Sometimes("there was no flight", true)
		case asked.Hotel == "full":
			require.NoError(s, err)
			require.Equal(s, asked.Flight+" confirmed, a tent", text)
			require.Len(s, state.booked, 1)
			s.Sometimes("there was no hotel", true)
		default:
			require.NoError(s, err)
			require.Equal(s, asked.Flight+" confirmed, "+asked.Hotel+" confirmed", text)
			require.Len(s, state.booked, 2)
			s.Sometimes("all was booked", true)
		}
	})
}
