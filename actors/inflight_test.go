package actors

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A function that still runs after the pod has lost its lease, or after runs has failed,
// keeps its slot until it returns.
func TestFunctionsThatOutliveTheirActors(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, p *Pod){
		"the pod joins again": func(w *world, p *Pod) {
			w.faults.failBefore(failing("renew 1", persistence.ErrPodDead))
			for p.Stats().Pod == 1 {
				pass(100 * time.Millisecond)
			}
		},
		"runs fails": func(_ *world, p *Pod) { kill(p, "runs") },
	} {
		for what, test := range map[string]struct {
			ignores time.Duration // how long they go on
			most    int64
			stuck   int
		}{"for a while": {4 * time.Second, 2, 0}, "for long": {time.Hour, 3, 1}} {
			t.Run(name+", "+what, bubble(func(t *testing.T, w *world) {
				var now, peak atomic.Int64
				var heeds atomic.Bool
				w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
					peak.Store(max(peak.Load(), now.Add(1)))
					defer now.Add(-1)
					if !heeds.Load() {
						<-ctx.Done()
						select {
						case <-time.After(test.ignores):
						case <-w.done:
						}
					}
					return Output{Payload: []byte("1")}, nil
				})
				p := w.start(Config{Slots: 2, StuckMax: 1, Pulse: time.Second, LeaseTTL: 5 * time.Second})
				runs := w.many(p, "single", 6)
				pass(time.Second)
				require.EqualValues(t, 2, now.Load())
				heeds.Store(true)
				end(w, p)
				pass(2 * time.Second)
				require.EqualValues(t, 2, peak.Load())
				if test.stuck > 0 {
					pass(10 * time.Second)
					require.EqualValues(t, 2, now.Load(), "the other one keeps its slot")
					require.Equal(t, 2, p.Stats().Stuck)
				}
				w.completed(runs...)
				require.LessOrEqual(t, peak.Load(), test.most)
				pass(10 * time.Second)
				require.Equal(t, 2-test.stuck, p.Stats().Free)
			}))
		}
	}
}

// endedTx is a store whose step functions end their transactions before they fail.
type endedTx struct{ persistence.Store }

func (s endedTx) RecordInTx(
	ctx context.Context, r persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	recorded, err := s.Store.RecordInTx(ctx, r, fn)
	if err != nil {
		err = persistence.ErrTxEnded
	}
	return recorded, err
}

// A step that has ended its transaction fails for good, also if its time was up:
// another attempt would repeat the committed writes.
func TestAStepThatEndedItsTransactionFailsForGood(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		serially(t, func(t *testing.T, w *world) {
			var calls atomic.Int64
			w.pool = endedTx{w.store}
			w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
				calls.Add(1)
				if late {
					<-ctx.Done()
				}
				return Output{}, errors.New("it broke")
			}, func(f *StepFunction) {
				f.Options.InTx, f.Options.AttemptTimeout, f.Options.Retry = true, time.Second, workflow.RetryPolicy{Attempts: 3}
			})
			row := w.ended(w.trigger(w.start(Config{}), "single"))
			require.Equal(t, lifecycle.Failed, row.State)
			require.Equal(t, classTxBroken, row.Class)
			require.EqualValues(t, 1, calls.Load(), "late: %t", late)
		})
	}
}

// A process that was frozen finds the timers of its attempts late. They get
// the time that they have lost.
func TestAFrozenProcessDoesNotChargeTheTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late  time.Duration
		cause error
		state lifecycle.State
	}{
		"frozen":                     {8 * time.Second, ErrAttemptTimeout, lifecycle.Completed},
		"frozen between heartbeats":  {8 * time.Second, ErrHeartbeatTimeout, lifecycle.Completed},
		"a timer that is as it were": {0, ErrAttemptTimeout, lifecycle.Failed},
		"a little late":              {frozenMin / 2, ErrHeartbeatTimeout, lifecycle.Failed},
		"frozen, and not done then":  {time.Second, ErrAttemptTimeout, lifecycle.Failed},
	} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			w.register(storetest.Single(), newGauge().work(4*time.Second), func(f *StepFunction) {
				f.Options.AttemptTimeout, f.Options.HeartbeatLimit = time.Hour, time.Hour
			})
			p := w.start(Config{})
			run := w.trigger(p, "single")
			pass(2 * time.Second)
			name := taskName(taskKey{task: workflow.TaskID{Run: run}, epoch: 2})
			due := time.Now().Add(-c.late)
			p.rt.send(p.System().NewLocalPID(p.rt.addresses.runs.GetId()+"/"+name), &attemptTimeout{c.cause, due})
			row := w.ended(run)
			require.Equal(t, c.state, row.State)
		}))
	}
}

// The pool and the direct connection part while the pod lives.
func TestAPodThatIsDeadByOneDatabaseAndLivesByAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Millisecond), Config{Pulse: time.Second, LeaseTTL: 5 * time.Second})
		w.completed(w.trigger(p, "single"))
		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "claim" || call == "record" {
				return persistence.ErrPodDead
			}
			return nil
		})
		run := w.trigger(p, "single")
		pass(20 * time.Second)
		require.False(t, p.Stats().Ready)
		require.Contains(t, p.Stats().Degraded, "DirectURL")
		w.faults.failBefore(nil)
		w.completed(run)
		require.True(t, p.Stats().Ready)
		require.Empty(t, p.Stats().Degraded)
	})
}

// One refusal, of a call that was made when the lease was lost, says nothing once
// the pod has it back.
func TestARefusalFromBeforeSaysNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Millisecond), Config{Pulse: time.Second, LeaseTTL: 5 * time.Second})
		p.rt.status.with(func(f *podFacts) { f.reportedDead(time.Now().Add(-leadAwayMax)) })
		require.Empty(t, p.Stats().Degraded, "it was said once")
		p.rt.status.with(func(f *podFacts) { f.reportedDead(time.Now()) })
		require.Contains(t, p.Stats().Degraded, "different databases", "it is said still")
		w.faults.failBefore(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "renew") {
				return persistence.ErrUnavailable
			}
			return nil
		})
		pass(10 * time.Second)
		w.faults.failBefore(nil)
		pass(10 * time.Second)
		require.Equal(t, "live", p.Stats().Lease)
		require.Empty(t, p.Stats().Degraded, "the lease was renewed since")
	})
}
