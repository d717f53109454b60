package actors

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A pod that ends at once must not keep its term: the others would have to
// wait for the session to end.
func TestKilledLeaderLeavesItsTerm(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		first := w.start(Config{})
		pass(time.Second)
		require.True(t, first.Stats().Leading)
		second := w.start(Config{})
		first.Kill()
		pass(10 * time.Second)
		require.True(t, second.Stats().Leading)
	})
}

// What the database refuses in the transaction of a step fails its attempt;
// where the run was locked the task is handed back.
func TestAnswersToATransaction(t *testing.T) {
	t.Parallel()
	refused := persistence.RecordAnswer{Result: lifecycle.BadRow, Err: errors.New("invalid byte sequence")}
	end := answeredTx(&persistence.Recorded{Answers: []persistence.RecordAnswer{refused}})
	require.Nil(t, end.recorded)
	require.Equal(t, &failure{class: persistence.ClassBadRow, text: refused.Err.Error()}, end.failed)

	end = answeredTx(&persistence.Recorded{Answers: []persistence.RecordAnswer{{Result: lifecycle.Busy}}})
	require.Error(t, end.handBack)

	for _, kept := range []lifecycle.Answer{lifecycle.Moved, lifecycle.AlreadyYours, lifecycle.Stale} {
		end = answeredTx(&persistence.Recorded{Answers: []persistence.RecordAnswer{{Result: kept}}})
		require.Nil(t, end.failed)
		require.NotNil(t, end.recorded)
	}
}

// Actors may ask while the executor is being closed; nothing begins after.
func TestExecutorClosesWhileCalled(t *testing.T) {
	t.Parallel()
	g := newExecutor(clock.System{}, func(*PID, any) {})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 200 {
				g.Call(nil, "call", time.Minute, func(context.Context) any { return nil })
				g.Follow(nil, "follow", func(ctx context.Context) any { <-ctx.Done(); return nil })
			}
		})
	}
	g.Close()
	callers.Wait()
	g.Call(nil, "call", time.Minute, func(context.Context) any { panic("begun after Close") })
}

// Who stops a pod at once has it hand back what it holds: it is dead to the database then,
// which is nothing to warn of.
func TestAStopAtOnceWarnsOfNoDeath(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		var text bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&text, nil))
		w.register(storetest.Single(), newGauge().work(time.Hour))
		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "record" {
				pass(100 * time.Millisecond) // the pod has left by then
			}
			return nil
		})
		w.faults.failAfter(func(call string) error {
			if call == "leave" {
				pass(time.Second)
			}
			return nil
		})
		p := w.start(Config{Slots: 20, Pulse: 100 * time.Millisecond, LeaseTTL: time.Second})
		for range 20 {
			w.trigger(p, "single")
		}
		pass(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.Stop(ctx)
		pass(time.Minute)
		require.NotContains(t, text.String(), "dead")
	})
}
