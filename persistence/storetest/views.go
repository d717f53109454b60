package storetest

import (
	"bytes"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var viewRules = []rule{
	{"views/events_in_pages", "events come once each, in order, whatever the page", func(w *world) {
		run, p := w.startWithPod(Fan(6))
		p.finish()
		all := call(w.store.Events(w.ctx, tenantA, run, nil, 100)).must(w)
		require.Len(w.t, all, 3+8*3)
		require.Equal(w.t, lifecycle.EventRunCreated, all[0].Kind)
		require.Equal(w.t, lifecycle.EventRunCompleted, all[len(all)-1].Kind)
		last := map[int32]int64{}
		for i, e := range all {
			require.Equal(w.t, last[e.Step]+1, e.N, "event %d", i)
			last[e.Step] = e.N
			require.False(w.t, i > 0 && e.At.Before(all[i-1].At), "event %d", i)
		}
		var paged []lifecycle.Event
		var position persistence.EventPosition
		for page := all; len(page) > 0; {
			page = call(w.store.Events(w.ctx, tenantA, run, position, 4)).must(w)
			require.LessOrEqual(w.t, len(page), 4)
			paged, position = append(paged, page...), position.After(page)
		}
		require.Equal(w.t, all, paged)
		require.Equal(w.t, "3x9", position.String())
	}},
	{"views/events_since", "a position brings what was added behind it, also once the run is in history", func(w *world) {
		run, p := w.startWithPod(Chain(2))
		seen := call(w.store.Events(w.ctx, tenantA, run, nil, 0)).must(w)
		position := persistence.EventPosition{}.After(seen)
		require.Empty(w.t, call(w.store.Events(w.ctx, tenantA, run, position, 0)).must(w))
		p.complete(p.claimStep("s0"))
		more := call(w.store.Events(w.ctx, tenantA, run, position, 0)).must(w)
		require.Len(w.t, more, 3, "started, completed; and queued for the child")
		half := position.After(more)
		p.finish()
		w.archive(0)
		require.Len(w.t, call(w.store.Events(w.ctx, tenantA, run, half, 0)).must(w), 3)
		require.Len(w.t, call(w.store.Events(w.ctx, tenantA, run, position, 0)).must(w), 6)
	}},
	{"views/events_late", "an event is not skipped because a later one of another step was seen", func(w *world) {
		run, p := w.startWithPod(Diamond())
		p.complete(p.claimStep("a"))
		grants := p.claimAll()
		p.complete(grants["b"])
		p.complete(grants["c"])
		var without, late []lifecycle.Event
		for _, e := range call(w.store.Events(w.ctx, tenantA, run, nil, 0)).must(w) {
			if e.Step == 1 && e.N > 1 { // b, as if its claim committed last of all
				late = append(late, e)
			} else {
				without = append(without, e)
			}
		}
		require.NotEmpty(w.t, late)
		position := persistence.EventPosition{}.After(without)
		require.Equal(w.t, late, call(w.store.Events(w.ctx, tenantA, run, position, 0)).must(w))
		require.Equal(w.t, late[:1], call(w.store.Events(w.ctx, tenantA, run, position, 1)).must(w))
	}},
	{"views/payload", "a payload comes as far as asked for, with its size, also from history", func(w *world) {
		d := w.draft(w.with(Fan(2)))
		d.Input = []byte("\x00input")
		w.trigger(d)
		p := w.pod()
		t := completion(p.claimStep("root"))
		t.Output = bytes.Repeat([]byte("0123456789"), 20_000)
		p.report(t)
		head := func(step string, limit int) persistence.PayloadHead {
			return call(w.store.Payload(w.ctx, tenantA, d.Run, step, limit)).must(w)
		}
		same := func() {
			require.Equal(w.t, persistence.PayloadHead{Data: d.Input, Size: 6}, head("", 100))
			require.Equal(w.t, persistence.PayloadHead{Data: []byte("\x00in"), Size: 6}, head("", 3))
			require.Equal(w.t, persistence.PayloadHead{Data: t.Output[:7], Size: 200_000, State: lifecycle.Completed}, head("root", 7))
			require.Equal(w.t, t.Output, head("root", 200_001).Data)
			none := head("root", 0)
			require.Empty(w.t, none.Data)
			require.Equal(w.t, 200_000, none.Size)
			call(w.store.Payload(w.ctx, tenantA, d.Run, "absent", 10)).fails(w, persistence.ErrStepNotFound)
			call(w.store.Payload(w.ctx, tenantB, d.Run, "root", 10)).fails(w, persistence.ErrRunNotFound)
		}
		same()
		require.Equal(w.t, persistence.PayloadHead{Size: -1, State: lifecycle.Queued}, head("l0", 10))
		grants := p.claimAll()
		p.fail(grants["l0"])
		p.complete(grants["l1"])
		require.Equal(w.t, 1, w.archive(0).Count)
		same()
		require.Equal(w.t, persistence.PayloadHead{Size: -1, State: lifecycle.Failed, Class: "test", Error: "l0 broke"}, head("l0", 10))
		require.Equal(w.t, persistence.PayloadHead{Size: -1, State: lifecycle.Canceled}, head("join", 10))
	}},
	{"views/payload_before", "a run that has not begun has its input and no output", func(w *world) {
		d := w.draft(w.with(Single()))
		tx := call(w.h.Begin(w.ctx)).must(w)
		call(w.store.TriggerInTx(w.ctx, tx.Value, d)).must(w)
		require.NoError(w.t, tx.Commit(w.ctx))
		require.Equal(w.t, d.Input, call(w.store.Payload(w.ctx, tenantA, d.Run, "", 100)).must(w).Data)
		require.Equal(w.t, persistence.PayloadHead{Size: -1}, call(w.store.Payload(w.ctx, tenantA, d.Run, "a", 100)).must(w))
		call(w.store.Payload(w.ctx, tenantA, w.runID(), "a", 100)).fails(w, persistence.ErrRunNotFound)
	}},
	{"views/sizes", "a status says how large each output is, whether outputs are read or not, also in history", func(w *world) {
		for _, large := range []int{100, 100_000} {
			run, p := w.startWithPod(Nap(time.Hour))
			t := completion(p.claimStep("before"))
			t.Output = []byte(strings.Repeat("x", large))
			p.report(t)
			sizes := func(want ...int) {
				for _, without := range [][]persistence.Without{nil, {persistence.WithoutOutputs}} {
					var got []int
					for _, row := range call(w.store.Tasks(w.ctx, tenantA, run, without...)).must(w) {
						got = append(got, row.OutputSize)
						require.Equal(w.t, without == nil && row.OutputSize > 0, len(row.Output) > 0)
					}
					require.Equal(w.t, want, got)
				}
			}
			sizes(large, -1, -1)
			w.advance(2 * time.Hour)
			require.Equal(w.t, 1, w.fire().Count)
			p = w.pod()
			p.complete(p.claimStep("after"))
			sizes(large, -1, len(`"after"`))
			require.Equal(w.t, 1, w.archive(0).Count)
			sizes(large, -1, len(`"after"`))
		}
	}},
	{"views/workflows", "stored definitions are told of, with the steps that no living pod registers", func(w *world) {
		nap, mixed := Nap(time.Hour), Mixed(workflow.FailFast)
		w.with(nap, mixed)
		row := func(g *workflow.Graph, unregistered ...string) persistence.DefinitionRow {
			return persistence.DefinitionRow{Workflow: g.Name, Hash: g.Hash, Steps: len(g.Nodes), Unregistered: unregistered}
		}
		told := func(want ...persistence.DefinitionRow) {
			rows := call(w.store.Workflows(w.ctx)).must(w)
			for i := range rows {
				if len(rows[i].Unregistered) == 0 {
					rows[i].Unregistered = nil
				}
			}
			require.Equal(w.t, want, rows)
		}
		all := row(mixed, "bad", "child", "watch", "side", "tail", "start", "rescue")
		told(all, row(nap, "before", "after"))
		w.pod(nap)
		told(all, row(nap))
		w.pod(mixed)
		told(row(mixed), row(nap))
		w.advance(leaseTTL)
		w.expire()
		told(all, row(nap, "before", "after"))
	}},
	{"views/pods", "pods are told of until they are dead or have left", func(w *world) {
		w.with(Single())
		p, q := w.pod(), w.pod()
		rows := call(w.store.Pods(w.ctx)).must(w)
		require.Len(w.t, rows, 2)
		first := rows[0]
		require.False(w.t, first.StartedAt.IsZero())
		require.Equal(w.t, leaseTTL, first.Expires.Sub(first.StartedAt))
		require.Positive(w.t, first.Lease)
		require.LessOrEqual(w.t, first.Lease, leaseTTL)
		require.Equal(w.t, persistence.PodRow{
			ID: min(p.id, q.id), Name: "pod", Version: "test", Protocol: persistence.Protocol, Slots: 10, Queues: []string{defaultQueue},
			StartedAt: first.StartedAt, Expires: first.Expires, Lease: first.Lease, Leads: first.Leads,
		}, first)
		call(w.store.LeavePod(w.ctx, q.id)).must(w)
		require.Len(w.t, call(w.store.Pods(w.ctx)).must(w), 1)
		w.advance(leaseTTL)
		late := call(w.store.Pods(w.ctx)).must(w)
		require.Len(w.t, late, 1)
		require.LessOrEqual(w.t, late[0].Lease.Seconds(), 0.0, "no leader has declared it dead yet")
		w.expire()
		require.Empty(w.t, call(w.store.Pods(w.ctx)).must(w))
	}},
}
