package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Approval is ask → approve (a wait for the signal "approved") → ship, which a condition on the
// signal may skip, and beside it remind (a wait for "reminded" of an hour at most, or skipped),
// which note comes after whether it was or not.
func Approval() *workflow.Graph {
	return approval("approval", workflow.FinishSiblings, true, time.Hour)
}

// ApprovalStrict is Approval whose remind fails after an hour.
func ApprovalStrict() *workflow.Graph { return approval("strict", workflow.FailFast, false, time.Hour) }

func approval(name string, policy workflow.FailurePolicy, skips bool, longest time.Duration) *workflow.Graph {
	return Graph(workflow.Definition{Name: name, Policy: policy, Output: 2, Steps: []workflow.Step{
		{Name: "ask"},
		{Name: "approve", Kind: workflow.Wait, Signal: "approved", After: plain(0)},
		{Name: "ship", Parents: plain(1), Conditions: []workflow.Condition{{Kind: workflow.SkipIf, Ref: 1}}},
		{Name: "remind", Kind: workflow.Wait, Signal: "reminded", Sleep: longest, SkipLate: skips},
		{Name: "note", Parents: maybe(3), RunIfAllSkipped: true},
	}})
}

// Gates is three waits for the signal "go" at once, and one after them all.
func Gates() *workflow.Graph {
	wait := func(name string, after ...int) workflow.Step {
		return workflow.Step{Name: name, Kind: workflow.Wait, Signal: "go", After: plain(after...)}
	}
	return Graph(workflow.Definition{Name: "gates", Output: 3, Steps: []workflow.Step{
		wait("first"), wait("second"), wait("third"), wait("last", 0, 1, 2),
	}})
}

// gated is first → gate (a wait for the signal "go") → last.
func gated() *workflow.Graph {
	return Graph(workflow.Definition{Name: "gated", Output: 2, Steps: []workflow.Step{
		{Name: "first"},
		{Name: "gate", Kind: workflow.Wait, Signal: "go", After: plain(0)},
		{Name: "last", Parents: plain(1)},
	}})
}

// signalFor is a signal for a run, with its id as payload.
func signalFor(run workflow.RunID, name, id string) persistence.Signal {
	return persistence.Signal{Run: run, Tenant: tenantA, Name: name, ID: id, Payload: []byte(`"` + id + `"`)}
}

// sends stores one signal and requires what becomes of it.
func (w *world) sends(want persistence.SignalResult, signal persistence.Signal) persistence.SignalAnswer {
	w.t.Helper()
	out := call(w.store.SendSignals(w.ctx, []persistence.Signal{signal})).must(w)
	require.False(w.t, out.Now.IsZero())
	require.Len(w.t, out.Answers, 1)
	require.Equal(w.t, want, out.Answers[0].Result)
	require.Equal(w.t, want == persistence.SignalStored, out.Wake.Submitted)
	return out.Answers[0]
}

// delivers sends a signal, and delivers it.
func (w *world) delivers(run workflow.RunID, name, id string) persistence.Drained {
	w.t.Helper()
	require.Equal(w.t, run, w.sends(persistence.SignalStored, signalFor(run, name, id)).Run)
	out := w.drain(10)
	require.Equal(w.t, 1, out.Delivered)
	require.Zero(w.t, out.Dropped)
	return out
}

var signalRules = []rule{
	{"signals/taken", "a step that waits takes its signal, and its output is the payload", func(w *world) {
		run, p := w.startWithPod(Approval())
		w.requireTasks(run, states{"approve": "pending", "remind": "waiting"})
		p.complete(p.claimStep("ask"))
		require.Empty(w.t, p.claim(10), "it has no place in a queue")
		w.requireTasks(run, states{"approve": "waiting"})
		require.True(w.t, w.tasks(run)["approve"].WakeAt.IsZero())
		out := w.delivers(run, "approved", "yes")
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
		g := p.claimStep("approve")
		require.True(w.t, g.Kept)
		require.Equal(w.t, `"yes"`, string(g.LastProgress))
		require.EqualValues(w.t, 1, g.Attempt)
		p.complete(g)
		ship := p.claimStep("ship")
		require.Equal(w.t, `"yes"`, string(ship.Parents[0].Output))
		p.complete(ship)
		require.Equal(w.t, []string{"waiting", "queued", "started", "completed"}, w.events(run)["approve"])
		require.Equal(w.t, []string{"run_created", "run_started", "signaled"}, w.events(run)[""])
		w.delivers(run, "reminded", "now")
		p.finish()
		w.requireRun(run, lifecycle.Completed)
		w.archive(0)
		require.Equal(w.t, `"yes"`, string(w.tasks(run)["approve"].Output))
		require.Equal(w.t, []string{"waiting", "queued", "started", "completed"}, w.events(run)["approve"])
	}},
	{"signals/early", "a signal that comes before its step waits for it", func(w *world) {
		run, p := w.startWithPod(Approval())
		w.delivers(run, "approved", "early")
		w.requireTasks(run, states{"approve": "pending"})
		p.complete(p.claimStep("ask"))
		g := p.claimStep("approve")
		require.Equal(w.t, `"early"`, string(g.LastProgress))
		p.complete(g)
		require.Equal(w.t, []string{"queued", "started", "completed"}, w.events(run)["approve"])
	}},
	{"signals/order", "signals of a name are taken in the order in which they were sent, by steps in theirs", func(w *world) {
		run := w.start(w.with(Gates()))
		for i := range 3 {
			w.sends(persistence.SignalStored, signalFor(run, "go", fmt.Sprint(3-i)))
		}
		out := w.drain(10)
		require.Equal(w.t, 3, out.Delivered)
		w.delivers(run, "go", "0")
		for step, id := range map[string]string{"first": `"3"`, "second": `"2"`, "third": `"1"`, "last": `"0"`} {
			require.Equal(w.t, id, string(w.tasks(run)[step].Output))
		}
		w.requireRun(run, lifecycle.Completed)
	}},
	{"signals/unattended", "a step that nothing looks at completes with its signal, without a pod", func(w *world) {
		run := w.start(w.with(Gates()))
		w.delivers(run, "go", "a")
		require.Equal(w.t, []string{"waiting", "completed"}, w.events(run)["first"])
		row := w.tasks(run)["first"]
		require.Equal(w.t, `"a"`, string(row.Output))
		require.Zero(w.t, row.Attempt)
		require.False(w.t, row.FinishedAt.IsZero())
		w.requireTasks(run, states{"second": "waiting", "last": "pending"})
		for _, id := range []string{"b", "c", "d"} {
			w.delivers(run, "go", id)
		}
		require.Equal(w.t, `"d"`, string(w.run(run).Output))
		w.archive(0)
		require.Equal(w.t, []string{"waiting", "completed"}, w.events(run)["last"])
		require.Equal(w.t, `"d"`, string(w.run(run).Output))
		require.Zero(w.t, w.tasks(run)["last"].Attempt)
	}},
	{"signals/late", "what comes with the signal that ends its run, behind it, is dropped", func(w *world) {
		run := w.start(w.with(Gates()))
		send := func(id string) persistence.Signal { return signalFor(run, "go", id) }
		call(w.store.SendSignals(w.ctx, []persistence.Signal{send("0"), send("1"), send("2"), send("3"), send("4"), send("5")})).must(w)
		out := w.drain(10)
		require.Equal(w.t, []int{4, 2, 4}, []int{out.Delivered, out.Dropped, len(w.snapshot().Inbox)})
	}},
	{"signals/id", "a run takes one signal of each id, also after it has ended", func(w *world) {
		g, p := w.withPod(Approval())
		run, other := w.start(g), w.start(g)
		w.sends(persistence.SignalStored, signalFor(run, "approved", "same"))
		w.sends(persistence.SignalRepeated, signalFor(run, "approved", "same"))
		w.sends(persistence.SignalRepeated, signalFor(run, "reminded", "same"))
		w.sends(persistence.SignalStored, signalFor(other, "approved", "same"))
		w.drain(10)
		w.sends(persistence.SignalRepeated, signalFor(run, "approved", "same"))
		w.advance(2 * time.Hour)
		w.fire()
		p.renew()
		p = w.pod()
		p.finish()
		w.requireRun(run, lifecycle.Completed)
		for range 2 {
			w.sends(persistence.SignalRepeated, signalFor(run, "approved", "same"))
			w.sends(persistence.SignalRunEnded, signalFor(run, "approved", "new"))
			w.archive(0)
		}
	}},
	{"signals/refused", "a signal that nothing can take is refused, and says why", func(w *world) {
		run := w.start(w.with(Approval()))
		w.sends(persistence.SignalNoRun, signalFor(w.runID(), "approved", "a"))
		foreign := signalFor(run, "approved", "a")
		foreign.Tenant = tenantB
		w.sends(persistence.SignalNoRun, foreign)
		unknown := w.sends(persistence.SignalUnknown, signalFor(run, "aproved", "a"))
		require.Equal(w.t, []string{"approved", "reminded"}, unknown.Names)
		for _, id := range []string{"", string(make([]byte, persistence.SignalIDMax+1)), "a\x00b", "\xff"} {
			require.ErrorIs(w.t, w.sends(persistence.SignalBadRow, signalFor(run, "approved", id)).Err, persistence.ErrBadRow)
		}
		out := w.drain(10)
		require.Zero(w.t, out.Delivered+out.Dropped)
		w.cancel(run)
		w.sends(persistence.SignalRunEnded, signalFor(run, "approved", "a"))
	}},
	{"signals/bound", "an inbox is bounded: beyond that the sender is refused", func(w *world) {
		run := w.start(w.with(Approval()))
		batch := make([]persistence.Signal, persistence.SignalBatchMax)
		for sent := 0; sent < persistence.InboxMax; sent += len(batch) {
			for i := range batch {
				batch[i] = signalFor(run, "approved", fmt.Sprint(sent+i))
			}
			out := call(w.store.SendSignals(w.ctx, batch)).must(w)
			for _, answer := range out.Answers {
				require.Equal(w.t, persistence.SignalStored, answer.Result)
			}
		}
		w.sends(persistence.SignalInboxFull, signalFor(run, "approved", "more"))
		w.sends(persistence.SignalRepeated, signalFor(run, "approved", "0"))
		delivered := 0
		for out := w.drain(100); out.Delivered > 0 || out.More; out = w.drain(100) {
			delivered += out.Delivered
		}
		require.Equal(w.t, persistence.InboxMax, delivered)
		w.sends(persistence.SignalInboxFull, signalFor(run, "approved", "more"))
	}},
	{"signals/key", "a key names the run that has it, and the one that continues it", func(w *world) {
		d := w.draft(w.with(Approval()))
		d.Key = "order-1"
		w.trigger(d)
		byKey := signalFor(workflow.RunID{}, "approved", "a")
		byKey.Key = persistence.RunKey{Tenant: tenantA, Workflow: d.Workflow, Key: "order-2"}
		w.sends(persistence.SignalNoRun, byKey)
		byKey.Key.Key = d.Key
		require.Equal(w.t, d.Run, w.sends(persistence.SignalStored, byKey).Run)
		w.drain(10)
		w.advance(2 * time.Hour)
		w.fire()
		p := w.pod()
		p.finishBut("ship")
		p.finish()
		w.requireRun(d.Run, lifecycle.Failed)
		byKey.ID = "b"
		w.sends(persistence.SignalRunEnded, byKey)
		answer := w.goOn("ship", persistence.RequeueOrder{})
		require.Equal(w.t, answer.Run, w.sends(persistence.SignalStored, byKey).Run)
	}},
	{"signals/requeue", "a run that continues another has its inbox, but for what steps have taken that it keeps", func(w *world) {
		run, p := w.startWithPod(Approval())
		w.delivers(run, "approved", "yes")
		w.delivers(run, "approved", "again")
		w.delivers(run, "reminded", "now")
		p.finishBut("ship")
		p.finish()
		w.requireRun(run, lifecycle.Failed)
		w.archive(0)
		answer := w.goOn("ship", persistence.RequeueOrder{})
		for _, id := range []string{"yes", "again", "now"} {
			w.sends(persistence.SignalRepeated, signalFor(answer.Run, "approved", id))
		}
		grants := p.claimAll()
		require.True(w.t, grants["remind"].Kept)
		p.complete(grants["ask"], grants["remind"])
		grants = p.claimAll()
		require.Equal(w.t, `"yes"`, string(grants["approve"].LastProgress))
		p.complete(grants["approve"], grants["note"])
		p.finish()
		w.requireRun(answer.Run, lifecycle.Completed)

		fresh := w.goOn("ship", persistence.RequeueOrder{Fresh: true, Again: true})
		p.complete(p.claimStep("ask"))
		w.requireTasks(fresh.Run, states{"approve": "waiting", "remind": "waiting"})
	}},
	{"signals/undecodable", "a signal whose step failed is there again for the run that continues", func(w *world) {
		run, p := w.startWithPod(Approval())
		w.delivers(run, "approved", "odd")
		p.complete(p.claimStep("ask"))
		p.fail(p.claimStep("approve"))
		w.cancel(run)
		w.requireRun(run, lifecycle.Failed)
		answer := w.goOn("approve", persistence.RequeueOrder{})
		p.complete(p.claimStep("ask"))
		g := p.claimStep("approve")
		require.Equal(w.t, answer.Run, g.Task.Run)
		require.Equal(w.t, `"odd"`, string(g.LastProgress))
	}},
	{"signals/lost", "a step whose pod is lost does not lose its signal", func(w *world) {
		run, p := w.startWithPod(Approval())
		w.delivers(run, "approved", "yes")
		p.complete(p.claimStep("ask"))
		p.claimStep("approve")
		w.advance(2 * leaseTTL)
		q := w.pod()
		w.expire()
		g := q.claimStep("approve")
		require.EqualValues(w.t, 1, g.Lost)
		require.True(w.t, g.Kept)
		require.Equal(w.t, `"yes"`, string(g.LastProgress))
		q.complete(g)
	}},
	{"signals/tx", "a signal of a transaction exists if that commits, also for a run of the same transaction", func(w *world) {
		g := w.with(Approval())
		run := w.start(g)
		tx := w.begin()
		in := func(signal persistence.Signal) persistence.SignalAnswer {
			w.t.Helper()
			return call(w.store.SendSignalInTx(w.ctx, tx.Value, signal)).must(w)
		}
		require.Equal(w.t, persistence.SignalAnswer{Result: persistence.SignalStored, Run: run}, in(signalFor(run, "approved", "a")))
		require.Equal(w.t, persistence.SignalRepeated, in(signalFor(run, "approved", "a")).Result)
		require.Zero(w.t, w.drain(10).Delivered)
		require.NoError(w.t, tx.Rollback(w.ctx))
		require.Zero(w.t, w.drain(10).Delivered)

		tx = w.begin()
		d := w.draft(g)
		d.Key = "key"
		require.Equal(w.t, persistence.Triggered, w.triggerIn(tx, d).Result)
		byKey := signalFor(workflow.RunID{}, "approved", "b")
		byKey.Key = persistence.RunKey{Tenant: tenantA, Workflow: g.Name, Key: "key"}
		require.Equal(w.t, persistence.SignalAnswer{Result: persistence.SignalStored, Run: d.Run}, in(byKey))
		require.Equal(w.t, persistence.SignalUnknown, in(signalFor(d.Run, "no", "c")).Result)
		require.Equal(w.t, persistence.SignalStored, in(signalFor(run, "approved", "a")).Result, "the first did not exist")
		require.NoError(w.t, tx.Commit(w.ctx))
		out := w.drain(10)
		require.Equal(w.t, 1, out.Count)
		require.Equal(w.t, 2, out.Delivered)
		p := w.pod()
		p.finish()
		w.requireTasks(run, states{"approve": "completed"})
		w.requireTasks(d.Run, states{"approve": "completed"})
	}},
	{"signals/begins", "a run that has not begun keeps its signals", func(w *world) {
		d := w.draft(w.with(Approval()))
		d.At = w.ask().Now.Add(time.Hour)
		w.trigger(d)
		w.delivers(d.Run, "reminded", "early")
		w.requireRun(d.Run, lifecycle.Pending)
		w.advance(time.Hour)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(d.Run, states{"remind": "completed", "ask": "queued"})
	}},
	{"signals/with_trigger", "a trigger brings a signal for its run, or for the one that has its key", func(w *world) {
		d := w.draft(w.with(Approval()))
		d.Key, d.Signal = "key", &persistence.Signal{Name: "approved", ID: "a", Payload: []byte(`"a"`)}
		out := w.ask(d)
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.Triggered, Run: d.Run, Signal: persistence.SignalStored}, out.Answers[0])
		require.True(w.t, out.Wake.Submitted)
		require.Equal(w.t, persistence.SignalRepeated, w.ask(d).Answers[0].Signal)
		again := d
		again.Run = w.runID()
		again.Signal = &persistence.Signal{Name: "approved", ID: "b", Payload: []byte(`"b"`)}
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.Existing, Run: d.Run, Signal: persistence.SignalStored}, w.ask(again).Answers[0])
		unknown := d
		unknown.Signal = &persistence.Signal{Name: "no", ID: "c"}
		answer := w.ask(unknown).Answers[0]
		require.Equal(w.t, persistence.SignalUnknown, answer.Signal)
		require.Equal(w.t, []string{"approved", "reminded"}, answer.Names)
		require.Equal(w.t, 2, w.drain(10).Delivered)
		p := w.pod()
		p.complete(p.claimStep("ask"))
		require.Equal(w.t, `"a"`, string(p.claimStep("approve").LastProgress))
	}},
	{"signals/ended", "a signal of a run that ended before it was delivered is removed and counted", func(w *world) {
		run := w.start(w.with(Approval()))
		w.sends(persistence.SignalStored, signalFor(run, "approved", "a"))
		w.sends(persistence.SignalStored, signalFor(run, "approved", "b"))
		w.cancel(run)
		out := w.drain(10)
		require.Zero(w.t, out.Delivered)
		require.Equal(w.t, 2, out.Dropped)
		require.Empty(w.t, w.snapshot().Inbox)
		require.Zero(w.t, w.drain(10).Dropped)
	}},
	{"signals/stops", "a cancel ends a wait, and so does the policy", func(w *world) {
		g, p := w.withPod(Gates(), ApprovalStrict())
		run := w.start(g)
		w.cancel(run)
		w.requireRun(run, lifecycle.Canceled)
		w.requireTasks(run, states{"first": "canceled", "last": "canceled"})
		strict := w.draft(ApprovalStrict())
		w.trigger(strict)
		p.fail(p.claimStep("ask"))
		w.requireTasks(strict.Run, states{"approve": "canceled", "remind": "canceled", "note": "canceled"})
		w.requireRun(strict.Run, lifecycle.Failed)
		w.advance(2 * time.Hour)
		require.Zero(w.t, w.fire().Count)
	}},
	{"signals/dropped", "the inbox of a run goes with its history", func(w *world) {
		run := w.start(w.with(Approval()))
		w.delivers(run, "approved", "a")
		w.cancel(run)
		w.archive(0)
		require.Len(w.t, w.snapshot().Inbox, 1)
		w.advance(100 * 24 * time.Hour)
		w.drop()
		require.Empty(w.t, w.snapshot().Inbox)
		w.sends(persistence.SignalNoRun, signalFor(run, "approved", "a"))
	}},
	{"signals/older_pods", "a run that a living pod of an older version does not know waits until that has left", func(w *world) {
		g := w.with(Approval())
		pod, _, err := w.store.JoinPod(w.ctx, persistence.PodInfo{Name: "old", Queues: []string{defaultQueue}, Slots: 1, TTL: leaseTTL, Protocol: 2})
		require.NoError(w.t, err)
		d := w.draft(g)
		out := w.ask(d)
		w.requireTriggers(out, persistence.Triggered)
		require.True(w.t, out.Wake.Submitted)
		require.Zero(w.t, w.drain(10).Count)
		w.requireRun(d.Run, lifecycle.Pending)
		w.delivers(d.Run, "reminded", "a")
		call(w.store.LeavePod(w.ctx, pod)).must(w)
		require.Equal(w.t, 1, w.drain(10).Count)
		w.requireTasks(d.Run, states{"ask": "queued", "remind": "completed"})
	}},
}
