package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// acquainted starts a pod that has met its tenant: only then are first tasks
// granted together with their runs.
func (w *world) acquainted(config Config, g *gauge, d time.Duration) *Pod {
	w.t.Helper()
	w.register(storetest.Single(), g.work(d))
	p := w.start(config)
	w.completed(w.trigger(p, "single"))
	pass(time.Second)
	return p
}

// once requires that each task was executed once, and that all slots are free
// again.
func (w *world) once(p *Pod, g *gauge, slots int) {
	w.t.Helper()
	g.once(w.t)
	require.LessOrEqual(w.t, g.most(), slots)
	pass(time.Second)
	require.Equal(w.t, slots, p.Stats().Free)
	before := len(w.faults.made())
	runs := w.many(p, "single", 3*slots)
	w.completed(runs...)
	require.Greater(w.t, len(w.faults.made()), before)
	require.Equal(w.t, slots, g.most(), "all of them can be used")
}

func TestFirstTasksNeedNoClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 4}, g, 100*time.Millisecond)
		before := len(w.faults.made())
		w.completed(w.trigger(p, "single"))
		require.NotContains(t, w.faults.made()[before:], "claim")
		require.Equal(t, int64(1), p.Stats().First)
		w.once(p, g, 4)
	})
}

// TestFirstTasksBeyondTheSlotsQueueUp: a batch with more of them than there are
// slots.
func TestFirstTasksBeyondTheSlotsQueueUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 4}, g, 10*time.Second)
		var batch []persistence.Trigger
		for range 20 {
			batch = append(batch, w.order("single"))
		}
		answers := w.stores(p, batch)
		require.Equal(t, int64(2), p.Stats().First, "half of what is free")
		for _, answer := range answers {
			w.completed(answer.Run)
		}
		w.once(p, g, 4)
	})
}

// TestLimitedTenantsTakeTheirTurn: claims count how many tasks a tenant runs, so first
// tasks of limited tenants are claimed.
func TestLimitedTenantsTakeTheirTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 4, TenantLimit: 1}, g, time.Second)
		w.completed(w.trigger(p, "single"), w.trigger(p, "single"))
		require.Equal(t, 1, g.most())
		require.Zero(t, p.Stats().First)
	})
}

// TestReservationOverRestarts: the claimer or the intake fails while first tasks are
// granted, before or after the commit.
func TestReservationOverRestarts(t *testing.T) {
	t.Parallel()
	for _, actor := range []string{"intake", "claimer", "runs"} {
		for _, answer := range []struct {
			name string
			err  error
		}{{"heard", nil}, {"unheard", persistence.ErrUnavailable}} {
			t.Run(actor+" "+answer.name, bubble(func(t *testing.T, w *world) {
				g := newGauge()
				p := w.acquainted(Config{Slots: 4}, g, 50*time.Millisecond)
				var struck atomic.Bool
				w.faults.failAfter(func(call string) error {
					if call != "trigger" || struck.Swap(true) {
						return nil
					}
					kill(p, actor)
					pass(10 * time.Millisecond)
					return answer.err
				})
				w.completed(w.trigger(p, "single"))
				require.True(t, struck.Load())
				w.once(p, g, 4)
			}))
		}
	}
}

// TestReservationWithoutClaimer: a batch does not wait for a claimer that does not run.
func TestReservationWithoutClaimer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 4}, g, 50*time.Millisecond)
		for range 4 {
			kill(p, "claimer") // each restart takes longer than the one before
			pass(time.Millisecond)
		}
		begun := time.Now()
		run := w.trigger(p, "single")
		require.Less(t, time.Since(begun), 50*time.Millisecond)
		w.completed(run)
		w.once(p, g, 4)
	})
}

// hooks are what happens to messages, by the ends of their types' names.
type hooks struct {
	lose  string // the next of these does not arrive
	heard string // then is called with the next of these
	then  func()
}

// loses runs the hook of a message, and reports whether the message gets lost.
func (s *sent) loses(message any) bool {
	if e, ok := message.(*actor.MessageEnvelope); ok {
		message = e.Message
	}
	name := fmt.Sprintf("%T", message)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard != "" && strings.HasSuffix(name, s.heard) {
		s.heard = ""
		s.then()
	}
	if s.lose == "" || !strings.HasSuffix(name, s.lose) {
		return false
	}
	s.lose = ""
	return true
}

// TestReservationIsLostWithItsActor: an actor that fails on the answer of the claimer does
// not learn of its reservation.
func TestReservationIsLostWithItsActor(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"intake", "journal"} {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			g := newGauge()
			p := w.acquainted(Config{Slots: 2}, g, 50*time.Millisecond)
			lose := func() {
				w.sent.mu.Lock()
				defer w.sent.mu.Unlock()
				w.sent.lose = ".SlotsReserved"
			}
			if name == "intake" {
				lose()
			}
			run := w.trigger(p, "single")
			if name == "journal" {
				lose()
			}
			pass(time.Second)
			kill(p, name)
			w.completed(run)
			pass(time.Second)
			w.once(p, g, 2)
		}))
	}
}

// TestReservationOfAnotherPool: before the claimer answers, the caller gives up, and the
// batch is of another queue.
func TestReservationOfAnotherPool(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		w.register(storetest.Single(), g.work(10*time.Second))
		_, err := w.store.RegisterDefinitions(t.Context(), nil, []string{"bulk"})
		require.NoError(t, err)
		p := w.start(Config{QueueSlots: map[string]int{"bulk": 8, DefaultQueue: 1}})
		w.completed(w.trigger(p, "single"))
		pass(time.Second)
		heal := w.hang("trigger")
		ask := func(ctx context.Context, queue string) <-chan struct{} {
			order := w.order("single")
			order.Queue = queue
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				_, _, _ = p.Trigger(ctx, []persistence.Trigger{order})
			}()
			pass(time.Millisecond)
			return returned
		}
		ask(t.Context(), "")
		ctx, cancel := context.WithCancel(t.Context())
		returned := ask(ctx, "bulk")
		leave := func() {
			cancel()
			<-returned // no caller waits from then on
		}
		for range 4 {
			ask(t.Context(), "")
		}
		w.sent.mu.Lock()
		w.sent.heard, w.sent.then = ".ReserveSlots", leave // of the next batch, for the bulk queue
		w.sent.mu.Unlock()
		heal()
		pass(2 * time.Minute)
		require.Equal(t, 1, g.most())
		require.Equal(t, 9, p.Stats().Free)
	})
}

// TestReservationOfCallersThatGaveUp: a batch whose outcome is unknown is not stored after
// all of its callers have given up.
func TestReservationOfCallersThatGaveUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 4, LeaseTTL: 10 * time.Hour, Pulse: time.Hour}, g, 50*time.Millisecond)
		before := len(w.store.Snapshot().Runs)
		heal := w.outage()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := p.Trigger(ctx, []persistence.Trigger{w.order("single")})
		require.Error(t, err)
		pass(time.Minute)
		heal()
		pass(time.Minute)
		require.Len(t, w.store.Snapshot().Runs, before)
		w.once(p, g, 4)
	})
}

// TestReleaseIsRepeated: a claimer that failed on a release has reserved slots for an intake
// that has forgotten them. The intake releases them again.
func TestReleaseIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.acquainted(Config{Slots: 4}, newGauge(), 50*time.Millisecond)
		pass(time.Second)
		carryover := &claimerState{reservations: map[requester]*reservation{forJournal: {number: -1, pool: sharedPool, slots: 2}}, fenced: true} // it claims nothing
		next, is := spawnClaimer(p.rt, &Ports{}, p.Stats().Pod, carryover)().(*claimer)
		require.True(t, is)
		before := w.releases()
		next.repeatReservations()
		pass(time.Millisecond)
		require.Equal(t, before+1, w.releases())
		next.onSlotsReleased(&messages.SlotsReleased{Number: -1, Pod: p.Stats().Pod})
		require.Equal(t, 2, next.free[sharedPool])
		require.Empty(t, carryover.reservations)
	})
}

// releases counts the reservations that were released.
func (w *world) releases() (n int) {
	w.sent.mu.Lock()
	defer w.sent.mu.Unlock()
	for _, name := range w.sent.names {
		if name == "SlotsReleased" {
			n++
		}
	}
	return n
}

// TestReservationOfAPodThatJoinsAgain: a task that was granted to a pod which was declared
// dead meanwhile is executed under its next grant only.
func TestReservationOfAPodThatJoinsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 4, Pulse: time.Second, LeaseTTL: 5 * time.Second}, g, 50*time.Millisecond)
		granted, gate := make(chan struct{}), make(chan struct{})
		var struck atomic.Bool
		w.faults.failAfter(func(call string) error {
			if call == "trigger" && !struck.Swap(true) {
				close(granted)
				<-gate
			}
			return nil
		})
		done := make(chan workflow.RunID)
		go func() { done <- w.trigger(p, "single") }()
		<-granted
		w.faults.failBefore(failing("renew 1", persistence.ErrPodDead))
		for p.Stats().Pod != 2 {
			pass(time.Second)
		}
		close(gate)
		w.completed(<-done)
		w.once(p, g, 4)
	})
}
