package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

var keyRules = []rule{
	{"keys/same_input", "the same key and input name the same run", func(w *world) {
		g := w.with(Single())
		first, second := w.draft(g), w.draft(g)
		first.Key, second.Key = "key", "key"
		w.trigger(first)
		answer := w.ask(second).Answers[0]
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.Existing, Run: first.Run}, answer)
		require.Len(w.t, w.snapshot().Runs, 1)
		require.Equal(w.t, "key", w.run(first.Run).Key)
	}},
	{"keys/other_input", "the same key with another input is a conflict and stores nothing", func(w *world) {
		g := w.with(Single())
		first, second := w.draft(g), w.draft(g)
		first.Key, second.Key = "key", "key"
		second.InputHash = [32]byte{1}
		w.trigger(first)
		answer := w.ask(second).Answers[0]
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.KeyConflict, Run: first.Run}, answer)
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
	{"keys/read", "a key is read in its tenant and workflow; one that no committed trigger has is not found", func(w *world) {
		g := w.with(Single())
		first := w.draft(g)
		first.Key = "key"
		of := persistence.RunKey{Tenant: first.Tenant, Workflow: first.Workflow, Key: "key"}
		call(w.store.RunByKey(w.ctx, of)).fails(w, persistence.ErrRunNotFound)
		w.trigger(first, w.draft(g))
		require.Equal(w.t, first.Run, call(w.store.RunByKey(w.ctx, of)).must(w))
		for _, other := range []persistence.RunKey{
			{Tenant: "other", Workflow: of.Workflow, Key: of.Key},
			{Tenant: of.Tenant, Workflow: "other", Key: of.Key},
			{Tenant: of.Tenant, Workflow: of.Workflow, Key: "other"},
			{Tenant: of.Tenant, Workflow: of.Workflow},
			{Tenant: of.Tenant, Workflow: of.Workflow, Key: "nul\x00"},
		} {
			call(w.store.RunByKey(w.ctx, other)).fails(w, persistence.ErrRunNotFound)
		}
	}},
	{"keys/scope", "keys of other tenants and workflows are other keys", func(w *world) {
		single := w.with(Single(), Diamond())
		list := w.drafts(single, tenantA, 2)
		list[1].Tenant = tenantB
		for g := range w.numbers {
			if g != single {
				list = append(list, w.draft(g))
			}
		}
		for i := range list {
			list[i].Key, list[i].InputHash = "key", [32]byte{byte(i)}
		}
		w.trigger(list...)
		require.Len(w.t, w.snapshot().Keys, 3)
	}},
	{"keys/within_a_batch", "keys hold between the triggers of one batch", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 3)
		for i := range list {
			list[i].Key = "key"
		}
		list[2].InputHash = [32]byte{1}
		out := w.ask(list...)
		require.Equal(w.t, persistence.Triggered, out.Answers[0].Result)
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.Existing, Run: list[0].Run}, out.Answers[1])
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.KeyConflict, Run: list[0].Run}, out.Answers[2])
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
	{"keys/outlive_the_run", "a key names its run also when that has ended", func(w *world) {
		g := w.with(Single())
		first, second := w.draft(g), w.draft(g)
		first.Key, second.Key = "key", "key"
		w.trigger(first)
		w.pod().finish()
		w.requireRun(first.Run, lifecycle.Completed)
		require.Equal(w.t, persistence.Existing, w.ask(second).Answers[0].Result)
	}},
	{"keys/of_a_refused_group", "a refused group leaves no key behind", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 3)
		list[0].Group, list[1].Group = 1, 1
		list[0].Key, list[2].Key = "key", "key"
		list[1].Queue = "nowhere"
		w.requireTriggers(w.ask(list...), persistence.GroupRefused, persistence.UnknownQueue, persistence.Triggered)
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
}
