package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// TestUnknownOutcomes: calls that were carried out and then fail are made
// again, and nothing is lost or doubled.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"trigger", "claim", "record", "cancel"} {
		t.Run(call, bubble(func(t *testing.T, w *world) {
			g := newGauge()
			w.register(storetest.Diamond(), g.work(30*time.Millisecond))
			p := w.single(g.work(time.Hour), Config{Slots: 4})
			var failed, calls atomic.Int32
			w.faults.failAfter(func(name string) error {
				if name != call {
					return nil
				}
				if calls.Add(1)%2 == 1 {
					failed.Add(1)
					return persistence.ErrUnavailable
				}
				return nil
			})
			runs := w.many(p, "diamond", 12)
			w.completed(runs...)
			canceled := w.trigger(p, "single")
			pass(time.Second)
			w.cancel(p, persistence.Cancel{Run: canceled, Tenant: "default", By: "test", Grace: time.Second})
			require.Equal(t, lifecycle.Canceled, w.ended(canceled).State)
			require.Positive(t, failed.Load())
			g.once(t)
			require.Len(t, w.store.Snapshot().Runs, len(runs)+1, "no run is doubled")
			require.LessOrEqual(t, g.most(), 4)
			pass(time.Second)
			require.Equal(t, 4, p.Stats().Free)
		}))
	}
}

// TestRestartDuringUnknownOutcome: the actor that waits for the outcome fails,
// and the next incarnation asks under the same id.
func TestRestartDuringUnknownOutcome(t *testing.T) {
	t.Parallel()
	for call, actor := range map[string]string{"trigger": "intake", "claim": "claimer", "record": "journal", "cancel": "journal"} {
		t.Run(call, bubble(func(t *testing.T, w *world) {
			g := newGauge()
			w.register(storetest.Chain(3), g.work(10*time.Second))
			p := w.start(Config{})
			var struck atomic.Bool
			w.faults.failAfter(func(name string) error {
				if name != call || struck.Swap(true) {
					return nil
				}
				kill(p, actor)
				pass(10 * time.Millisecond)
				return persistence.ErrUnavailable
			})
			run := w.trigger(p, "chain3")
			if call == "cancel" {
				w.cancel(p, persistence.Cancel{Run: run, Tenant: "default", By: "test", Grace: time.Second})
				require.Equal(t, lifecycle.Canceled, w.ended(run).State)
			} else {
				w.completed(run)
				require.Len(t, g.executions(), 3)
			}
			require.True(t, struck.Load())
			g.once(t)
			require.Equal(t, int64(1), p.Stats().Restarts)
		}))
	}
}

// TestLateClaimOfWhatWasHandedBack: a task that was granted and did not arrive
// is handed back. Should the claim be answered after all while that is being
// recorded, it is not executed, whatever the renewals said meanwhile.
func TestLateClaimOfWhatWasHandedBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.single(g.work(time.Second), Config{Slots: 1, Pulse: time.Second, LeaseTTL: 5 * time.Second})
		pass(time.Second)
		answers := map[string]chan struct{}{"claim": make(chan struct{}), "record": make(chan struct{})}
		w.faults.failAfter(func(call string) error {
			if gate := answers[call]; gate != nil {
				<-gate
			}
			return nil
		})
		run := w.trigger(p, "single")
		pass(10 * time.Second) // renewals find it unheld, then lost
		require.Contains(t, w.faults.made(), "record")
		close(answers["claim"])
		pass(5 * time.Second)
		close(answers["record"])
		w.completed(run)
		g.once(t)
	})
}

// TestAPodThatMayNotJoinAgainEnds: the process has to be restarted, and the error says so.
func TestAPodThatMayNotJoinAgainEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Millisecond), Config{})
		pass(time.Second)
		w.faults.failBefore(func(_ context.Context, call string) error {
			switch call {
			case "renew 1":
				return persistence.ErrPodDead
			case "join":
				return persistence.ErrNumbersChanged
			}
			return nil
		})
		<-p.Done()
		require.ErrorIs(t, p.Err(), persistence.ErrNumbersChanged)
		w.pods = nil
	})
}

// TestAPodWhoseStepsAreNumberedOtherwiseEnds: so it does if a call finds that out.
func TestAPodWhoseStepsAreNumberedOtherwiseEnds(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"trigger", "claim", "record"} {
		serially(t, func(t *testing.T, w *world) {
			p := w.single(newGauge().work(time.Millisecond), Config{})
			pass(time.Second)
			w.faults.failBefore(func(_ context.Context, call string) error {
				if strings.HasPrefix(call, broken) {
					return persistence.ErrNumbersChanged
				}
				return nil
			})
			_, _, _ = p.Trigger(t.Context(), []persistence.Trigger{w.order("single")})
			<-p.Done()
			require.ErrorIs(t, p.Err(), persistence.ErrNumbersChanged)
			w.pods = nil
		})
	}
}

// TestDeadPodJoinsAgain: a pod that was declared dead joins under another number, ends its
// attempts, and still answers waiting callers.
func TestDeadPodJoinsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		causes := make(chan error, 10)
		w.register(storetest.Chain(2), func(ctx context.Context, in Inputs) (Output, error) {
			output, err := g.work(10*time.Second)(ctx, in)
			if err != nil {
				causes <- err
			}
			return output, err
		})
		p := w.start(Config{})
		pass(3 * time.Second)
		run := w.trigger(p, "chain2")
		probe := newProbe(w, p.System())
		probe.ask(p, &messages.AwaitRun{RequestId: "r", Run: run[:]})
		pass(time.Second)
		w.faults.failBefore(failing("renew 1", persistence.ErrPodDead))
		require.ErrorIs(t, <-causes, ErrLeaseLost)
		w.completed(run)
		answer := probe.next()
		require.Equal(t, "completed", as[*messages.RunEnded](t, answer).GetState())
		require.Equal(t, int64(2), p.Stats().Pod)
		require.True(t, p.Stats().Leading, "its old term does not stand in its way")
		require.NoError(t, p.Err())
		w.completed(w.trigger(p, "chain2"))
		pass(time.Second)
		require.Equal(t, p.rt.config.Slots, p.Stats().Free)
	})
}

// TestStopWhileJoiningAgain: a stop does not wait for a database that is away,
// and leaves no row behind when it comes back in time.
func TestStopWhileJoiningAgain(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprintf("back %v", back), bubble(func(t *testing.T, w *world) {
			p := w.single(newGauge().work(time.Hour), Config{})
			w.trigger(p, "single")
			w.faults.failBefore(func(ctx context.Context, call string) error {
				switch {
				case strings.HasPrefix(call, "renew"):
					return persistence.ErrPodDead
				case call == "join" && back:
					pass(2 * time.Second)
					return nil
				case call == "join":
					<-ctx.Done()
					return persistence.ErrUnavailable
				}
				return nil
			})
			for w.sentCount("PodDied") == 0 {
				pass(time.Second)
			}
			pass(500 * time.Millisecond)
			begun := time.Now()
			require.NoError(t, p.Stop(t.Context()))
			require.Less(t, time.Since(begun), 6*time.Second)
			for _, pod := range w.store.Snapshot().Pods {
				require.NotEqual(t, int64(2), pod.ID, "the new row is deleted")
			}
		}))
	}
}

func (w *world) sentCount(name string) int { return len(w.sent.list(name)) } // 0 or 1

// TestDeadDuringStop: nothing can be recorded any more, so the stop does not
// wait for it.
func TestDeadDuringStop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		causes := make(chan error, 1)
		w.register(storetest.Single(), untilEnded(causes))
		p := w.start(Config{StopGrace: time.Hour})
		w.trigger(p, "single")
		pass(6 * time.Second)
		w.faults.failBefore(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "renew") || call == "record" {
				return persistence.ErrPodDead
			}
			return nil
		})
		begun := time.Now()
		require.NoError(t, p.Stop(t.Context()))
		require.Less(t, time.Since(begun), 10*time.Second)
		require.ErrorIs(t, <-causes, ErrLeaseLost)
	})
}

// A task that is recorded, but not answered yet, is no loss when held tasks are compared
// with the table.
func TestAnAnswerThatIsLateIsNoLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Millisecond), Config{Pulse: time.Second})
		w.faults.failAfter(func(call string) error {
			if call == "record" {
				pass(700 * time.Millisecond)
			}
			return nil
		})
		for range 10 {
			w.completed(w.trigger(p, "single"))
			pass(700 * time.Millisecond)
		}
		require.Empty(t, w.sent.list("TasksLost"))
	})
}

// TestOutageDuringStop: every stage has a limit.
func TestOutageDuringStop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Hour), Config{StopGrace: 5 * time.Second})
		w.trigger(p, "single")
		pass(time.Second)
		w.outage()
		begun := time.Now()
		require.NoError(t, p.Stop(t.Context()))
		require.Less(t, time.Since(begun), 40*time.Second)
	})
}

// A stop waits for a slow database, so that no held task is charged a loss. A kill does
// not wait.
func TestStopAtASlowDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience time.Duration // of the caller of Stop
		left     bool
	}{
		"in good order": {time.Hour, true},
		"at once":       {2 * time.Second, false},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			p := w.single(newGauge().work(time.Hour), Config{StopGrace: time.Second})
			run := w.trigger(p, "single")
			pass(time.Second)
			w.faults.failBefore(func(ctx context.Context, call string) error {
				if call != "leave" {
					return nil
				}
				select {
				case <-time.After(12 * time.Second):
					return nil
				case <-ctx.Done():
					return persistence.ErrUnavailable
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			begun := time.Now()
			err := p.Stop(ctx)
			tasks, failed := w.store.Tasks(t.Context(), "", run)
			require.NoError(t, failed)
			require.Zero(t, tasks[0].Lost)
			if c.left {
				require.NoError(t, err)
				require.Empty(t, w.store.Snapshot().Pods)
				return
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(begun), c.patience+2*stopStageLimit)
			require.Len(t, w.store.Snapshot().Pods, 1, "its lease ends")
		}))
	}
}
