package storetest

import (
	"bytes"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var triggerRules = []rule{
	{"trigger/starts", "a stored run is running, its steps without parents are queued, and claimers are told", func(w *world) {
		d := w.draft(w.with(Diamond()))
		out := w.ask(d)
		require.Equal(w.t, []persistence.TriggerAnswer{{Result: persistence.Triggered, Run: d.Run}}, out.Answers)
		require.False(w.t, out.Now.IsZero())
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, out.Wake.Ready)
		w.requireRun(d.Run, lifecycle.Running)
		w.requireTasks(d.Run, states{"a": "queued", "b": "pending", "c": "pending", "d": "pending"})
		require.Equal(w.t, map[string][]string{"": {"run_created", "run_started"}, "a": {"queued"}}, w.events(d.Run))
	}},
	{"trigger/same_id_again", "asking again with the same run id answers Triggered and stores nothing", func(w *world) {
		d := w.draft(w.with(Diamond()))
		d.Key = "key"
		w.trigger(d)
		before := w.snapshot()
		w.trigger(d)
		require.Equal(w.t, before.WithoutTimes(), w.snapshot().WithoutTimes())
	}},
	{"trigger/empty_batch", "an empty batch does nothing", func(w *world) {
		require.Empty(w.t, w.ask().Wake.Ready)
	}},
	{"trigger/too_many", "a batch over the limit is refused as a whole", func(w *world) {
		_, err := w.store.TriggerRuns(w.ctx, w.drafts(w.with(Single()), tenantA, persistence.TriggerBatchMax+1), persistence.GrantRequest{})
		require.Error(w.t, err)
		require.Empty(w.t, w.snapshot().Runs)
	}},
	{"trigger/unknown_workflow", "a run of an unknown definition is refused; the rest of the batch is stored", func(w *world) {
		good, bad := w.draft(w.with(Single())), w.draft(Diamond())
		w.requireTriggers(w.ask(bad, good), persistence.UnknownWorkflow, persistence.Triggered)
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
	{"trigger/unknown_queue", "a run for a queue that no pod registered is refused", func(w *world) {
		d := w.draft(w.with(Single()))
		d.Queue = "nowhere"
		require.Equal(w.t, persistence.UnknownQueue, w.ask(d).Answers[0].Result)
		require.Empty(w.t, w.snapshot().Runs)
	}},
	{"trigger/queue", "a run waits in the queue that its trigger names, a step in its own", func(w *world) {
		d := w.draft(w.with(Elsewhere()))
		d.Queue = "other"
		require.Equal(w.t, []persistence.Ready{{Queue: "other", Count: 1}}, w.ask(d).Wake.Ready)
		p := w.pod()
		require.Empty(w.t, p.claim(10))
		grants := p.ask(p.requestFrom("other", 10)).Grants
		require.Len(w.t, grants, 1)
		require.Equal(w.t, []persistence.Ready{{Queue: "gpu", Count: 1}}, p.complete(grants...).Wake.Ready)
		require.Len(w.t, p.ask(p.requestFrom("gpu", 10)).Grants, 1)
	}},
	{"trigger/group", "a group is stored all or none", func(w *world) {
		g := w.with(Single())
		taken := w.draft(g)
		taken.Key = "taken"
		w.trigger(taken)
		group := w.drafts(g, tenantA, 3)
		for i := range group {
			group[i].Group = 7
		}
		group[1].Key, group[1].InputHash = "taken", [32]byte{1}
		out := w.ask(group...)
		w.requireTriggers(out, persistence.GroupRefused, persistence.KeyConflict, persistence.GroupRefused)
		require.Equal(w.t, taken.Run, out.Answers[1].Run)
		require.Len(w.t, w.snapshot().Runs, 1)

		group[1].Key = "free"
		w.trigger(group...)
		require.Len(w.t, w.snapshot().Runs, 4)
	}},
	{"trigger/group_interleaved", "a refused group takes nothing else of the batch with it", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 6)
		for i := range list {
			list[i].Group = 1 + i%2
		}
		list[4].Queue = "nowhere"
		list[0].Key, list[1].Key = "key", "key"
		out := w.ask(list...)
		want := []persistence.TriggerResult{
			persistence.GroupRefused, persistence.Triggered, persistence.GroupRefused,
			persistence.Triggered, persistence.UnknownQueue, persistence.Triggered,
		}
		for i, answer := range out.Answers {
			require.Equal(w.t, want[i], answer.Result, "trigger %d", i)
		}
		require.Len(w.t, w.snapshot().Runs, 3)
	}},
	{"trigger/bad_text", "a value that the database refuses fails its own trigger only", func(w *world) {
		g := w.with(Single())
		spoil := []func(*persistence.Trigger){
			func(d *persistence.Trigger) { d.Key = "a\x00b" },
			func(d *persistence.Trigger) { d.Tenant = "a\xffb" },
			func(d *persistence.Trigger) { d.Labels = map[string]string{"a": "\x00"} },
			func(d *persistence.Trigger) { d.TraceContext = "\x00" },
		}
		list := w.drafts(g, tenantA, 2*len(spoil))
		for i, f := range spoil {
			f(&list[2*i])
		}
		for i, answer := range w.ask(list...).Answers {
			if i%2 == 1 {
				require.Equal(w.t, persistence.Triggered, answer.Result, "trigger %d", i)
				continue
			}
			require.Equal(w.t, persistence.TriggerBadRow, answer.Result, "trigger %d", i)
			require.ErrorIs(w.t, answer.Err, persistence.ErrBadRow)
		}
		require.Len(w.t, w.snapshot().Runs, len(spoil))
	}},
	{"trigger/bad_input_of_500", "one bad row of a full batch fails alone", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, persistence.TriggerBatchMax)
		list[333].Input = []byte(BadPayload)
		list[10].Group, list[333].Group = 5, 5
		for i, answer := range w.ask(list...).Answers {
			want := persistence.Triggered
			switch i {
			case 333:
				want = persistence.TriggerBadRow
			case 10:
				want = persistence.GroupRefused
			}
			require.Equal(w.t, want, answer.Result, "trigger %d", i)
		}
		require.Len(w.t, w.snapshot().Runs, persistence.TriggerBatchMax-2)
	}},
	{"trigger/tenants_keep_their_group", "a tenant that is refused uses up no group number", func(w *world) {
		g := w.with(Single())
		bad := w.draft(g)
		bad.Tenant, bad.Queue = "refused", "nowhere"
		w.ask(bad)
		w.trigger(w.draft(g))
		grants := w.pod().claim(1)
		require.Len(w.t, grants, 1)
		require.Equal(w.t, tenantA, grants[0].Tenant)
		for _, block := range w.snapshot().Blocks {
			require.Equal(w.t, tenantA, block.Tenant)
		}
	}},
}

var triggerTimeRules = []rule{
	{"trigger/at", "a run with At stays pending until then", func(w *world) {
		d := w.draft(w.with(Single()))
		now := w.ask().Now
		d.At = now.Add(time.Hour)
		out := w.ask(d)
		require.Equal(w.t, persistence.Triggered, out.Answers[0].Result)
		require.Empty(w.t, out.Wake.Ready)
		require.WithinDuration(w.t, d.At, out.Wake.NextTimer, time.Millisecond)
		w.requireRun(d.Run, lifecycle.Pending)
		w.requireTasks(d.Run, states{"a": "pending"})
		w.advance(59 * time.Minute)
		fired := w.fire()
		require.Zero(w.t, fired.Count)
		require.False(w.t, fired.Next.IsZero())
		w.requireRun(d.Run, lifecycle.Pending)
		w.advance(time.Minute)
		fired = w.fire()
		require.Equal(w.t, 1, fired.Count)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, fired.Wake.Ready)
		w.requireRun(d.Run, lifecycle.Running)
		w.pod().finish()
		w.requireRun(d.Run, lifecycle.Completed)
	}},
	{"trigger/at_in_the_past", "an At that has passed means now", func(w *world) {
		d := w.draft(w.with(Single()))
		d.At = w.ask().Now.Add(-time.Hour)
		w.trigger(d)
		w.requireTasks(d.Run, states{"a": "queued"})
		require.Empty(w.t, w.snapshot().Timers)
	}},
	{"trigger/at_canceled", "a run canceled before its At never starts", func(w *world) {
		d := w.draft(w.with(Diamond()))
		d.At = w.ask().Now.Add(time.Hour)
		w.trigger(d)
		out := w.cancel(d.Run)
		require.Equal(w.t, lifecycle.Moved, out.Result)
		require.Equal(w.t, lifecycle.Canceled, out.State)
		require.Equal(w.t, []workflow.RunID{d.Run}, out.Wake.Ended)
		w.requireTasks(d.Run, states{"a": "canceled", "b": "canceled", "c": "canceled", "d": "canceled"})
		w.advance(2 * time.Hour)
		require.Zero(w.t, w.fire().Count)
		require.Empty(w.t, w.pod().claim(10))
	}},
	{"trigger/input_condition", "conditions on the input skip and fail steps without parents", func(w *world) {
		g := w.with(InputBranch())
		skip := w.draft(g)
		skip.Edges = []persistence.EdgeResult{{Child: "no", Flags: lifecycle.FlagSkip}}
		broken := w.draft(g)
		broken.Edges = []persistence.EdgeResult{{Child: "no", Flags: lifecycle.FlagFail, Error: "condition panicked"}}
		w.trigger(skip, broken)
		w.requireTasks(skip.Run, states{"yes": "queued", "no": "skipped", "merge": "pending"})
		require.Equal(w.t, "failed", w.tasks(broken.Run)["no"].State.String())
		require.Equal(w.t, "condition panicked", w.tasks(broken.Run)["no"].Error)
		w.pod().finish()
		w.requireRun(skip.Run, lifecycle.Completed)
		w.requireRun(broken.Run, lifecycle.Failed)
		require.Equal(w.t, "no", w.run(broken.Run).FailedStep)
	}},
	{"trigger/input_condition_with_at", "conditions on the input hold until the run starts", func(w *world) {
		d := w.draft(w.with(InputBranch()))
		d.At = w.ask().Now.Add(time.Hour)
		d.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}}
		w.trigger(d)
		w.requireTasks(d.Run, states{"yes": "pending", "no": "pending"})
		w.advance(time.Hour)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(d.Run, states{"yes": "skipped", "no": "queued"})
	}},
	{"trigger/input_condition_all_skipped", "a run whose every step is skipped has completed", func(w *world) {
		d := w.draft(w.with(InputBranch()))
		for _, name := range []string{"yes", "no"} {
			d.Edges = append(d.Edges, persistence.EdgeResult{Child: name, Flags: lifecycle.FlagSkip})
		}
		require.Equal(w.t, []workflow.RunID{d.Run}, w.ask(d).Wake.Ended)
		w.requireTasks(d.Run, states{"yes": "skipped", "no": "skipped", "merge": "skipped"})
		row := w.run(d.Run)
		require.Equal(w.t, lifecycle.Completed, row.State)
		require.False(w.t, row.HasOutput)
		require.False(w.t, row.FinishedAt.IsZero())
	}},
}

// large returns a payload that no claim carries.
func large() []byte {
	return append(append([]byte(`"`), bytes.Repeat([]byte("x"), persistence.InlinePayloadMax)...), '"')
}
