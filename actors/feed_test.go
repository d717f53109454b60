package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// pipe is a replication stream that a test fills.
type pipe struct {
	mu      sync.Mutex
	refuse  error
	readers map[int]func([]cluster.Wake)
	breaks  chan error
	opened  int
}

func newPipe() *pipe { return &pipe{readers: map[int]func([]cluster.Wake){}, breaks: make(chan error)} }

// Read implements cluster.Stream.
func (p *pipe) Read(ctx context.Context, connected func(), sink func([]cluster.Wake)) error {
	p.mu.Lock()
	if err := p.refuse; err != nil {
		p.mu.Unlock()
		return err
	}
	p.opened++
	id := p.opened
	p.readers[id] = sink
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.readers, id)
	}()
	connected()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-p.breaks:
		return err
	}
}

func (p *pipe) flow(wakes ...cluster.Wake) (readers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sink := range p.readers {
		sink(wakes)
	}
	return len(p.readers)
}

func (w *world) modes() []string {
	var modes []string
	for _, p := range w.pods {
		modes = append(modes, p.Stats().Mode)
	}
	return modes
}

// TestFeedModes: a pod that is alone needs no stream, two read it themselves, of
// more the leader does; without a stream writers notify.
func TestFeedModes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		stream := newPipe()
		w.stream = stream
		slow := Config{Sweep: time.Hour, SweepDegraded: time.Hour}
		first := w.start(slow)
		pass(10 * time.Second)
		require.Equal(t, []string{"spared"}, w.modes())
		require.Zero(t, stream.flow(), "no pod reads")
		w.start(slow)
		pass(3 * time.Second)
		require.Equal(t, []string{"stream", "stream"}, w.modes(), "the first hears of the second before its next renewal")
		require.Equal(t, 2, stream.flow())
		w.start(slow)
		pass(20 * time.Second)
		require.Equal(t, []string{"relay", "relay", "relay"}, w.modes())
		require.Equal(t, 1, stream.flow(), "only the leader reads")

		// Work that another process made ready reaches a pod through the stream.
		run := w.stored("single")
		stream.flow(cluster.Wake{Kind: cluster.WakeReady, Queue: DefaultQueue, Count: 1, Key: 7})
		begun := time.Now()
		w.completed(run)
		require.Less(t, time.Since(begun), time.Second)

		// The stream breaks, and comes back.
		stream.mu.Lock()
		stream.refuse = fmt.Errorf("%w: wal_level is replica", cluster.ErrStreamUnavailable)
		stream.mu.Unlock()
		stream.breaks <- errors.New("connection lost")
		pass(20 * time.Second)
		require.Equal(t, []string{"none", "none", "none"}, w.modes())
		require.Contains(t, first.Stats().Degraded, "wal_level")
		stream.mu.Lock()
		stream.refuse = nil
		stream.mu.Unlock()
		pass(10 * time.Minute)
		require.Equal(t, []string{"relay", "relay", "relay"}, w.modes())
		require.Empty(t, first.Stats().Degraded)

		// The leader goes; another one takes the stream over.
		require.NoError(t, first.Stop(t.Context()))
		w.pods = w.pods[1:]
		pass(10 * time.Second)
		require.Equal(t, []string{"stream", "stream"}, w.modes())
	})
}

// stored stores a run past the pods, as another process would.
func (w *world) stored(name string) workflow.RunID {
	trigger := w.order(name)
	trigger.Run = workflow.NewRunID(time.Now(), [10]byte{1})
	_, err := w.store.TriggerRuns(w.t.Context(), []persistence.Trigger{trigger}, persistence.GrantRequest{})
	require.NoError(w.t, err)
	return trigger.Run
}

// TestFeedSubscribesOnce: an actor that fails does not leave its subscriptions
// behind.
func TestFeedSubscribesOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		stream := newPipe()
		w.stream = stream
		p := w.single(newGauge().work(time.Millisecond), Config{})
		other := w.start(Config{})
		pass(8 * time.Second)
		for range 3 {
			kill(p, "feed")
			pass(15 * time.Second)
			require.Equal(t, 2, stream.flow())
			require.Equal(t, "stream", p.Stats().Mode)
		}
		kill(p, "leader")
		pass(15 * time.Second)
		require.Equal(t, 2, stream.flow())
		require.True(t, p.Stats().Leading != other.Stats().Leading)
	})
}

// TestFeedAsksWhoLeads: a feed that failed when it was told that its pod leads asks again.
// Otherwise no pod would sweep for runs that transactions of embedders stored.
func TestFeedAsksWhoLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Millisecond), Config{LeaderPing: 500 * time.Millisecond})
		pass(5 * time.Second)
		require.True(t, p.Stats().Leading)
		p.rt.send(p.rt.addresses.feed, &messages.TermEnded{}) // it knows as little as if TermBegan were lost
		kill(p, "feed")
		pass(5 * time.Second)
		trigger := w.order("single")
		trigger.Run = workflow.NewRunID(time.Now(), [10]byte{1})
		tx := w.store.Begin()
		_, err := w.store.TriggerInTx(t.Context(), tx, trigger)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		w.completed(trigger.Run)
	})
}

// TestEarlierTimer: the timekeeper sleeps until the earliest timer, and hears
// of one that is earlier.
func TestEarlierTimer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		late, early := storetest.Nap(30*time.Minute), storetest.Nap(time.Minute)
		for _, g := range []*workflow.Graph{late, early} {
			w.register(g, newGauge().work(time.Millisecond))
		}
		p := w.start(Config{Sweep: 2 * time.Hour, SweepDegraded: 2 * time.Hour})
		pass(5 * time.Second)
		begun := time.Now()
		second := w.trigger(p, late.Name)
		pass(time.Second)
		first := w.trigger(p, early.Name)
		w.completed(first)
		require.InDelta(t, 61, time.Since(begun).Seconds(), 0.5)
		w.completed(second)
		require.InDelta(t, 1800, time.Since(begun).Seconds(), 0.5)
		require.Less(t, len(w.faults.made()), 2000, "nothing is polled")
	})
}

// TestTakeOver: the tasks of a pod that vanished are executed by another one.
func TestTakeOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		w.register(storetest.Chain(3), g.work(20*time.Second))
		first := w.start(Config{})
		run := w.trigger(first, "chain3")
		pass(5 * time.Second)
		second := w.start(Config{})
		pass(3 * time.Second)
		require.NoError(t, first.Stop(t.Context()))
		w.completed(run)
		require.True(t, second.Stats().Leading)
		for key, n := range g.executions() {
			require.Equal(t, 1, n, "executions of %s: the grace let it finish", key)
		}
	})
}

// TestPoolsKeepTheirSlots: children granted with their parent take a slot of
// its pool, whatever queue the run names.
func TestPoolsKeepTheirSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		w.register(storetest.Diamond(), g.work(50*time.Millisecond))
		p := w.start(Config{QueueSlots: map[string]int{"bulk": 2, "default": 1}})
		var runs []workflow.RunID
		for range 20 {
			order := w.order("diamond")
			order.Queue = "bulk"
			answers := w.stores(p, []persistence.Trigger{order})
			runs = append(runs, answers[0].Run)
		}
		w.completed(runs...)
		require.LessOrEqual(t, g.most(), 2)
		pass(time.Second)
		require.Equal(t, 3, p.Stats().Free)
		require.Positive(t, p.Stats().Inline)
	})
}

// TestFeedIsSpared: while all pods are busy no pod reads the stream, and all work is still
// found. The stream is read again when a pod waits for work.
func TestFeedIsSpared(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		long := newGauge()
		w.register(storetest.Chain(3), long.work(15*time.Second))
		stream := newPipe()
		w.stream = stream
		config := Config{Slots: 2, Sweep: time.Hour, SweepDegraded: 30 * time.Minute}
		first := w.start(config)
		second := w.start(config)
		pass(15 * time.Second)
		require.Equal(t, []string{"stream", "stream"}, w.modes())

		begun := time.Now()
		var runs []workflow.RunID
		for range 8 { // two minutes and more of work for four slots
			runs = append(runs, w.trigger(first, "chain3"))
		}
		stream.flow(cluster.Wake{Kind: cluster.WakeReady, Queue: DefaultQueue, Count: 8, Key: 7})
		pass(30 * time.Second)
		require.Equal(t, []string{"spared", "spared"}, w.modes())
		require.Zero(t, stream.flow(), "no pod reads")
		require.Empty(t, first.Stats().Degraded)

		// A waiter hears of the end of its run, whichever pod records it.
		for i, p := range []*Pod{first, second} {
			hints, stop := p.Watch(runs[i])
			run := runs[i]
			row, err := w.store.Run(t.Context(), "", run)
			for require.NoError(t, err); !row.State.Terminal(); require.NoError(t, err) {
				<-hints
				row, err = w.store.Run(t.Context(), "", run)
			}
			stop()
			require.Less(t, time.Since(row.FinishedAt), time.Second)
		}
		w.completed(runs...)
		require.Less(t, time.Since(begun), 100*time.Second, "all four slots were at work: 90 s is the least")
		pass(20 * time.Second)
		require.Equal(t, []string{"stream", "stream"}, w.modes())
		require.Equal(t, 2, stream.flow())
	})
}

// TestFeedOfTransactions: triggers in transactions of the embedder's are worth
// a stream to a pod that is alone, as long as there are any.
func TestFeedOfTransactions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.stream = newPipe()
		p := w.start(Config{})
		pass(15 * time.Second)
		require.False(t, p.Streamed())
		p.Submitted()
		synctest.Wait()
		require.True(t, p.Streamed())
		pass(12 * time.Second)
		require.False(t, p.Streamed())
		p.Submitted()
		pass(5 * time.Second)
		require.False(t, p.Streamed(), "not so soon again")
		p.Submitted()
		pass(6 * time.Second)
		require.True(t, p.Streamed())
	})
}
