package actors

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// update rewrites the files under docs/diagrams.
func update() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

var _ = flag.Bool("update", false, "rewrite the diagrams")

// golden compares a printed diagram with its file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "../docs/diagrams/" + name
	if update() {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s is out of date: run go test ./actors -update", path)
}

func TestSupervisionDiagram(t *testing.T) {
	t.Parallel()
	golden(t, "supervision.txt", SupervisionDiagram())
}

// TestLivingTree: the actors that run are those that tree.go declares.
func TestLivingTree(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.single(g.work(time.Minute), Config{})
		run := w.trigger(p, "single")
		pass(5 * time.Second)
		for parent, pid := range map[string]*PID{podName: p.rt.addresses.pod, "leader": p.rt.addresses.leader} {
			var want []string
			for _, m := range childrenOf(parent) {
				want = append(want, m.name)
			}
			require.ElementsMatch(t, want, w.children(p, pid), "children of %s", parent)
		}
		of := w.children(p, p.rt.addresses.runs)
		require.Len(t, of, 1)
		require.True(t, strings.HasPrefix(of[0], run.String()), of[0])
		require.True(t, memberNamed(of[0]).many)
		w.completed(run)
		pass(time.Second)
		require.Empty(t, w.children(p, p.rt.addresses.runs), "a run actor ends with its task")
	})
}

// TestEveryActorMayFail: each actor fails once while tasks run, and nothing is
// lost, doubled or executed in more slots than there are.
func TestEveryActorMayFail(t *testing.T) {
	t.Parallel()
	victims := []string{"journal", "runs", "pulse", "claimer", "intake", "leader", "timekeeper", "housekeeper", "feed", runName}
	for _, m := range tree() {
		require.Contains(t, append(victims, podName), m.name, "a victim for every actor")
	}
	for _, victim := range victims {
		t.Run(victim, bubble(func(t *testing.T, w *world) {
			g := newGauge()
			w.register(storetest.Chain(4), g.work(30*time.Millisecond))
			nap := storetest.Nap(3 * time.Second)
			w.register(nap, g.work(30*time.Millisecond))
			p := w.start(Config{Slots: 4, MaxLost: 10})
			pass(4 * time.Second)
			var runs []workflow.RunID
			for range 4 {
				runs = append(runs, w.many(p, "chain4", 4)...)
				runs = append(runs, w.trigger(p, nap.Name))
				pass(45 * time.Millisecond)
				w.strike(p, victim)
				pass(10 * time.Millisecond)
			}
			w.completed(runs...)
			require.LessOrEqual(t, g.most(), 4)
			pass(time.Minute)
			stats := p.Stats()
			require.Equal(t, 4, stats.Free, "no slot leaks")
			require.Zero(t, stats.Running)
			require.Positive(t, stats.Restarts)
			require.NoError(t, p.Err())
			if victim != "runs" && victim != runName {
				g.once(t)
			}
		}))
	}
}

// strike lets an actor fail; of the run actors, one.
func (w *world) strike(p *Pod, victim string) {
	if victim != runName {
		kill(p, victim)
		return
	}
	for _, name := range w.children(p, p.rt.addresses.runs) {
		p.rt.send(p.System().NewLocalPID(p.rt.addresses.runs.GetId()+"/"+name), (*attemptTimeout)(nil))
		return
	}
}

// TestSupervisionGivesUp: an actor that fails too often ends the pod, which
// says why, and hands back what it holds.
func TestSupervisionGivesUp(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"journal", "claimer", "timekeeper", podName} {
		t.Run(victim, bubble(func(t *testing.T, w *world) {
			cause := make(chan error, 1)
			w.register(storetest.Single(), untilEnded(cause))
			p := w.start(Config{})
			pass(3 * time.Second)
			w.trigger(p, "single")
			pass(time.Second)
			strikes := 0
			for over := false; !over; {
				kill(p, victim)
				strikes++
				select {
				case <-p.Done():
					over = true
				case <-time.After(900 * time.Millisecond):
				}
				require.Less(t, strikes, 50)
			}
			require.ErrorIs(t, p.Err(), ErrSupervision)
			if victim == "timekeeper" { // its failures are the leader's, too
				require.Contains(t, p.Err().Error(), "leader")
			} else {
				require.Contains(t, p.Err().Error(), victim)
			}
			require.ErrorIs(t, <-cause, ErrStopping)
			pods := w.store.Snapshot().Pods
			require.Empty(t, pods, "its row is gone, and its task with it: %v", pods)
		}))
	}
}

// A pod whose pulse fails whenever it runs renews nothing and does not notice
// that its lease ends: it gives up, and hands back what it holds, long before.
func TestAPulseThatCannotBeMendedEndsThePodInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.start(Config{})
		pass(3 * time.Second)
		began := time.Now()
		for range 6 {
			kill(p, "pulse")
		}
		<-p.Done()
		require.ErrorIs(t, p.Err(), ErrSupervision)
		require.Less(t, time.Since(began), DefaultConfig().LeaseMargin/8)
	})
}

// stopMessages is the conversation of a stop, in the order of its stages.
func stopMessages() []string {
	return []string{
		"DrainIntake", "IntakeDrained", "StopGranting", "StopClaiming", "ClaimingStopped", "DrainRuns", "EndAttempts",
		"RunsDrained", "FlushJournal", "JournalFlushed", "Resign", "Resigned", "CloseFeed", "FeedClosed",
	}
}

func TestStopKeepsItsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cause := make(chan error, 1)
		w.register(storetest.Single(), untilEnded(cause))
		p := w.start(Config{StopGrace: 20 * time.Second})
		pass(3 * time.Second)
		run := w.trigger(p, "single")
		pass(time.Second)
		begun := time.Now()
		require.NoError(t, p.Stop(t.Context()))
		require.NoError(t, p.Err())
		require.ErrorIs(t, <-cause, ErrStopping)
		require.Equal(t, stopMessages(), w.sent.list(stopMessages()...))
		took := time.Since(begun)
		require.GreaterOrEqual(t, took, 20*time.Second)
		require.Less(t, took, 21*time.Second)
		calls := slices.DeleteFunc(w.faults.made(), func(c string) bool { return c == "drain" || c == "ended" }) // in answer to late wakes
		require.Equal(t, "leave", calls[len(calls)-1])
		renewed := slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "renew") })
		require.True(t, renewed, "the pulse keeps the lease during the grace")
		tasks := w.tasks(run)
		require.Zero(t, tasks[0].Lost, "what is handed back is not charged")
		require.False(t, w.bus.Depose(), "there is no leader")
		require.NoError(t, p.Stop(t.Context()), "stopping twice is safe")
	})
}

func TestSecondStopEndsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Hour), Config{})
		w.trigger(p, "single")
		pass(time.Second)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, p.Stop(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(begun), 4*time.Second)
		require.Empty(t, w.store.Snapshot().Pods)
	})
}
