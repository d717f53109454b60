package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// TestStorm: three pods whose actors fail, whose calls fail before and after
// they were carried out, one of which is declared dead: when the faults end,
// all that was triggered completes, and every slot is free again.
func TestStorm(t *testing.T) {
	t.Parallel()
	seeds := 20
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			serially(t, func(t *testing.T, w *world) { w.storm(uint64(seed)) })
		})
	}
}

func (w *world) storm(seed uint64) {
	t, chance := w.t, rand.New(rand.NewPCG(seed, 1))
	g := newGauge()
	nap := storetest.Nap(20 * time.Second)
	for _, graph := range []*workflow.Graph{storetest.Diamond(), storetest.Chain(5), nap} {
		w.register(graph, g.work(2*time.Second))
	}
	config := Config{Slots: 3, MaxLost: 1000}
	pods := []*Pod{w.start(config), w.start(config), w.start(config)}
	victims := []string{"journal", "runs", "pulse", "claimer", "intake", "leader", "timekeeper", "housekeeper", "feed", runName}
	w.faults.failBefore(func(context.Context, string) error {
		if rand.IntN(20) == 0 {
			return persistence.ErrUnavailable
		}
		return nil
	})
	w.faults.failAfter(func(call string) error {
		if call != "join" && rand.IntN(20) == 0 {
			return persistence.ErrUnavailable
		}
		return nil
	})
	var runs []workflow.RunID
	for round := range 12 {
		for _, name := range []string{"diamond", "chain5", nap.Name} {
			runs = append(runs, w.trigger(pods[chance.IntN(3)], name))
		}
		pass(time.Duration(chance.IntN(12_000)) * time.Millisecond)
		w.strike(pods[chance.IntN(3)], victims[chance.IntN(len(victims))])
		if round == 5 {
			w.faults.failBefore(func(_ context.Context, call string) error {
				if strings.HasPrefix(call, "renew 2") {
					return persistence.ErrPodDead
				}
				return nil
			})
		}
	}
	pass(30 * time.Second)
	w.faults.failBefore(nil)
	w.faults.failAfter(nil)
	w.completed(runs...)
	require.Len(t, w.store.Snapshot().Runs, len(runs))
	pass(time.Minute)
	leading := 0
	for _, p := range pods {
		require.NoError(t, p.Err())
		stats := p.Stats()
		require.Equal(t, 3, stats.Free, "no slot leaks")
		require.True(t, stats.Ready)
		require.Equal(t, 3, stats.Pods)
		if stats.Leading {
			leading++
		}
	}
	require.Equal(t, 1, leading)
	require.LessOrEqual(t, g.most(), 9)
}

// However many wait, a sweep costs a statement for each thousand of their runs, and
// only watchers of ended runs are told, whether hints are lost or not.
func TestWaitingForManyRunsCostsLittle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Hour))
		p := w.start(Config{Slots: 1, Sweep: time.Second, SweepDegraded: time.Second})
		w.trigger(p, "single") // takes the slot
		run := w.trigger(p, "single")
		hints, stop := p.Watch(run)
		defer stop()
		for range 2500 {
			_, stop := p.Watch(w.trigger(p, "single"))
			defer stop()
		}
		before := w.count("ended")
		pass(100 * time.Second)
		require.InDelta(t, 300, w.count("ended")-before, 60, "three for each sweep")
		require.Empty(t, hints, "the run has not ended")

		var fails atomic.Int64
		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "ended" && fails.Add(1) <= 3 {
				return errors.New("no answer")
			}
			return nil
		})
		_, err := w.store.CancelRun(t.Context(), persistence.Cancel{Run: run, Grace: 0}) // without a hint
		require.NoError(t, err)
		pass(10 * time.Second)
		require.Len(t, hints, 1, "a look has found the end")
	})
}

// listener passes its messages on.
type listener struct{ got chan<- string }

func (l *listener) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		l.got <- "started"
	case string:
		l.got <- msg
	}
}

// TestMessagesBeforeTheActor: siblings send to addresses that they know before
// the actor is attached to its mailbox. What protoactor calls between the two
// is the initialization of props.
func TestMessagesBeforeTheActor(t *testing.T) {
	t.Parallel()
	system := newSystem(slog.New(slog.DiscardHandler))
	got := make(chan string, 10)
	props := newProps(func() receiver { return &listener{got: got} }, newMailbox, roomy{})
	props.Configure(actor.WithOnInit(func(ctx actor.Context) {
		system.Root.Send(ctx.Self(), "early")
		system.Root.Send(ctx.Self(), "a little later")
	}))
	pid, err := system.Root.SpawnNamed(props, "early")
	require.NoError(t, err)
	system.Root.Send(pid, "late")
	for _, want := range []string{"started", "early", "a little later", "late"} {
		require.Equal(t, want, <-got)
	}
	system.Root.Stop(pid)
}
