package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var repeatRules = []rule{
	{"repeat/same_batch", "the same batch again is already yours and changes nothing", func(w *world) {
		_, p := w.startWithPod(Diamond())
		record := p.batch(completion(p.claimStep("a")))
		require.Equal(w.t, lifecycle.Moved, p.send(record).Answers[0].Result)
		before := w.snapshot()
		again := p.send(record)
		require.Equal(w.t, lifecycle.AlreadyYours, again.Answers[0].Result)
		require.Empty(w.t, again.Wake.Ready)
		require.Equal(w.t, before, w.snapshot())
	}},
	{"repeat/each_kind", "every kind of report is recognised when it is repeated", func(w *world) {
		g, p := w.withPod(Single())
		for name, change := range map[string]func(*persistence.Transition){
			"succeeded": func(*persistence.Transition) {},
			"failed":    func(t *persistence.Transition) { t.Report = lifecycle.Errored },
			"retried":   func(t *persistence.Transition) { t.Report, t.Retry, t.RetryIn = lifecycle.Errored, true, time.Hour },
			"lost":      func(t *persistence.Transition) { t.Report = lifecycle.Lost },
			"released":  func(t *persistence.Transition) { t.Report = lifecycle.Released },
		} {
			run := w.start(g)
			var t persistence.Transition
			for _, grant := range p.claim(10) {
				if grant.Task.Run == run {
					t = completion(grant)
				}
			}
			change(&t)
			if t.Report != lifecycle.Succeeded {
				t.Output = nil
			}
			p.report(t)
			before := w.snapshot()
			require.Equal(w.t, lifecycle.AlreadyYours, p.send(p.batch(t)).Answers[0].Result, name)
			require.Equal(w.t, before, w.snapshot(), name)
		}
	}},
	{"repeat/after_cascade", "a repeated report whose children went on is already yours", func(w *world) {
		_, p := w.startWithPod(Chain(3))
		first := p.claimStep("s0")
		p.complete(first)
		p.complete(p.claimStep("s1"))
		require.Equal(w.t, lifecycle.AlreadyYours, p.send(p.batch(completion(first))).Answers[0].Result)
	}},
	{"repeat/twice_in_one_batch", "a report that stands twice in a batch is recorded once", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		t := completion(p.claimStep("s0"))
		w.requireRecorded(p.send(p.batch(t, t)), lifecycle.Moved, lifecycle.AlreadyYours)
		w.requireTasks(run, states{"s0": "completed", "s1": "queued"})
	}},
	{"repeat/mixed", "a batch of recorded, repeated and stale reports is answered one by one", func(w *world) {
		_, p := w.backlog(3, Single())
		grants := p.claim(3)
		p.complete(grants[1])
		list := []persistence.Transition{completion(grants[0]), completion(grants[1]), completion(grants[2])}
		list[2].Epoch--
		w.requireRecorded(p.send(p.batch(list...)), lifecycle.Moved, lifecycle.AlreadyYours, lifecycle.Stale)
	}},
}

var refusalRules = []rule{
	{"fence/old_epoch", "a report under an old epoch is stale and changes nothing", func(w *world) {
		run, p := w.startWithPod(Single())
		first := p.claimStep("a")
		p.report(persistence.Transition{Task: first.Task, Epoch: first.Epoch, Report: lifecycle.Released})
		second := p.claimStep("a")
		late := completion(first)
		late.Output = []byte(`"late"`)
		require.Equal(w.t, lifecycle.Stale, p.send(p.batch(late)).Answers[0].Result)
		w.requireTasks(run, states{"a": "running"})
		p.complete(second)
		require.Equal(w.t, lifecycle.Stale, p.send(p.batch(late)).Answers[0].Result)
		require.Equal(w.t, `"a"`, string(w.run(run).Output), "a completed output is never overwritten")
	}},
	{"fence/other_pod", "a report by a pod that does not hold the task is stale", func(w *world) {
		run := w.start(w.with(Single()))
		p, q := w.pod(), w.pod()
		g := p.claimStep("a")
		require.Equal(w.t, lifecycle.Stale, q.send(q.batch(completion(g))).Answers[0].Result)
		w.requireTasks(run, states{"a": "running"})
		p.complete(g)
		require.Equal(w.t, lifecycle.Stale, q.send(q.batch(completion(g))).Answers[0].Result)
	}},
	{"fence/unknown", "a report on a run or step that does not exist is stale", func(w *world) {
		_, p := w.startWithPod(Single())
		g := p.claimStep("a")
		nowhere, nostep := completion(g), completion(g)
		nowhere.Task.Run = w.runID()
		nostep.Task.Step = 7
		w.requireRecorded(p.send(p.batch(nowhere, completion(g), nostep)), lifecycle.Stale, lifecycle.Moved, lifecycle.Stale)
	}},
	{"fence/terminal", "what has ended stays as it is", func(w *world) {
		run, p := w.startWithPod(Single())
		g := p.claimStep("a")
		p.complete(g)
		for _, kind := range []lifecycle.ReportKind{lifecycle.Errored, lifecycle.Lost, lifecycle.Released} {
			t := persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: kind}
			require.Equal(w.t, lifecycle.Stale, p.send(p.batch(t)).Answers[0].Result)
			t.Epoch++
			require.Equal(w.t, lifecycle.Stale, p.send(p.batch(t)).Answers[0].Result)
		}
		require.Equal(w.t, lifecycle.Stale, w.cancel(run).Result)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"fence/dead_pod", "a pod that left, expired or never was records nothing", func(w *world) {
		run := w.start(w.with(Single()))
		left, late := w.pod(), w.pod()
		call(w.store.LeavePod(w.ctx, left.id)).must(w)
		g := late.claimStep("a")
		w.advance(leaseTTL)
		for _, p := range []*worker{left, late, {w: w, id: 1 << 40}} {
			call(w.store.RecordTransitions(w.ctx, p.batch(completion(g)))).fails(w, persistence.ErrPodDead)
		}
		w.requireTasks(run, states{"a": "running"})
		late.renew(g)
		late.complete(g)
	}},
	{"fence/too_many", "a batch over the limit is refused as a whole", func(w *world) {
		p := w.pod()
		list := make([]persistence.Transition, persistence.RecordBatchMax+1)
		_, err := w.store.RecordTransitions(w.ctx, p.batch(list...))
		require.Error(w.t, err)
	}},
	{"bad_row/one_of_500", "one bad row of a batch fails its own attempt only", func(w *world) {
		_, p := w.backlog(500, Single())
		grants := p.claimExactly(500, 500)
		list := make([]persistence.Transition, len(grants))
		for i := range grants {
			list[i] = completion(grants[i])
		}
		list[321].Output = []byte(BadPayload)
		out := p.send(p.batch(list...))
		for i, answer := range out.Answers {
			if i == 321 {
				require.Equal(w.t, lifecycle.BadRow, answer.Result)
				require.Error(w.t, answer.Err)
				continue
			}
			require.Equal(w.t, lifecycle.Moved, answer.Result, "transition %d", i)
		}
		bad := grants[321].Task.Run
		w.requireRun(bad, lifecycle.Failed)
		require.Equal(w.t, persistence.ClassBadRow, w.run(bad).Class)
		require.NotEmpty(w.t, w.run(bad).Error)
		require.Nil(w.t, w.tasks(bad)["a"].Output)
		w.requireRun(grants[320].Task.Run, lifecycle.Completed)
	}},
	{"bad_row/repeated", "a repeated report of a bad row changes nothing", func(w *world) {
		run, p := w.startWithPod(Handled())
		bad := completion(p.claimStep("try"))
		bad.Output = []byte(BadPayload)
		require.Equal(w.t, lifecycle.BadRow, p.send(p.batch(bad)).Answers[0].Result)
		before := w.snapshot()
		require.NotEqual(w.t, lifecycle.Moved, p.send(p.batch(bad)).Answers[0].Result)
		require.Equal(w.t, before, w.snapshot())
		w.requireTasks(run, states{"try": "failed", "report": "queued"})
	}},
}

var recordInTxRules = []rule{
	{"record_in_tx/commits", "what the transaction did and the completion commit together", func(w *world) {
		graph := w.with(Chain(2))
		run := w.start(graph)
		p := w.pod()
		other := w.draft(graph)
		out := call(p.inTx(p.claimStep("s0"), other)).must(w)
		require.Equal(w.t, []persistence.RecordAnswer{{Result: lifecycle.Moved}}, out.Answers)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
		w.requireTasks(run, states{"s0": "completed", "s1": "queued"})
		require.Equal(w.t, []workflow.RunID{other.Run}, w.snapshot().Intake)
	}},
	{"record_in_tx/error", "an error keeps nothing and comes back", func(w *world) {
		graph := w.with(Single())
		run := w.start(graph)
		p := w.pod()
		g := p.claimStep("a")
		broken := errors.New("step broke")
		call(w.store.RecordInTx(w.ctx, p.batch(), func(ctx context.Context, tx any) (persistence.Transition, error) {
			_, err := w.store.TriggerInTx(ctx, tx, w.draft(graph))
			require.NoError(w.t, err)
			return completion(g), broken
		})).fails(w, broken)
		w.requireTasks(run, states{"a": "running"})
		require.Len(w.t, w.snapshot().Runs, 1)
		p.complete(g)
	}},
	{"record_in_tx/fenced", "a fenced attempt leaves nothing of its transaction", func(w *world) {
		graph := w.with(Single())
		run := w.start(graph)
		p := w.pod()
		g := p.claimStep("a")
		stale := g
		stale.Epoch--
		out := call(p.inTx(stale, w.draft(graph))).must(w)
		require.Equal(w.t, lifecycle.Stale, out.Answers[0].Result)
		p.complete(g)
		out = call(p.inTx(g, w.draft(graph))).must(w)
		require.Equal(w.t, lifecycle.AlreadyYours, out.Answers[0].Result)
		require.Len(w.t, w.snapshot().Runs, 1)
		w.requireRun(run, lifecycle.Completed)
	}},
	{"record_in_tx/dead_pod", "a dead pod leaves nothing of its transaction", func(w *world) {
		graph := w.with(Single())
		run := w.start(graph)
		p := w.pod()
		g := p.claimStep("a")
		w.advance(leaseTTL)
		call(w.store.RecordInTx(w.ctx, p.batch(), func(ctx context.Context, tx any) (persistence.Transition, error) {
			_, err := w.store.TriggerInTx(ctx, tx, w.draft(graph))
			return completion(g), err
		})).fails(w, persistence.ErrPodDead)
		require.Len(w.t, w.snapshot().Runs, 1)
		w.requireTasks(run, states{"a": "running"})
	}},
}

// inTx records a grant's completion in a transaction that also triggers d.
func (p *worker) inTx(g persistence.Grant, d persistence.Trigger) (persistence.Recorded, error) {
	record := p.batch()
	record.Task = g.Task
	return p.w.store.RecordInTx(p.w.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		answer := call(p.w.store.TriggerInTx(ctx, tx, d)).must(p.w)
		require.Equal(p.w.t, persistence.Triggered, answer.Result)
		return completion(g), nil
	})
}
