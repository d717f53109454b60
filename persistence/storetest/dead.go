package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var deadRules = []rule{
	{"dead/reasons", "a task that failed for good has one dead letter that says why", func(w *world) {
		g := w.with(Fan(6))
		run := w.start(g)
		p := w.pod()
		p.complete(p.claimStep("root"))
		grants := p.claimAll()
		leaf := func(name string, change func(t *persistence.Transition)) persistence.Transition {
			t := failure(grants[name])
			change(&t)
			return t
		}
		bad := completion(grants["l3"])
		bad.Output = []byte(BadPayload)
		p.send(p.batch(
			leaf("l0", func(t *persistence.Transition) { t.Exhausted = true }),
			leaf("l1", func(*persistence.Transition) {}),
			leaf("l2", func(t *persistence.Transition) { t.TimedOut, t.Class = "attempt", "timed_out" }),
			bad,
			leaf("l4", func(t *persistence.Transition) { t.Class = lifecycle.ClassDecoding }),
		))
		p.report(persistence.Transition{Task: grants["l5"].Task, Epoch: grants["l5"].Epoch, Report: lifecycle.Lost})
		got := map[string]string{}
		for step, l := range w.letters() {
			require.Equal(w.t, run, l.Task.Run)
			require.Equal(w.t, tenantA, l.Tenant)
			require.Equal(w.t, g.Name, l.Workflow)
			require.Equal(w.t, g.Hash, l.Definition)
			require.EqualValues(w.t, 1, l.Attempts)
			require.False(w.t, l.DiedAt.IsZero())
			require.False(w.t, l.StartedAt.IsZero())
			got[step] = l.Reason.String()
		}
		require.Equal(w.t, map[string]string{
			"l0": "attempts_exhausted", "l1": "non_retryable", "l2": "timed_out", "l3": "undecodable", "l4": "undecodable",
		}, got)
		require.Equal(w.t, "l1 broke", w.letters()["l1"].Error)
		require.Equal(w.t, "test", w.letters()["l1"].Class)
	}},
	{"dead/told", "the call that fails a task for good tells it, once", func(w *world) {
		g := w.with(Fan(3))
		run := w.start(g)
		p := w.pod()
		require.Empty(w.t, p.complete(p.claimStep("root")).Wake.Failed)
		grants := p.claimAll()
		bad := completion(grants["l1"])
		bad.Output = []byte(BadPayload)
		require.Empty(w.t, p.report(retry(grants["l2"], time.Hour)).Wake.Failed)
		record := p.batch(failure(grants["l0"]), bad)
		failed := p.send(record).Wake.Failed
		slices.SortFunc(failed, func(a, b persistence.FailedTask) int { return strings.Compare(a.Step, b.Step) })
		require.Len(w.t, failed, 2)
		require.Equal(w.t, persistence.FailedTask{
			Task: workflow.TaskID{Run: run, Step: grants["l0"].Task.Step}, Workflow: g.Name, Step: "l0", Tenant: tenantA,
			Attempt: 1, Class: "test", Error: "l0 broke",
		}, failed[0])
		require.Equal(w.t, persistence.ClassBadRow, failed[1].Class)
		require.NotEmpty(w.t, failed[1].Error)
		require.Empty(w.t, p.send(record).Wake.Failed, "it was recorded before")
	}},
	{"dead/told_by_others", "a task that fails while no pod executes it is told by the call that decides so", func(w *world) {
		pill := w.start(w.with(Single()))
		var failed []persistence.FailedTask
		for range maxLost {
			w.pod().claimStep("a")
			w.advance(leaseTTL)
			failed = w.expire().Wake.Failed
		}
		require.Len(w.t, failed, 1)
		require.Equal(w.t, []any{pill, "a", "lost", int32(maxLost)}, []any{failed[0].Task.Run, failed[0].Step, failed[0].Class, failed[0].Lost})

		late := w.start(w.with(Impatient(time.Minute)))
		w.advance(2 * time.Minute)
		failed = w.fire().Wake.Failed
		require.Len(w.t, failed, 1)
		require.Equal(w.t, []any{late, "impatient", "a", tenantA, "timed_out"}, []any{failed[0].Task.Run, failed[0].Workflow, failed[0].Step, failed[0].Tenant, failed[0].Class})
		require.Contains(w.t, failed[0].Error, "waited in the queue")

		d := w.draft(w.with(InputBranch()))
		d.Edges = []persistence.EdgeResult{{Child: "no", Flags: lifecycle.FlagFail, Error: "the condition broke"}}
		failed = call(w.store.TriggerRuns(w.ctx, []persistence.Trigger{d}, persistence.GrantRequest{})).must(w).Wake.Failed
		require.Len(w.t, failed, 1)
		require.Equal(w.t, []any{d.Run, tenantA, "condition", "the condition broke"}, []any{failed[0].Task.Run, failed[0].Tenant, failed[0].Class, failed[0].Error})
	}},
	{"dead/none", "what completes, is tried again, skipped or canceled has none", func(w *world) {
		_, p := w.startWithPod(Mixed(workflow.FailFast))
		grants := p.claimAll()
		p.complete(grants["start"])
		p.report(retry(grants["side"], time.Hour))
		require.Empty(w.t, w.letters())
		p.fail(grants["bad"])
		w.requireTasks(grants["bad"].Task.Run, states{"side": "canceled", "child": "canceled"})
		require.Len(w.t, w.letters(), 1)
		run := w.start(w.with(Single()))
		w.cancel(run)
		require.Len(w.t, w.letters(), 1)
	}},
	{"dead/unregistered", "a task whose step no pod registered in time died of that", func(w *world) {
		w.start(w.with(Impatient(time.Minute)))
		w.park()
		w.advance(2 * time.Minute)
		require.Equal(w.t, 1, w.fire().Count)
		l := w.letters()["a"]
		require.Equal(w.t, lifecycle.Unregistered, l.Reason)
		require.Contains(w.t, l.Error, "no living pod registers its step")
		require.True(w.t, l.StartedAt.IsZero())

		w.with(Impatient(time.Hour))
		_, p := w.startWithPod(Impatient(2 * time.Minute))
		require.NotNil(w.t, p)
		w.advance(3 * time.Minute)
		w.fire()
		list := call(w.store.ListDeadLetters(w.ctx, persistence.DeadFilter{Reasons: []lifecycle.DeadReason{lifecycle.TimedOut}})).must(w)
		require.Len(w.t, list, 1)
	}},
	{"dead/details", "a dead letter tells what its function saw and what happened to it", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		both := p.claimAll()
		p.complete(both["b"], both["c"])
		p.fail(p.claimStep("d"))
		d := call(w.store.DeadLetter(w.ctx, tenantA, w.letters()["d"].Task)).must(w)
		require.Equal(w.t, run, d.Task.Run)
		require.True(w.t, d.RunKept)
		require.JSONEq(w.t, `"input"`, string(d.Input))
		require.Equal(w.t, []string{"c", "b"}, []string{d.Parents[0].Step, d.Parents[1].Step})
		require.JSONEq(w.t, `"c"`, string(d.Parents[0].Output))
		var kinds []string
		for _, e := range d.Events {
			kinds = append(kinds, e.Kind.String())
		}
		require.Equal(w.t, []string{"queued", "started", "failed"}, kinds)
		call(w.store.DeadLetter(w.ctx, tenantA, workflow.TaskID{Run: run})).fails(w, persistence.ErrDeadLetterNotFound)
	}},
	{"dead/pages", "pages of a listing show every selected letter once", func(w *world) {
		g, p := w.backlog(7, Single())
		for _, grant := range p.claim(100) {
			p.fail(grant)
		}
		seen := map[workflow.RunID]bool{}
		filter := persistence.DeadFilter{Workflow: g.Name, Step: "a", YoungerThan: time.Hour, Requeued: persistence.NotRequeued, Limit: 3}
		pages := 0
		for ; ; pages++ {
			page := call(w.store.ListDeadLetters(w.ctx, filter)).must(w)
			if len(page) == 0 {
				break
			}
			for _, l := range page {
				require.False(w.t, seen[l.Task.Run], "twice")
				seen[l.Task.Run] = true
			}
			filter.After = page[len(page)-1].Task
		}
		require.Len(w.t, seen, 7)
		require.Equal(w.t, 3, pages)
		require.Empty(w.t, call(w.store.ListDeadLetters(w.ctx, persistence.DeadFilter{OlderThan: time.Hour})).must(w))
	}},
	{"dead/newest", "a listing may begin with the newest runs, in pages as well", func(w *world) {
		_, p := w.backlog(5, Single())
		for _, grant := range p.claim(100) {
			p.fail(grant)
		}
		var want, got []workflow.TaskID
		for _, l := range call(w.store.ListDeadLetters(w.ctx, persistence.DeadFilter{})).must(w) {
			want = append(want, l.Task)
		}
		slices.Reverse(want)
		filter := persistence.DeadFilter{Newest: true, Limit: 2}
		for page := call(w.store.ListDeadLetters(w.ctx, filter)).must(w); len(page) > 0; page = call(w.store.ListDeadLetters(w.ctx, filter)).must(w) {
			for _, l := range page {
				got = append(got, l.Task)
			}
			filter.After = page[len(page)-1].Task
		}
		require.Equal(w.t, want, got)
	}},
	{"dead/queues_and_handlers", "dead letters are found by the queue and the version of their step", func(w *world) {
		elsewhere, single := Elsewhere(), Single()
		w.with(elsewhere, single)
		w.trigger(w.draft(elsewhere))
		p := w.pod()
		p.complete(p.claimStep("here"))
		p.fail(p.ask(p.requestFrom("gpu", 1)).Grants[0])
		d := w.draft(single)
		d.Queue = "other"
		w.trigger(d)
		p.fail(p.ask(p.requestFrom("other", 1)).Grants[0])
		letters := w.letters()
		require.Equal(w.t, "gpu", letters["there"].Queue)
		require.Equal(w.t, "other", letters["a"].Queue)
		there := elsewhere.Nodes[1].Fingerprint
		require.Equal(w.t, there, letters["there"].Handler)
		require.Equal(w.t, there, call(w.store.DeadLetter(w.ctx, "", letters["there"].Task)).must(w).Handler)
		for _, c := range []struct {
			filter persistence.DeadFilter
			want   []string
		}{
			{persistence.DeadFilter{Queue: "gpu"}, []string{"there"}},
			{persistence.DeadFilter{Queue: "other", Newest: true}, []string{"a"}},
			{persistence.DeadFilter{Queue: defaultQueue}, nil},
			{persistence.DeadFilter{Queue: "absent"}, nil},
			{persistence.DeadFilter{Handler: there.String()[:12]}, []string{"there"}},
			{persistence.DeadFilter{Handler: single.Nodes[0].Fingerprint.String()}, []string{"a"}},
			{persistence.DeadFilter{Handler: there.String()[:12], Queue: "other"}, nil},
		} {
			var got []string
			for _, l := range call(w.store.ListDeadLetters(w.ctx, c.filter)).must(w) {
				got = append(got, l.Step)
			}
			require.Equal(w.t, c.want, got, "%+v", c.filter)
			require.Equal(w.t, len(c.want), call(w.store.CountDeadLetters(w.ctx, c.filter)).must(w), "%+v", c.filter)
		}
		require.Equal(w.t, 1, call(w.store.PurgeDeadLetters(w.ctx, persistence.DeadFilter{Queue: "gpu"})).must(w))
		require.Len(w.t, w.letters(), 1)
	}},
	{"dead/metacharacters", "what means something to a database means nothing in a filter", func(w *world) {
		d := w.draft(w.with(Single()))
		d.Labels = map[string]string{"color": "red"}
		w.trigger(d)
		p := w.pod()
		p.fail(p.claimStep("a"))
		for _, text := range []string{"%", "_", "s%", "' or '1'='1", "single';drop table tasks;--", `$.**`, `\`, "\x00", "\xff", "{}"} {
			for _, filter := range []persistence.DeadFilter{{Tenant: text}, {Workflow: text}, {Step: text}, {Queue: text}, {Handler: text}} {
				letters, err := w.store.ListDeadLetters(w.ctx, filter)
				require.NoError(w.t, err, "%+v", filter)
				require.Empty(w.t, letters, "%+v", filter)
				require.Zero(w.t, call(w.store.CountDeadLetters(w.ctx, filter)).must(w))
				require.Zero(w.t, call(w.store.PurgeDeadLetters(w.ctx, filter)).must(w))
			}
			for _, filter := range []persistence.RunFilter{
				{Tenant: text},
				{Workflow: text},
				{Labels: map[string]string{"color": text}},
				{Labels: map[string]string{text: "red"}},
				{Key: text},
				{Key: text, Tenant: tenantA},
				{Origin: text},
				{Class: text},
				{FailedStep: text},
			} {
				runs, err := w.store.ListRuns(w.ctx, filter)
				if err == nil { // a text that no database takes may be refused as well
					require.Empty(w.t, runs.Rows, "%+v", filter)
				}
			}
		}
		require.Len(w.t, w.letters(), 1)
	}},
	{"dead/outlives", "a dead letter outlives its run, with input and history", func(w *world) {
		run, p := w.startWithPod(Single())
		p.report(retry(p.claimStep("a"), time.Second))
		w.advance(time.Minute / 2)
		w.fire()
		p.fail(p.claimStep("a"))
		task := w.letters()["a"].Task
		before := call(w.store.DeadLetter(w.ctx, "", task)).must(w)
		require.Equal(w.t, 1, w.archive(0).Count)
		require.Equal(w.t, before.Events, call(w.store.DeadLetter(w.ctx, "", task)).must(w).Events)
		w.advance(aCentury / 50)
		w.drop()
		w.requireGone(run)
		after := call(w.store.DeadLetter(w.ctx, "", task)).must(w)
		require.False(w.t, after.RunKept)
		require.Equal(w.t, before.Input, after.Input)
		require.Len(w.t, after.Events, len(before.Events))
		for i := range before.Events {
			require.Equal(w.t, before.Events[i].Kind, after.Events[i].Kind)
			require.Equal(w.t, before.Events[i].Text, after.Events[i].Text)
			require.True(w.t, before.Events[i].At.Equal(after.Events[i].At))
		}
		require.Equal(w.t, persistence.RunGone, w.requeue(persistence.RequeueOrder{Letter: task}).Result)
		for _, order := range []persistence.RequeueOrder{{Judged: true}, {Again: true}} {
			order.Letter, order.Fresh = task, true
			require.Equal(w.t, persistence.RequeueStored, w.requeue(order).Result)
			w.drain(10)
			require.JSONEq(w.t, `"input"`, string(w.pod().claimStep("a").Input))
		}
	}},
	{"dead/tenants", "no tenant sees or requeues what is another's", func(w *world) {
		_, p := w.startWithPod(Single())
		p.fail(p.claimStep("a"))
		task := w.letters()["a"].Task
		require.Empty(w.t, call(w.store.ListDeadLetters(w.ctx, persistence.DeadFilter{Tenant: tenantB})).must(w))
		call(w.store.DeadLetter(w.ctx, tenantB, task)).fails(w, persistence.ErrDeadLetterNotFound)
		call(w.store.RequeueDeadLetter(w.ctx, persistence.RequeueOrder{Letter: task, Tenant: tenantB, Run: w.runID()})).fails(w, persistence.ErrDeadLetterNotFound)
		require.Zero(w.t, call(w.store.PurgeDeadLetters(w.ctx, persistence.DeadFilter{Tenant: tenantB})).must(w))
	}},
	{"dead/purge", "a purge removes what is older than said, and no more than asked for", func(w *world) {
		g, p := w.withPod(Single())
		for range 3 {
			w.start(g)
			p.fail(p.claimStep("a"))
		}
		w.advance(time.Minute / 2)
		w.start(g)
		p.fail(p.claimStep("a"))
		old := persistence.DeadFilter{OlderThan: 20 * time.Second, Limit: 2}
		leapt := old
		leapt.By = w.expire().Now.Add(-15 * time.Second)
		got := call(w.store.PurgeDeadLetters(w.ctx, leapt)).must(w)
		require.Zero(w.t, got, "they are younger by what the caller takes for now")
		for _, want := range []int{2, 1, 0} {
			require.Equal(w.t, want, call(w.store.PurgeDeadLetters(w.ctx, old)).must(w))
		}
		require.Len(w.t, w.letters(), 1)
	}},
}

// letters returns all dead letters by the names of their steps.
func (w *world) letters() map[string]persistence.DeadLetter {
	w.t.Helper()
	list := call(w.store.ListDeadLetters(w.ctx, persistence.DeadFilter{})).must(w)
	byStep := map[string]persistence.DeadLetter{}
	for _, l := range list {
		byStep[l.Step] = l
	}
	require.Len(w.t, byStep, len(list), "letters of one step")
	require.Equal(w.t, len(list), call(w.store.CountDeadLetters(w.ctx, persistence.DeadFilter{})).must(w))
	return byStep
}
