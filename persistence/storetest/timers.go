package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

var timerRules = []rule{
	{"timers/sleep", "a sleep ends once its time has come, without a pod, and never early", func(w *world) {
		run, p := w.startWithPod(Nap(time.Hour))
		out := p.complete(p.claimStep("before"))
		require.WithinDuration(w.t, out.Now.Add(time.Hour), out.Wake.NextTimer, time.Second)
		w.requireTasks(run, states{"nap": "sleeping", "after": "pending"})
		require.False(w.t, w.tasks(run)["nap"].WakeAt.IsZero())
		call(w.store.LeavePod(w.ctx, p.id)).must(w)
		w.advance(59 * time.Minute)
		fired := w.fire()
		require.Zero(w.t, fired.Count)
		require.Positive(w.t, fired.Next.Sub(fired.Now))
		w.requireTasks(run, states{"nap": "sleeping"})
		w.advance(time.Minute)
		fired = w.fire()
		require.Equal(w.t, 1, fired.Count)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, fired.Wake.Ready)
		require.True(w.t, fired.Next.IsZero())
		w.requireTasks(run, states{"nap": "completed", "after": "queued"})
		require.True(w.t, w.tasks(run)["nap"].WakeAt.IsZero())
		require.Equal(w.t, []string{"sleeping", "woken"}, w.events(run)["nap"])
		w.pod().finish()
		w.requireRun(run, lifecycle.Completed)
	}},
	{"timers/once", "a timer fires once", func(w *world) {
		run, p := w.startWithPod(Nap(time.Minute))
		p.finish()
		w.advance(time.Hour)
		require.Equal(w.t, 1, w.fire().Count)
		require.Zero(w.t, w.fire().Count)
		require.Equal(w.t, []string{"sleeping", "woken"}, w.events(run)["nap"])
	}},
	{"timers/order_and_limit", "timers fire earliest first, at most limit in a call", func(w *world) {
		graphs := map[string]time.Duration{}
		for _, length := range []time.Duration{3 * time.Minute, time.Minute, 2 * time.Minute} {
			g := w.with(Nap(length))
			graphs[g.Name] = length
			w.start(g)
			w.pod().finish()
		}
		w.advance(time.Hour)
		for want := time.Minute; want <= 3*time.Minute; want += time.Minute {
			fired := call(w.store.FireTimers(w.ctx, w.leader, 1)).must(w)
			require.Equal(w.t, 1, fired.Count)
			require.Equal(w.t, want == 3*time.Minute, fired.Next.IsZero(), "timers left")
			next := w.pod().claim(10)
			require.Len(w.t, next, 1)
			require.Equal(w.t, want, graphs[next[0].Workflow])
		}
	}},
	{"timers/latest_beside_a_backlog", "half of a call's timers are those that became due last", func(w *world) {
		early, late := w.with(Nap(time.Minute)), w.with(Nap(time.Hour))
		w.trigger(w.drafts(late, tenantB, 1)...)
		w.trigger(w.drafts(early, tenantA, 10)...)
		w.pod().finish()
		w.advance(2 * time.Hour)
		fired := call(w.store.FireTimers(w.ctx, w.leader, 4)).must(w)
		require.Equal(w.t, 4, fired.Count)
		require.InDelta(w.t, time.Hour, fired.Late[3], float64(time.Minute))
		require.InDelta(w.t, 119*time.Minute, fired.Late[0], float64(time.Minute))
		of := map[string]int{}
		for _, g := range w.pod().claim(10) {
			of[g.Tenant]++
		}
		require.Equal(w.t, map[string]int{tenantA: 3, tenantB: 1}, of)
	}},
	{"timers/late", "a timer says how late it fired", func(w *world) {
		w.start(w.with(Nap(time.Minute)))
		w.pod().finish()
		w.advance(3 * time.Minute)
		late := w.fire().Late
		require.Len(w.t, late, 1)
		require.InDelta(w.t, 2*time.Minute, late[0], float64(time.Minute))
	}},
	{"timers/same_run", "several timers of one run fire in one call", func(w *world) {
		run := w.start(w.with(Mixed(0)))
		p := w.pod()
		grants := p.claimAll()
		p.report(retry(grants["bad"], time.Minute), retry(grants["side"], time.Minute), completion(grants["start"]))
		w.requireTasks(run, states{"bad": "backoff", "side": "backoff", "nap": "sleeping"})
		w.advance(time.Hour)
		require.Equal(w.t, 3, w.fire().Count)
		w.requireTasks(run, states{"bad": "queued", "side": "queued", "nap": "completed"})
	}},
	{"timers/unknown_kind", "timers of kinds that only a later version knows are left to it, and delay no others", func(w *world) {
		nap := w.with(Nap(time.Hour))
		runs := []workflow.RunID{w.start(nap), w.start(nap), w.start(nap)}
		w.pod().finish()
		now := w.fire().Now
		var later []snapshot.Timer
		for i, run := range runs {
			later = append(later, snapshot.Timer{
				Run: run, Step: lifecycle.RunStep, Kind: lifecycle.TimerKindMax - lifecycle.TimerKind(i), At: now.Add(time.Duration(i+1) * time.Minute),
			}, snapshot.Timer{Run: run, Step: 1, Kind: lifecycle.DeadlineTimer + 1, At: now.Add(time.Hour + time.Minute), Epoch: 2})
		}
		for _, timer := range later {
			require.NoError(w.t, w.h.SetTimer(w.ctx, timer))
		}
		w.advance(30 * time.Minute)
		fired := call(w.store.FireTimers(w.ctx, w.leader, 2)).must(w)
		require.Zero(w.t, fired.Count)
		require.False(w.t, fired.More)
		require.InDelta(w.t, 30*time.Minute, fired.Next.Sub(fired.Now), float64(time.Minute), "of the naps")
		w.advance(time.Hour)
		fired = call(w.store.FireTimers(w.ctx, w.leader, 2)).must(w)
		require.Equal(w.t, 2, fired.Count, "half of them the latest")
		require.Equal(w.t, 1, w.fire().Count)
		fired = w.fire()
		require.Zero(w.t, fired.Count)
		require.True(w.t, fired.Next.IsZero(), "no look is worth while")
		require.False(w.t, fired.More)
		require.Len(w.t, w.snapshot().Timers, len(later), "none was removed, as their tasks went on")
		w.pod().finish()
		for _, run := range runs {
			w.requireRun(run, lifecycle.Completed)
		}
	}},
	{"timers/deposed", "a leader that was followed by another one writes nothing", func(w *world) {
		run, p := w.startWithPod(Nap(time.Minute))
		p.finish()
		w.advance(time.Hour)
		old := w.leader
		w.leader = w.bumpEpoch()
		require.Greater(w.t, w.leader, old)
		call(w.store.FireTimers(w.ctx, old, 10)).fails(w, persistence.ErrDeposed)
		call(w.store.ExpirePods(w.ctx, old, maxLost, 10, time.Time{})).fails(w, persistence.ErrDeposed)
		call(w.store.ParkTasks(w.ctx, old, 10)).fails(w, persistence.ErrDeposed)
		w.requireTasks(run, states{"nap": "sleeping"})
		p.renew() // it was not declared dead
		require.Equal(w.t, 1, w.fire().Count)
	}},
}

var waitRules = []rule{
	{"sleep_until/instant", "a SleepUntil waits for the instant that its step gave", func(w *world) {
		run, p := w.startWithPod(Until())
		w.until(p, time.Hour)
		w.requireTasks(run, states{"until": "sleeping"})
		w.advance(59 * time.Minute)
		require.Zero(w.t, w.fire().Count)
		w.advance(time.Minute)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"until": "completed", "after": "queued"})
	}},
	{"sleep_until/in_the_past", "an instant that has passed is due at once", func(w *world) {
		run := w.start(w.with(Until()))
		w.until(w.pod(), -time.Hour)
		w.requireTasks(run, states{"until": "sleeping"})
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"until": "completed"})
	}},
	{"sleep_until/no_instant", "a SleepUntil without an instant fails", func(w *world) {
		run, p := w.startWithPod(Until())
		p.complete(p.claimStep("tell"))
		w.requireTasks(run, states{"until": "failed", "after": "canceled"})
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, "until", w.run(run).FailedStep)
	}},
	{"start_timeout/fires", "a task that waits in the queue for too long fails", func(w *world) {
		run := w.start(w.with(Impatient(time.Minute)))
		w.advance(time.Minute)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"a": "failed"})
		w.requireRun(run, lifecycle.Failed)
		require.Equal(w.t, []string{"queued", "timed_out"}, w.events(run)["a"])
		p := w.pod()
		out := p.ask(p.request(10))
		require.Empty(w.t, out.Grants)
		require.Equal(w.t, 1, out.Discarded)
	}},
	{"start_timeout/claimed", "a task that was claimed in time does not", func(w *world) {
		run, p := w.startWithPod(Impatient(time.Minute))
		g := p.claimStep("a")
		w.advance(time.Hour)
		require.Zero(w.t, w.fire().Count)
		w.requireTasks(run, states{"a": "running"})
		p.renew(g)
		p.complete(g)
		require.Empty(w.t, w.snapshot().Timers)
	}},
	{"start_timeout/again", "a task that returns to the queue waits anew", func(w *world) {
		run, p := w.startWithPod(Impatient(10 * time.Minute))
		g := p.claimStep("a")
		w.advance(8 * time.Minute)
		p.renew(g)
		p.report(persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Released})
		w.advance(8 * time.Minute)
		require.Zero(w.t, w.fire().Count)
		w.requireTasks(run, states{"a": "queued"})
		w.advance(2 * time.Minute)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(run, states{"a": "failed"})
	}},
}

// until triggers a run of Until and completes its first step with an instant
// so far from now.
func (w *world) until(p *worker, wait time.Duration) {
	t := completion(p.claimStep("tell"))
	t.Edges = []persistence.EdgeResult{{Child: "until", WakeAt: w.ask().Now.Add(wait)}}
	p.report(t)
}
