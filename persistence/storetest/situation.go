package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var situationRules = []rule{
	{"situation/tenant", "a situation is its tenant's, and of a run that exists", func(w *world) {
		run := w.start(w.with(Single()))
		for _, tenant := range []string{tenantB, "nul\x00"} {
			call(w.store.Situation(w.ctx, tenant, run)).fails(w, persistence.ErrRunNotFound)
		}
		call(w.store.Situation(w.ctx, tenantA, run)).must(w)
		call(w.store.Situation(w.ctx, "", w.runID())).fails(w, persistence.ErrRunNotFound)
	}},
	{"situation/ended", "of a run that has ended only the state is told, and when that was", func(w *world) {
		run := w.start(w.with(Diamond()))
		w.pod().finish()
		s := w.situation(run)
		require.Equal(w.t, explain.Situation{Now: s.Now, Run: run, State: lifecycle.Completed, End: explain.End{At: w.run(run).FinishedAt}}, s)
		w.because(run, "", explain.CauseEnded)
	}},
	{"situation/failed", "of a run that has failed its failed steps are told, the first unhandled failure first, also from history", func(w *world) {
		run, p := w.startWithPod(Mixed(workflow.FinishSiblings))
		p.report(retry(p.claimStep("bad"), 0))
		w.advance(time.Second)
		w.fire()
		held := p.claimAll()
		for _, step := range []string{"side", "bad", "start"} {
			p.fail(held[step])
			w.advance(time.Second)
		}
		p.finish()
		want := []explain.Failed{
			{Name: "side", Attempts: 1, Class: "test", Error: "side broke"},
			{Name: "bad", Attempts: 2, Class: "test", Error: "bad broke"},
			{Name: "start", Attempts: 1, Class: "test", Error: "start broke"},
		}
		for i := range want {
			want[i].At = w.tasks(run)[want[i].Name].FinishedAt
		}
		require.True(w.t, want[1].At.After(want[0].At))
		for range 2 {
			s := w.situation(run)
			require.Equal(w.t, lifecycle.Failed, s.State)
			require.Equal(w.t, explain.End{At: w.run(run).FinishedAt, Failed: want}, s.End)
			require.Equal(w.t, 2, w.because(run, "bad", explain.CauseFailed).Attempts)
			w.archive(0)
		}
	}},
	{"situation/canceled", "of a run that was canceled it is told by what and why, also from history", func(w *world) {
		run := w.start(w.with(Chain(2)))
		w.cancel(run)
		for range 2 {
			s := w.situation(run)
			require.Equal(w.t, explain.End{At: w.run(run).FinishedAt, CanceledBy: "api", CancelReason: "no longer needed"}, s.End)
			require.Equal(w.t, "api", w.because(run, "", explain.CauseCanceled).By)
			w.archive(0)
		}
	}},
	{"situation/intake", "a run that waits in the intake is told so", func(w *world) {
		d := w.draft(w.with(Single()))
		w.submit(d)
		w.because(d.Run, "", explain.CauseNoPod)
		w.pod()
		w.because(d.Run, "", explain.CauseIntake)
		w.drain(10)
		w.because(d.Run, "a", explain.CauseReady)
	}},
	{"situation/signal", "a step that waits says whether its signal was sent, and is not delivered", func(w *world) {
		run, _ := w.startWithPod(Approval())
		w.because(run, "remind", explain.CauseSignal)
		w.sends(persistence.SignalStored, signalFor(run, "approved", "a"))
		w.because(run, "remind", explain.CauseSignal)
		w.sends(persistence.SignalStored, signalFor(run, "reminded", "b"))
		w.because(run, "remind", explain.CauseIntake)
		require.Equal(w.t, 2, w.drain(10).Delivered)
		w.requireTasks(run, states{"remind": "completed"})
	}},
	{"situation/child", "a step that waits for a child run says how that stands, and a child run whose it is", func(w *world) {
		run, id, p := w.parent(Parent(), Single())
		task := func() explain.Task { return w.situation(run).Tasks[0] }
		child := func(state lifecycle.State, since time.Time) explain.ChildRun {
			return explain.ChildRun{Run: id, Workflow: "single", State: state, Since: since}
		}
		flat := func(c explain.ChildRun) explain.ChildRun { c.Since = c.Since.UTC(); return c }
		require.Equal(w.t, flat(child(lifecycle.Pending, w.run(id).CreatedAt)), flat(task().Child))
		require.False(w.t, task().Since.IsZero())
		require.Contains(w.t, w.because(run, "child", explain.CauseChild).Text, "waits for run "+id.String()+" of workflow single, which has not begun for ")
		require.Contains(w.t, w.because(id, "", explain.CauseIntake).Text, "it was begun by a step of run "+run.String())
		w.drain(10)
		require.Equal(w.t, flat(child(lifecycle.Running, w.run(id).StartedAt)), flat(task().Child))
		require.Equal(w.t, id.String(), w.because(run, "child", explain.CauseChild).Run)
		require.Contains(w.t, w.because(run, "after", explain.CauseParents).Text, "waits for child, which waits for run "+id.String())
		require.Equal(w.t, []workflow.RunID{run, {}}, []workflow.RunID{w.situation(id).Parent, w.situation(run).Parent})
		p.finish()
		require.Equal(w.t, child(lifecycle.Completed, time.Time{}), task().Child)
		w.because(run, "child", explain.CauseIntake)
		w.archive(0)
		require.Equal(w.t, child(0, time.Time{}), task().Child)
		w.because(run, "child", explain.CauseIntake)
		require.Equal(w.t, run, w.situation(id).Parent)

		other, begun, _ := w.parent(Parent(), Single())
		w.cancel(other)
		w.drain(10)
		require.Equal(w.t, other.String(), w.because(begun, "", explain.CauseCanceled).Run)
		require.Empty(w.t, w.because(other, "", explain.CauseCanceled).Run)
	}},
	{"situation/scheduled", "a run that starts later is told with its instant", func(w *world) {
		d := w.draft(w.with(Single()))
		now := call(w.store.Situation(w.ctx, "", w.start(w.with(Chain(2))))).must(w)
		d.At = now.Now.Add(time.Hour)
		w.trigger(d)
		require.WithinDuration(w.t, d.At, w.because(d.Run, "", explain.CauseScheduled).Until, time.Millisecond)
		w.advance(2 * time.Hour)
		w.because(d.Run, "", explain.CauseNoPod)
		w.pod()
		w.because(d.Run, "", explain.CauseLate)
	}},
	{"situation/line", "a ready task is told with its place in the queue and in its tenant's line", func(w *world) {
		g := w.with(Single())
		mine := w.drafts(g, tenantA, 7)
		w.trigger(w.drafts(g, tenantB, 3)...)
		w.trigger(mine...)
		p := w.pod()
		require.Len(w.t, p.claim(10), 10)
		w.trigger(w.drafts(g, tenantB, 2)...)
		more := w.drafts(g, tenantA, 3)
		w.trigger(more...)
		s := w.situation(more[2].Run)
		require.Equal(w.t, []explain.Queue{{Name: defaultQueue, Length: 5}}, s.Queues)
		task := s.Tasks[0]
		require.True(w.t, task.Ready)
		require.Equal(w.t, 3, task.Nth)
		require.Equal(w.t, 5, task.Place)
		require.Len(w.t, s.Pods, 1)
		require.Equal(w.t, 10, s.Pods[0].Held)
		require.Equal(w.t, persistence.Protocol, s.Pods[0].Protocol)
		r := w.because(more[2].Run, "a", explain.CauseInLine)
		require.Equal(w.t, "3rd in tenant line, 4 ahead; all 10 slots busy", r.Text)
	}},
	{"situation/no_pod", "ready work and no pod is told so", func(w *world) {
		run := w.start(w.with(Single()))
		w.because(run, "a", explain.CauseNoPod)
	}},
	{"situation/unregistered", "a task that no living pod registers is told with when one did last", func(w *world) {
		single := w.with(Single(), Diamond())
		run := w.start(single)
		w.pod(w.graph("diamond"))
		require.NotContains(w.t, w.because(run, "a", explain.CauseUnregistered).Text, "last seen")
		p := w.podFor(time.Minute, single)
		p.complete(p.claim(1)...)
		run = w.start(single)
		w.because(run, "a", explain.CauseReady)
		w.advance(2 * time.Minute)
		w.expire()
		w.pod(w.graph("diamond"))
		require.Contains(w.t, w.because(run, "a", explain.CauseUnregistered).Text, "last seen")
		s := w.situation(run)
		require.Len(w.t, s.Handlers, 1)
		require.False(w.t, s.Handlers[0].LastSeen.After(s.Now))
	}},
	{"situation/parked", "a task that was parked is told so, also once a pod registers it", func(w *world) {
		single := w.with(Single(), Diamond())
		run := w.start(single)
		w.pod(w.graph("diamond"))
		require.Equal(w.t, 1, w.park().Parked)
		s := w.situation(run)
		require.True(w.t, s.Tasks[0].Parked)
		require.False(w.t, s.Tasks[0].Ready)
		w.because(run, "a", explain.CauseUnregistered)
		w.pod(single)
		w.because(run, "a", explain.CauseReturning)
		require.Equal(w.t, 1, w.park().Unparked)
		w.because(run, "a", explain.CauseReady)
	}},
	{"situation/queue", "a task in a queue that no pod serves is told so", func(w *world) {
		run, p := w.startWithPod(Elsewhere())
		p.complete(p.claimStep("here"))
		require.Contains(w.t, w.because(run, "there", explain.CauseUnserved).Text, `"gpu"`)
	}},
	{"situation/running", "a running task is told with its pod, also when that is dead", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		p.claim(1)
		s := w.situation(run)
		require.Len(w.t, s.Tasks, 2)
		require.Equal(w.t, p.id, s.Tasks[0].Pod)
		require.False(w.t, s.Tasks[0].StartedAt.IsZero())
		require.Equal(w.t, p.id, s.Pods[0].ID)
		w.because(run, "s0", explain.CauseRunning)
		require.Equal(w.t, []string{"s0"}, w.because(run, "s1", explain.CauseParents).On)
		w.advance(2 * leaseTTL)
		w.because(run, "s0", explain.CausePodLost)
	}},
	{"situation/suspect", "a task that was lost twice is told so, and that pods run one", func(w *world) {
		g := w.with(Single())
		first, second := w.start(g), w.start(g)
		p := w.pod()
		for range 2 {
			grants := p.claim(2)
			p.report(lost(grants[0]), lost(grants[1]))
		}
		w.because(first, "a", explain.CauseReady)
		require.Len(w.t, p.claim(2), 1)
		require.NotEmpty(w.t, w.because(second, "a", explain.CauseSuspect).Remedy)
		s := w.situation(second)
		require.True(w.t, s.Tasks[0].Suspect)
		require.Equal(w.t, 1, s.Pods[0].Suspects)
	}},
	{"situation/timers", "sleeps and backoffs are told with their instants, and what waits for them by them", func(w *world) {
		run, p := w.startWithPod(Nap(time.Hour), Single())
		p.complete(p.claimStep("before"))
		r := w.because(run, "nap", explain.CauseSleeping)
		require.False(w.t, r.Until.IsZero())
		after := w.because(run, "after", explain.CauseParents)
		require.Equal(w.t, r.Until, after.Until)
		require.Contains(w.t, after.Text, "waits for nap, which sleeps, fires in 59 m")
		again := w.start(w.graph("single"))
		p.report(retry(p.claimStep("a"), time.Minute))
		r = w.because(again, "a", explain.CauseBackoff)
		require.Contains(w.t, r.Text, "tried once, again in 59 s")
		require.Contains(w.t, r.Text, "a broke")
		w.advance(time.Hour)
		p.renew()
		w.because(again, "a", explain.CauseLate)
	}},
	{"situation/limit", "the running tasks of the tenant are counted", func(w *world) {
		g := w.with(Single())
		w.trigger(w.drafts(g, tenantA, 3)...)
		w.trigger(w.drafts(g, tenantB, 1)...)
		run := w.start(g)
		p := w.pod()
		p.claim(4)
		s := w.situation(run)
		require.Equal(w.t, 3, s.TenantBusy)
		s.TenantLimit = 3
		require.Equal(w.t, explain.CauseTenantLimit, w.reason(s, "a").Cause)
	}},
	{"situation/canceling", "what still runs in a canceled run is told with when it is fenced", func(w *world) {
		run := w.start(w.with(Chain(2)))
		w.pod().claim(1)
		w.cancel(run)
		s := w.situation(run)
		require.True(w.t, s.Canceling)
		require.Equal(w.t, "no longer needed", s.CancelReason)
		require.WithinDuration(w.t, s.Now.Add(cancelGrace), w.because(run, "s0", explain.CauseStopping).Until, time.Second)
	}},
}

var backlogRules = []rule{
	{"backlog/empty", "where nothing waits the queues are there, and nothing else", func(w *world) {
		w.with(Single())
		b := w.waiting()
		require.Equal(w.t, []persistence.QueueBacklog{{Queue: defaultQueue}, {Queue: "other"}}, b.Queues)
		require.Empty(w.t, b.Parked)
		require.Empty(w.t, b.Dead)
		require.Zero(w.t, b.Intake)
	}},
	{"backlog/ready", "the ready tasks of a queue are counted, with the instant of the oldest", func(w *world) {
		g := w.with(Single())
		first, list := w.draft(g), append(w.drafts(g, tenantB, 3), w.drafts(g, tenantA, 4)...)
		w.trigger(first)
		w.trigger(list...)
		other := w.draft(g)
		other.Queue = "other"
		w.trigger(other)
		b := w.waiting()
		require.Equal(w.t, 8, b.Queues[0].Ready)
		require.Equal(w.t, w.run(first.Run).StartedAt.UTC(), b.Queues[0].Oldest.UTC())
		require.Equal(w.t, 1, b.Queues[1].Ready)
		p := w.pod()
		require.Len(w.t, p.claim(7), 7)
		b = w.waiting()
		require.Equal(w.t, 1, b.Queues[0].Ready)
		require.Equal(w.t, w.run(list[len(list)-1].Run).StartedAt.UTC(), b.Queues[0].Oldest.UTC(), "the last of the tenant with most of them")
		p.finish()
		require.Equal(w.t, persistence.QueueBacklog{Queue: defaultQueue}, w.waiting().Queues[0])
	}},
	{"backlog/parked", "parked tasks are counted by step, and are not ready", func(w *world) {
		single, chain := Single(), Chain(2)
		w.with(single, chain)
		w.trigger(w.drafts(single, tenantA, 2)...)
		w.trigger(w.drafts(chain, tenantA, 3)...)
		require.Equal(w.t, 5, w.park().Parked)
		b := w.waiting()
		require.Equal(w.t, []persistence.ParkedBacklog{{Workflow: chain.Name, Step: chain.Nodes[0].Name, Count: 3}, {Workflow: "single", Step: "a", Count: 2}}, b.Parked)
		require.Equal(w.t, persistence.QueueBacklog{Queue: defaultQueue}, b.Queues[0])
		w.pod(single)
		require.Equal(w.t, 2, w.park().Unparked)
		require.Len(w.t, w.waiting().Parked, 1)
	}},
	{"backlog/dead", "dead letters are counted by reason until they are requeued", func(w *world) {
		_, p := w.backlog(3, Single())
		grants := p.claim(3)
		exhausted := failure(grants[0])
		exhausted.Exhausted = true
		p.report(exhausted, failure(grants[1]), failure(grants[2]))
		require.Equal(w.t, []persistence.DeadBacklog{
			{Reason: lifecycle.AttemptsExhausted, Count: 1}, {Reason: lifecycle.NonRetryable, Count: 2},
		}, w.waiting().Dead)
		w.requeue(persistence.RequeueOrder{Letter: grants[1].Task})
		require.Equal(w.t, []persistence.DeadBacklog{
			{Reason: lifecycle.AttemptsExhausted, Count: 1}, {Reason: lifecycle.NonRetryable, Count: 1},
		}, w.waiting().Dead)
	}},
	{"backlog/intake", "the oldest trigger is told that a transaction left and no pod took", func(w *world) {
		g := w.with(Single())
		first, second := w.draft(g), w.draft(g)
		w.submit(first)
		w.submit(second)
		require.Equal(w.t, w.run(first.Run).CreatedAt.UTC(), w.waiting().Intake.UTC())
		require.Equal(w.t, 2, w.drain(10).Count)
		require.Zero(w.t, w.waiting().Intake)
	}},
}

func (w *world) waiting() persistence.Backlog {
	w.t.Helper()
	return call(w.store.Backlog(w.ctx)).must(w)
}

// situation reads the situation of a run.
func (w *world) situation(run workflow.RunID) explain.Situation {
	w.t.Helper()
	s := call(w.store.Situation(w.ctx, "", run)).must(w)
	require.Equal(w.t, run, s.Run)
	require.False(w.t, s.Now.IsZero())
	return s
}

// reason explains a step of a run; "": the run.
func (w *world) reason(s explain.Situation, step string) explain.Reason {
	w.t.Helper()
	for _, r := range explain.Explain(s) {
		if r.Step == step {
			return r
		}
	}
	require.Fail(w.t, "nothing is told about "+step)
	return explain.Reason{}
}

// because explains a step and requires the cause.
func (w *world) because(run workflow.RunID, step string, cause explain.Cause) explain.Reason {
	w.t.Helper()
	r := w.reason(w.situation(run), step)
	require.Equal(w.t, cause, r.Cause, r.String())
	return r
}
