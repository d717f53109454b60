package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var inTxRules = []rule{
	{"in_tx/commit", "a run triggered in a transaction exists once that commits and starts when drained", func(w *world) {
		d := w.draft(w.with(Diamond()))
		tx := w.begin()
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.Triggered, Run: d.Run}, w.triggerIn(tx, d))
		require.Zero(w.t, w.drain(10).Count, "before the commit")
		call(w.store.Run(w.ctx, tenantA, d.Run)).fails(w, persistence.ErrRunNotFound)
		require.NoError(w.t, tx.Commit(w.ctx))

		w.requireRun(d.Run, lifecycle.Pending)
		require.Empty(w.t, w.tasks(d.Run))
		w.checkInvariants()
		drained := w.drain(10)
		require.Equal(w.t, 1, drained.Count)
		require.False(w.t, drained.More)
		require.Equal(w.t, []persistence.Ready{{Queue: defaultQueue, Count: 1}}, drained.Wake.Ready)
		w.requireRun(d.Run, lifecycle.Running)
		require.Equal(w.t, map[string][]string{"": {"run_created", "run_started"}, "a": {"queued"}}, w.events(d.Run))
		require.Zero(w.t, w.drain(10).Count, "again")
		w.pod().finish()
		w.requireRun(d.Run, lifecycle.Completed)
	}},
	{"in_tx/rollback", "a run triggered in a transaction that rolls back leaves nothing behind", func(w *world) {
		d := w.draft(w.with(Single()))
		d.Key = "key"
		tx := w.begin()
		w.triggerIn(tx, d)
		require.NoError(w.t, tx.Rollback(w.ctx))
		require.Zero(w.t, w.drain(10).Count)
		tables := w.snapshot()
		require.Empty(w.t, tables.Runs)
		require.Empty(w.t, tables.Keys)
		require.Empty(w.t, tables.Intake)
		w.trigger(d)
	}},
	{"in_tx/refused", "what intake refuses is refused in a transaction too", func(w *world) {
		g := w.with(Single())
		queue := w.draft(g)
		queue.Queue = "nowhere"
		tx := w.begin()
		require.Equal(w.t, persistence.UnknownWorkflow, w.triggerIn(tx, w.draft(Diamond())).Result)
		require.Equal(w.t, persistence.UnknownQueue, w.triggerIn(tx, queue).Result)
		good := w.draft(g)
		require.Equal(w.t, persistence.Triggered, w.triggerIn(tx, good).Result, "the transaction is still open")
		require.NoError(w.t, tx.Commit(w.ctx))
		require.Equal(w.t, []workflow.RunID{good.Run}, w.snapshot().Intake)
	}},
	{"in_tx/ended", "a transaction that has ended is refused", func(w *world) {
		g := w.with(Single())
		for name, end := range map[string]func(Tx) error{
			"committed":   func(tx Tx) error { return tx.Commit(w.ctx) },
			"rolled back": func(tx Tx) error { return tx.Rollback(w.ctx) },
		} {
			tx := w.begin()
			w.triggerIn(tx, w.draft(g))
			require.NoError(w.t, end(tx))
			_, err := w.store.TriggerInTx(w.ctx, tx.Value, w.draft(g))
			require.ErrorIs(w.t, err, persistence.ErrTxRefused, name)
		}
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
	{"in_tx/foreign", "a transaction of another store is refused, also where the workflow is known there", func(w *world) {
		g := w.with(Single(), Diamond())
		other := newWorld(w.t, w.open(w.t))
		other.with(g)
		for _, graph := range []*workflow.Graph{g, Diamond()} {
			d := w.draft(graph)
			d.Key = "key"
			tx := other.begin()
			_, err := w.store.TriggerInTx(w.ctx, tx.Value, d)
			require.ErrorIs(w.t, err, persistence.ErrTxRefused)
			require.NotErrorIs(w.t, err, persistence.ErrUnavailable)
			require.NoError(w.t, tx.Commit(w.ctx), "the transaction is still open")
			w.submit(d)
		}
		require.Empty(w.t, other.snapshot().Runs)
		require.Empty(w.t, other.snapshot().Keys)
	}},
	{"in_tx/same_id_again", "asking again in the same transaction stores nothing more", func(w *world) {
		d := w.draft(w.with(Single()))
		w.submit(d, d)
		require.Equal(w.t, 1, w.drain(10).Count)
		require.Len(w.t, w.snapshot().Runs, 1)
		w.submit(d)
		require.Zero(w.t, w.drain(10).Count)
	}},
	{"in_tx/keys", "keys hold within and after the transaction", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 4)
		for i := range list {
			list[i].Key = "key"
		}
		list[2].InputHash = [32]byte{1}
		tx := w.begin()
		require.Equal(w.t, persistence.Triggered, w.triggerIn(tx, list[0]).Result)
		existing := persistence.TriggerAnswer{Result: persistence.Existing, Run: list[0].Run}
		require.Equal(w.t, existing, w.triggerIn(tx, list[1]))
		conflict := persistence.TriggerAnswer{Result: persistence.KeyConflict, Run: list[0].Run}
		require.Equal(w.t, conflict, w.triggerIn(tx, list[2]))
		require.NoError(w.t, tx.Commit(w.ctx))
		tx = w.begin()
		require.Equal(w.t, existing, w.triggerIn(tx, list[3]))
		require.NoError(w.t, tx.Commit(w.ctx))
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
	{"in_tx/key_race_commit", "intake does not wait for a key that a transaction holds; after its commit the key exists", func(w *world) {
		tx, inTx, wanting := w.race()
		require.NoError(w.t, tx.Commit(w.ctx))
		want := persistence.TriggerAnswer{Result: persistence.Existing, Run: inTx.Run}
		require.Equal(w.t, want, w.ask(wanting).Answers[0])
	}},
	{"in_tx/key_race_rollback", "intake does not wait for a key that a transaction holds; after its rollback the key is free", func(w *world) {
		tx, _, wanting := w.race()
		require.NoError(w.t, tx.Rollback(w.ctx))
		w.trigger(wanting)
	}},
}

var drainRules = []rule{
	{"drain/order", "submitted runs start oldest first, in bounded batches", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, 7)
		w.submit(list[3:]...)
		w.submit(list[:3]...)
		first := w.drain(4)
		require.Equal(w.t, 4, first.Count)
		require.True(w.t, first.More)
		w.requireRun(list[0].Run, lifecycle.Pending)
		second := w.drain(4)
		require.Equal(w.t, 3, second.Count)
		require.False(w.t, second.More)
		want := make([]workflow.RunID, 0, len(list))
		for _, d := range append(list[3:7:7], list[:3]...) {
			want = append(want, d.Run)
		}
		require.Equal(w.t, want, runsOf(w.pod().claim(10)))
	}},
	{"drain/at", "a submitted run with At waits for it", func(w *world) {
		d := w.draft(w.with(Single()))
		d.At = w.ask().Now.Add(time.Hour)
		w.submit(d)
		drained := w.drain(10)
		require.Equal(w.t, 1, drained.Count)
		require.WithinDuration(w.t, d.At, drained.Wake.NextTimer, time.Millisecond)
		w.requireRun(d.Run, lifecycle.Pending)
		w.checkInvariants()
		w.advance(time.Hour)
		require.Equal(w.t, 1, w.fire().Count)
		w.requireTasks(d.Run, states{"a": "queued"})
	}},
	{"drain/input_condition", "conditions on the input of a submitted run hold", func(w *world) {
		d := w.draft(w.with(InputBranch()))
		d.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}}
		w.submit(d)
		w.drain(10)
		w.requireTasks(d.Run, states{"yes": "skipped", "no": "queued"})
	}},
	{"drain/canceled", "a submitted run that was canceled never starts", func(w *world) {
		d := w.draft(w.with(Single()))
		w.submit(d)
		out := w.cancel(d.Run)
		require.Equal(w.t, lifecycle.Moved, out.Result)
		require.Equal(w.t, lifecycle.Canceled, out.State)
		w.checkInvariants()
		w.drain(10)
		require.False(w.t, w.drain(10).More)
		w.requireRun(d.Run, lifecycle.Canceled)
		require.Empty(w.t, w.snapshot().Intake)
		require.Equal(w.t, []string{"run_created", "cancel_requested", "run_canceled"}, w.events(d.Run)[""])
		require.Empty(w.t, w.pod().claim(10))
	}},
	{"drain/nothing", "draining an empty intake does nothing", func(w *world) {
		out := w.drain(10)
		require.Zero(w.t, out.Count)
		require.False(w.t, out.More)
		require.False(w.t, out.Now.IsZero())
	}},
}

func (w *world) begin() Tx {
	w.t.Helper()
	return call(w.h.Begin(w.ctx)).must(w)
}

func (w *world) triggerIn(tx Tx, d persistence.Trigger) persistence.TriggerAnswer {
	w.t.Helper()
	return call(w.store.TriggerInTx(w.ctx, tx.Value, d)).must(w)
}

// submit triggers in a transaction of its own, which commits.
func (w *world) submit(triggers ...persistence.Trigger) {
	w.t.Helper()
	tx := w.begin()
	for _, d := range triggers {
		require.Equal(w.t, persistence.TriggerAnswer{Result: persistence.Triggered, Run: d.Run}, w.triggerIn(tx, d))
	}
	require.NoError(w.t, tx.Commit(w.ctx))
}

// race opens a transaction that holds a key, and sends a batch in which one
// trigger wants it and others do not.
func (w *world) race() (tx Tx, inTx, wanting persistence.Trigger) {
	g := w.with(Single())
	inTx, wanting = w.draft(g), w.draft(g)
	inTx.Key, wanting.Key = "key", "key"
	other, partner := w.draft(g), w.draft(g)
	partner.Group = 3
	grouped := wanting
	grouped.Run, grouped.Group = w.runID(), 3
	tx = w.begin()
	require.Equal(w.t, persistence.Triggered, w.triggerIn(tx, inTx).Result)
	out := w.ask(wanting, other, grouped, partner)
	w.requireTriggers(out, persistence.KeyBusy, persistence.Triggered, persistence.KeyBusy, persistence.GroupRefused)
	return tx, inTx, wanting
}
