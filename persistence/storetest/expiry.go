package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

var expiryRules = []rule{
	{"expiry/takes_tasks", "a pod whose lease ran out is declared dead and its tasks go back, one loss each", func(w *world) {
		run, p := w.startWithPod(Single())
		g := p.claimStep("a")
		w.advance(leaseTTL)
		out := w.expire()
		require.Equal(w.t, []int64{p.id}, out.Pods)
		require.Equal(w.t, 1, out.Tasks)
		require.Zero(w.t, out.Live)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
		w.requireTasks(run, states{"a": "queued"})
		require.Equal(w.t, []string{"queued", "started", "lost"}, w.events(run)["a"])
		again := w.pod().claimStep("a")
		require.Equal(w.t, int32(1), again.Lost)
		require.Equal(w.t, int32(1), again.Attempt)
		require.Equal(w.t, g.Epoch+2, again.Epoch)
		require.Empty(w.t, w.expire().Pods)
	}},
	{"expiry/spares_the_living", "a pod in its lease keeps its tasks", func(w *world) {
		run, p := w.startWithPod(Single())
		g := p.claimStep("a")
		w.advance(leaseTTL / 2)
		out := w.expire()
		require.Empty(w.t, out.Pods)
		require.Equal(w.t, 1, out.Live)
		w.requireTasks(run, states{"a": "running"})
		p.complete(g)
	}},
	{"expiry/clock_leapt", "a lease that ends after the instant that the caller gives has not run out", func(w *world) {
		_, p := w.startWithPod(Single())
		p.claim(1)
		w.advance(time.Hour)
		expire := func(by time.Time) persistence.Expired {
			return call(w.store.ExpirePods(w.ctx, w.leader, maxLost, 10, by)).must(w)
		}
		end := expire(time.Unix(1, 0)).NextExpiry
		spared := expire(end.Add(-time.Microsecond))
		require.Empty(w.t, spared.Pods)
		require.Equal(w.t, 1, spared.Live)
		require.Equal(w.t, end, spared.NextExpiry)
		p.renew()
		w.advance(time.Hour)
		end = expire(time.Unix(1, 0)).NextExpiry
		over := expire(end)
		require.Equal(w.t, []int64{p.id}, over.Pods)
		require.Equal(w.t, 1, over.Tasks)
	}},
	{"expiry/fences", "a dead pod can neither claim, record nor renew", func(w *world) {
		_, p := w.backlog(2, Single())
		grant := p.claimStep("a")
		w.advance(leaseTTL)
		w.expire()
		call(w.store.ClaimTasks(w.ctx, p.request(1))).fails(w, persistence.ErrPodDead)
		call(w.store.RecordTransitions(w.ctx, p.batch(completion(grant)))).fails(w, persistence.ErrPodDead)
		call(w.store.RenewPod(w.ctx, persistence.Renewal{Pod: p.id, TTL: leaseTTL})).fails(w, persistence.ErrPodDead)
		require.Len(w.t, w.pod().claim(10), 2)
	}},
	{"expiry/poison", "a task that was lost too often fails as a poison pill", func(w *world) {
		run := w.start(w.with(Chain(2)))
		for i := range maxLost {
			require.Equal(w.t, int32(i), w.pod().claimStep("s0").Lost)
			w.advance(leaseTTL)
			require.Equal(w.t, 1, w.expire().Tasks)
		}
		w.requireTasks(run, states{"s0": "failed", "s1": "canceled"})
		row := w.run(run)
		require.Equal(w.t, lifecycle.Failed, row.State)
		require.Equal(w.t, "lost", row.Class)
		require.Equal(w.t, int32(maxLost), w.tasks(run)["s0"].Lost)
	}},
	{"expiry/others_die_too", "where other pods die as often, a task is taken for a poison pill late", func(w *world) {
		run := w.start(w.with(Single()))
		for range 2 * maxLost {
			w.requireTasks(run, states{"a": "queued"})
			w.pod().claimStep("a")
			w.pod()
			w.advance(leaseTTL)
			require.Len(w.t, w.expire().Pods, 2)
		}
		w.requireTasks(run, states{"a": "failed"})
		require.Equal(w.t, int32(2*maxLost), w.tasks(run)["a"].Lost)
	}},
	{"expiry/clients_die", "deaths of pods without slots excuse no task", func(w *world) {
		run := w.start(w.with(Single()))
		for i := range maxLost {
			require.Equal(w.t, int32(i), w.pod().claimStep("a").Lost)
			w.client()
			w.advance(leaseTTL)
			require.Len(w.t, w.expire().Pods, 2)
		}
		w.requireTasks(run, states{"a": "failed"})
	}},
	{"expiry/others_died_long_ago", "deaths of long ago excuse no task", func(w *world) {
		run := w.start(w.with(Single()))
		for range maxLost {
			w.pod()
		}
		w.advance(leaseTTL)
		require.Len(w.t, w.expire().Pods, maxLost)
		w.advance(persistence.DeathsKept - maxLost*leaseTTL)
		for i := range maxLost {
			require.Equal(w.t, int32(i), w.pod().claimStep("a").Lost)
			w.advance(leaseTTL)
			w.expire()
		}
		w.requireTasks(run, states{"a": "failed"})
	}},
	{"expiry/limit", "a pod with tasks left stays dead and in the next answer", func(w *world) {
		_, p := w.backlog(5, Single())
		p.claim(5)
		w.advance(leaseTTL)
		for i, want := range []int{2, 2, 1} {
			out := call(w.store.ExpirePods(w.ctx, w.leader, maxLost, 2, time.Time{})).must(w)
			require.Equal(w.t, []int64{p.id}, out.Pods, "call %d", i)
			require.Equal(w.t, want, out.Tasks, "call %d", i)
			w.checkInvariants()
			if i > 0 {
				continue
			}
			call(w.store.RenewPod(w.ctx, persistence.Renewal{Pod: p.id, TTL: leaseTTL})).fails(w, persistence.ErrPodDead)
			require.Equal(w.t, 2, w.park().Parked, "it registers nothing any more")
		}
		require.Empty(w.t, w.expire().Pods)
		require.Len(w.t, w.snapshot().Queue, 5)
	}},
	{"expiry/unclaimed_reply", "a task whose grant never reached its pod is handed back by the pulse", func(w *world) {
		run, p := w.startWithPod(Single())
		p.claim(1) // the reply is lost
		out := p.renew()
		require.Len(w.t, out.Unheld, 1)
		p.report(persistence.Transition{Task: out.Unheld[0].Task, Epoch: out.Unheld[0].Epoch, Report: lifecycle.Lost})
		require.Empty(w.t, p.renew().Unheld)
		require.Equal(w.t, int32(1), w.tasks(run)["a"].Lost)
		p.finish()
		w.requireRun(run, lifecycle.Completed)
	}},
	{"expiry/next", "the housekeeper is told when to come back", func(w *world) {
		require.True(w.t, w.expire().NextExpiry.IsZero())
		w.pod()
		w.advance(leaseTTL / 2)
		w.pod()
		out := w.expire()
		require.Equal(w.t, 2, out.Live)
		require.InDelta(w.t, leaseTTL/2, out.NextExpiry.Sub(out.Now), float64(leaseTTL/4))
		w.advance(leaseTTL / 2)
		out = w.expire()
		require.Len(w.t, out.Pods, 1)
		require.Equal(w.t, 1, out.Live)
	}},
	{"expiry/many_tasks_of_a_run", "tasks of one run that were on a dead pod all go back", func(w *world) {
		run, p := w.startWithPod(Fan(4))
		p.complete(p.claimStep("root"))
		require.Len(w.t, p.claim(10), 4)
		w.advance(leaseTTL)
		require.Equal(w.t, 4, w.expire().Tasks)
		w.requireTasks(run, states{"l0": "queued", "l1": "queued", "l2": "queued", "l3": "queued", "join": "pending"})
		for range 4 {
			q := w.pod()
			q.complete(q.claim(10)...)
		}
		w.pod().finish()
		w.requireRun(run, lifecycle.Completed)
	}},
}
