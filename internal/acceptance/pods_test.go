package acceptance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// V11: several pods, shutdown and recovery.

// relay declares a → b. On each pod its steps note the pod's name; b takes an
// hour on the pod that is named slow, and no time elsewhere.
func relay(d *diary, pod string) *troupe.Workflow[string, string] {
	return troupe.Define("relay", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", func(context.Context, string) (string, error) {
			d.note("a on %s", pod)
			return "made on " + pod, nil
		})
		return troupe.Step1(b, "b", func(ctx context.Context, slow, a string) (string, error) {
			d.note("b on %s", pod)
			if slow != pod {
				return a + ", ended on " + pod, nil
			}
			select {
			case <-time.After(time.Hour):
				return a + ", ended slowly", nil
			case <-ctx.Done():
				d.note("b ended: %v", context.Cause(ctx))
				return "", context.Cause(ctx)
			}
		}, a)
	})
}

func stop(t *testing.T, engine *troupe.Engine) {
	t.Helper()
	require.NoError(t, engine.Stop(context.Background()))
	synctest.Wait()
}

func TestR3PodsShareTheWork(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		var handles []*troupe.Handle[string, string]
		for _, name := range []string{"one", "two"} {
			engine, _ := w.pod(t, slots(2))
			handles = append(handles, join(t, engine, single(func(context.Context, string) (string, error) {
				d.note("%s", name)
				time.Sleep(time.Hour)
				return name, nil
			})))
		}
		before := time.Now()
		runs, err := handles[0].RunMany(t.Context(), make([]string, 8))
		require.NoError(t, err)
		byPod := map[string]int{}
		for _, run := range runs {
			pod, err := run.Await(t.Context())
			require.NoError(t, err)
			byPod[pod]++
		}
		require.Equal(t, map[string]int{"one": 4, "two": 4}, byPod)
		require.Len(t, d.all(), 8, "each task ran once")
		require.Less(t, time.Since(before), 3*time.Hour, "eight hours of work in four slots")
	})
}

func TestR12StopLetsRunningTasksFinish(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		one, _ := w.pod(t, func(c *troupe.Config) { c.StopGrace = 2 * time.Hour })
		run := begin(t, join(t, one, relay(d, "one")), "one")
		require.Equal(t, "running a=completed b=running", states(t, run))
		stop(t, one)

		two, _ := w.pod(t)
		got, err := join(t, two, relay(d, "two")).Get("", run.ID()).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "made on one, ended slowly", got)
		require.Equal(t, []string{"a on one", "b on one"}, d.all())
	})
}

func TestR12StopHandsBackTheRestUncharged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		one, _ := w.pod(t, func(c *troupe.Config) { c.StopGrace = time.Minute })
		id := begin(t, join(t, one, relay(d, "one")), "one").ID()
		two, _ := w.pod(t)
		handle := join(t, two, relay(d, "two"))
		before := time.Now()
		stop(t, one)

		run := handle.Get("", id)
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(before), 5*time.Minute, "the other pod takes over at once, not when a lease ends")
		require.Equal(t, []string{"a on one", "b on one", "b ended: " + troupe.ErrStopping.Error(), "b on two"}, d.all())
		step := stepOf(t, run, "b")
		require.Equal(t, 1, step.Attempt)
		require.Zero(t, step.Losses)
		require.Equal(t, "queued started released started completed", trail(t, run, "b"))
	})
}

func TestR12SleepsAreUnaffectedByAStop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d, before := newMemoryCluster(), &diary{}, time.Now()
		sleepy := troupe.Define("sleepy", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			return troupe.Step0(b, "after", clockIn(d, "after"), troupe.After(troupe.Sleep(b, "sleep", day)))
		})
		one, _ := w.pod(t)
		id := begin(t, join(t, one, sleepy), true).ID()
		stop(t, one)

		time.Sleep(2 * time.Hour) // no pod lives
		two, _ := w.pod(t)
		run := join(t, two, sleepy).Get("", id)
		require.Equal(t, "running sleep=sleeping after=pending", states(t, run))
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, day, time.Since(before))
		require.Equal(t, []string{"after 24h0m0s"}, d.all())
	})
}

func TestR13LeadershipMovesToAnotherPod(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		sleepy := troupe.Define("sleepy", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			return troupe.Step0(b, "after", clockIn(d, "after"), troupe.After(troupe.Sleep(b, "sleep", time.Hour)))
		})
		one, _ := w.pod(t)
		first := join(t, one, sleepy)
		synctest.Wait() // one leads
		two, _ := w.pod(t)
		second := join(t, two, sleepy)
		id := begin(t, first, true).ID()
		stop(t, one)

		_, err := second.Get("", id).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"after 1h0m0s"}, d.all(), "timers are fired by the pod that leads, and one does")
	})
}

func TestR14TasksOfADeadPodAreTakenOver(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		one, line := w.pod(t, brisk)
		id := begin(t, join(t, one, relay(d, "one")), "one").ID()
		line.cut(w)
		two, _ := w.pod(t, brisk)
		run := join(t, two, relay(d, "two")).Get("", id)
		require.Equal(t, "running a=completed b=running", states(t, run))

		_, err := run.Await(t.Context())
		require.NoError(t, err)
		step := stepOf(t, run, "b")
		require.Equal(t, 1, step.Losses)
		require.Equal(t, 1, step.Attempt, "a loss is not an attempt")
		require.Equal(t, "queued started lost started completed", trail(t, run, "b"))
	})
}

// TestR5CompletedOutputsAreNotExecutedAgain: recovery starts at the lost task, and
// later reports of the lost pod are rejected.
func TestR5CompletedOutputsAreNotExecutedAgain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		one, line := w.pod(t, brisk)
		id := begin(t, join(t, one, relay(d, "one")), "one").ID()
		line.cut(w)
		two, _ := w.pod(t, brisk)
		run := join(t, two, relay(d, "two")).Get("", id)
		got, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "made on one, ended on two", got, "the output of a was kept")
		require.Equal(t, []string{"a on one", "b on one", "b ended: " + troupe.ErrLeaseLost.Error(), "b on two"}, d.all())

		time.Sleep(time.Minute)
		again, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, got, again, "a recorded output is never overwritten")
	})
}

// TestI4APodStopsBeforeItsLeaseEnds: at any interval of its pulse, the contexts of a
// lost pod end before another pod begins.
func TestI4APodStopsBeforeItsLeaseEnds(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, pulse := range []time.Duration{time.Second, 7 * time.Second, time.Minute} {
			w, d := newMemoryCluster(), &diary{}
			rhythm := func(c *troupe.Config) { brisk(c); c.Pulse, c.Lease = pulse, 3*pulse }
			one, line := w.pod(t, rhythm)
			id := begin(t, join(t, one, relay(d, "one")), "one").ID()
			line.cut(w)
			two, _ := w.pod(t, rhythm)
			_, err := join(t, two, relay(d, "two")).Get("", id).Await(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"a on one", "b on one", "b ended: " + troupe.ErrLeaseLost.Error(), "b on two"}, d.all(), pulse)
		}
	})
}

func TestR5ARepeatedAttemptHasTheSameIdempotencyKey(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		attempt := func(pod string) *troupe.Workflow[string, string] {
			return single(func(ctx context.Context, hangs string) (string, error) {
				task := troupe.Task(ctx)
				d.note("%s", task.IdempotencyKey)
				d.note("%s", task.AttemptID)
				if hangs == pod {
					<-ctx.Done()
				}
				if task.Attempt == 1 {
					return "", errBusy
				}
				return pod, nil
			}, steady(2))
		}
		one, line := w.pod(t, brisk)
		id := begin(t, join(t, one, attempt("one")), "one").ID()
		line.cut(w)
		two, _ := w.pod(t, brisk)
		got, err := join(t, two, attempt("two")).Get("", id).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "two", got)

		notes := d.all()
		require.Len(t, notes, 6, "lost, failed, completed")
		require.Equal(t, notes[0], notes[2], "after a loss")
		require.Equal(t, notes[0], notes[4], "after a failure")
		require.NotEqual(t, notes[1], notes[3], "the attempt itself has an id of its own")
		require.NotEqual(t, notes[3], notes[5])
	})
}

func TestR14APodWhoseDatabaseReturnsGoesOn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, d := newMemoryCluster(), &diary{}
		one, line := w.pod(t)
		handle := join(t, one, relay(d, "one"))
		run := begin(t, handle, "one")
		line.cut(w)
		time.Sleep(90 * time.Minute) // b ends meanwhile, and its result waits
		synctest.Wait()
		require.Equal(t, "running a=completed b=running", states(t, run))
		line.isCut.Store(false)
		got, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "made on one, ended slowly", got)
		require.Equal(t, []string{"a on one", "b on one"}, d.all(), "nothing is executed again")

		_, err = handle.Run(t.Context(), "")
		require.NoError(t, err, "and it takes new work, without a restart")
	})
}

func TestB36ARunWhoseVersionNoPodKnowsWaitsAndSaysSo(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newMemoryCluster()
		old := troupe.Define("versions", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			return troupe.Step0(b, "after", gives[bool](&diary{}, "old", "old"), troupe.After(troupe.Sleep(b, "sleep", day)))
		})
		changed := troupe.Define("versions", func(b *troupe.Builder[bool]) troupe.StepRef[int] {
			return troupe.Step0(b, "after", gives[bool](&diary{}, "new", 2), troupe.After(troupe.Sleep(b, "sleep", day)))
		})
		one, _ := w.pod(t)
		id := begin(t, join(t, one, old), true).ID()
		stop(t, one)

		two, _ := w.pod(t)
		handle := join(t, two, changed)
		time.Sleep(2 * day)
		synctest.Wait()
		run := handle.Get("", id)
		step := stepOf(t, run, "after")
		require.Equal(t, troupe.StateQueued, step.State)
		require.Contains(t, step.Waiting, "no live pod registers it")
		got, err := handle.Run(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, 2, got, "new runs are of the new version")

		three, _ := w.pod(t)
		out, err := join(t, three, old).Get("", id).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "old", out, "the old run continues once a pod knows its version again")
	})
}
