package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

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
