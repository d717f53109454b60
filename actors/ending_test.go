package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
		w.many(p, "single", 20)
		pass(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.Stop(ctx)
		pass(time.Minute)
		require.NotContains(t, text.String(), "dead")
	})
}

// A pod that is to end at once hands back what it holds while the database answers,
// however slowly it does that, and waits for nothing where it does not.
func TestAPodThatIsToEndAtOnceWaitsOnlyWhileTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		frozen bool
		leaves time.Duration // how long handing back takes
		takes  time.Duration // to stop
	}{
		"frozen":       {true, 0, killPart},
		"slow":         {false, 3 * time.Second, 3 * time.Second},
		"slow for too": {false, time.Minute, stopStageLimit},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
				<-ctx.Done()
				return Output{}, ctx.Err()
			})
			store := newProxied(w.store)
			store.before = func(ctx context.Context, call string) error {
				if call == "leave" {
					if err := store.pass(ctx, "claim"); err != nil {
						return err
					}
					select {
					case <-time.After(c.leaves):
						return nil
					case <-ctx.Done():
						return fmt.Errorf("%w: %w", persistence.ErrUnavailable, ctx.Err())
					}
				}
				return store.pass(ctx, call)
			}
			w.pool = store
			p := w.start(Config{})
			run := w.trigger(p, "single")
			pass(time.Second)
			if c.frozen {
				store.state.Store(proxyHangs)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()
			require.ErrorIs(t, p.Stop(ended), context.Canceled)
			require.Equal(t, c.takes, time.Since(began))
			row, err := w.store.Run(t.Context(), "default", run)
			require.NoError(t, err)
			require.Equal(t, lifecycle.Running, row.State)
			if c.leaves > 0 && c.leaves == c.takes {
				require.Empty(t, w.store.Snapshot().Pods, "it has handed back what it held")
			}
		}))
	}
}
