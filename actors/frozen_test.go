package actors

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

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
