package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// kept are retentions of cases: a day for the standard class, an hour for the
// short one, for ever for the rest.
func kept() persistence.Retention {
	return persistence.Retention{workflow.RetainStandard: 24 * time.Hour, workflow.RetainShort: time.Hour}
}

var historyRules = []rule{
	{"history/invisible", "an archived run answers every read as before", func(w *world) {
		runs := w.endings()
		before, state := w.everything(runs), w.snapshot().WithoutTimes()
		require.Equal(w.t, len(runs), w.archive(0).Count)
		require.Zero(w.t, w.archive(0).Count)
		require.Equal(w.t, before, w.everything(runs))
		after := w.snapshot().WithoutTimes()
		state.Timers, after.Timers = nil, nil // timers of ended runs are not waited for
		require.Equal(w.t, state, after)
	}},
	{"history/not_yet", "a run that has not ended is not archived, nor one that ended a short while ago; a straggler is, late", func(w *world) {
		_, p := w.startWithPod(Diamond())
		p.complete(p.claim(10)...)
		require.Zero(w.t, w.archive(0).Count)
		p.finish()
		require.Zero(w.t, w.archive(time.Hour).Count)
		require.Equal(w.t, 1, w.archive(0).Count)
	}},
	{"history/in_parts", "a scan continues where the last one stopped, and finds all", func(w *world) {
		w.trigger(w.drafts(w.with(Diamond()), tenantA, 5)...)
		w.pod().finish()
		var after workflow.RunID
		var counts []int
		for range 3 {
			out := w.archiveFrom(after, 2)
			counts, after = append(counts, out.Count), out.Next
		}
		require.Equal(w.t, []int{2, 2, 1}, counts)
		require.True(w.t, after.IsZero(), "that was the end")
	}},
	{"history/retention", "an archived run goes with all of its own once it is older than its class; others stay", func(w *world) {
		short, long := retained("short", workflow.RetainShort), retained("long", workflow.RetainLong)
		w.with(short, long)
		keyed := func(g *workflow.Graph) persistence.Trigger {
			d := w.draft(g)
			d.Key = "key"
			return d
		}
		gone, stays := keyed(short), keyed(long)
		w.trigger(gone, stays)
		w.pod().finish()
		living := w.start(short)
		w.archive(0)
		require.Zero(w.t, w.drop().Spans, "younger ones stay")

		w.advance(2 * time.Hour)
		leapt := call(drop(w.ctx, w.store, w.leader, kept(), w.expire().Now.Add(-time.Hour-time.Minute))).must(w)
		require.Zero(w.t, leapt.Spans, "they are younger by what the caller takes for now")
		require.Equal(w.t, persistence.Dropped{Spans: 1, Keys: 1}, w.drop())
		w.requireGone(gone.Run)
		w.requireRun(stays.Run, lifecycle.Completed)
		w.requireRun(living, lifecycle.Running)
		w.trigger(keyed(short))
		require.Equal(w.t, persistence.Existing, w.ask(keyed(long)).Answers[0].Result)

		w.advance(100 * 365 * 24 * time.Hour)
		require.Zero(w.t, w.drop().Spans)
		require.Equal(w.t, workflow.RetainLong, call(w.store.Definition(w.ctx, long.Hash)).must(w).Retention)
	}},
	{"history/late", "a late report or cancel of a run in history is answered that it has ended", func(w *world) {
		d := w.draft(w.with(Diamond()))
		w.trigger(d)
		p := w.pod()
		grants := p.claim(10)
		p.complete(grants...)
		p.finish()
		w.archive(0)
		require.Equal(w.t, lifecycle.AlreadyYours, p.send(p.batch(completion(grants[0]))).Answers[0].Result)
		canceled := w.cancel(d.Run)
		require.Equal(w.t, lifecycle.Stale, canceled.Result)
		require.Equal(w.t, lifecycle.Completed, canceled.State)
		require.Equal(w.t, persistence.Triggered, w.ask(d).Answers[0].Result, "the run exists")
		require.Empty(w.t, p.claim(10))
	}},
	{"history/ghosts", "a queue row of a run in history, or removed for good, is discarded", func(w *world) {
		g := w.with(retained("short", workflow.RetainShort))
		w.cancel(w.start(g))
		w.archive(0)
		w.advance(48 * time.Hour)
		require.Equal(w.t, 1, w.drop().Spans)
		w.cancel(w.start(g))
		w.archive(0)
		p := w.pod()
		out := p.ask(p.request(10))
		require.Equal(w.t, 2, out.Discarded)
		require.Empty(w.t, out.Grants)
	}},
	{"history/submitted", "a run that was canceled before a pod took it is archived after one did", func(w *world) {
		d := w.draft(w.with(Diamond()))
		w.submit(d)
		w.cancel(d.Run)
		require.Zero(w.t, w.archive(0).Count)
		w.drain(10)
		require.Equal(w.t, 1, w.archive(0).Count)
		w.requireRun(d.Run, lifecycle.Canceled)
	}},
	{"history/deposed", "only the newest leader moves or removes anything", func(w *world) {
		old := w.leader
		w.bumpEpoch()
		call(w.store.ArchiveRuns(w.ctx, old, persistence.Archive{Limit: 1})).fails(w, persistence.ErrDeposed)
		call(w.store.DropHistory(w.ctx, old, kept(), time.Time{})).fails(w, persistence.ErrDeposed)
		call(w.store.RotateEvents(w.ctx, old, time.Hour)).fails(w, persistence.ErrDeposed)
	}},
}

// endings returns runs that ended in many ways.
func (w *world) endings() []workflow.RunID {
	w.t.Helper()
	w.with(Diamond(), Branch(), Mixed(workflow.FailFast), Handled(), Nap(time.Hour), Impatient(time.Hour), Growing(), GrowingRescued())
	p := w.pod()
	labeled := w.draft(w.graph("diamond"))
	labeled.Labels, labeled.Key, labeled.TraceContext = map[string]string{"a": "b"}, "key", "trace"
	w.trigger(labeled)
	p.finish()
	runs := []workflow.RunID{labeled.Run}

	retried := w.start(w.graph("diamond"))
	p.report(retry(p.claimStep("a"), time.Minute))
	w.advance(time.Hour)
	w.fire()
	p.renew()
	lost := w.podFor(time.Minute)
	require.Len(w.t, lost.claim(1), 1)
	w.advance(2 * time.Minute)
	p = w.pod()
	w.expire()
	p.finish()
	runs = append(runs, retried)

	for _, name := range []string{"branch", "mixed", "handled", "nap", "growing", "rescued"} {
		runs = append(runs, w.start(w.graph(name)))
	}
	for grants := p.claim(100); len(grants) > 0; grants = p.claim(100) {
		for _, g := range grants {
			switch g.Step {
			case "bad", "try":
				p.fail(g)
			case "choose":
				p.report(choose(g, "no", "more"))
			case "plan":
				t := grow(g, "plan", "plan#1", "plan#2")
				t.Make = append(t.Make, persistence.DynamicTask{Declared: "rest", Name: "nap"})
				p.report(t)
			case "plan#2":
				p.fail(g)
			default:
				p.complete(g)
			}
		}
		w.advance(2 * time.Hour)
		w.fire()
		p = w.pod()
	}
	p.complete(p.claimHeavy()...)
	p.finish()
	canceled := w.start(w.graph("diamond"))
	w.cancel(canceled)
	waited := w.start(w.graph("impatient"))
	w.advance(2 * time.Hour)
	w.fire()
	return append(runs, canceled, waited)
}

// graph returns a registered graph by how its name begins.
func (w *world) graph(name string) *workflow.Graph {
	w.t.Helper()
	for g := range w.numbers {
		if strings.HasPrefix(g.Name, name) {
			return g
		}
	}
	w.t.Fatalf("no graph %s", name)
	return nil
}

// retained is a single step whose runs are in a class.
func retained(name string, class workflow.RetentionClass) *workflow.Graph {
	return Graph(workflow.Definition{Name: name, Retention: class, Steps: []workflow.Step{{Name: "a"}}})
}

func (w *world) archive(age time.Duration) persistence.Archived {
	w.t.Helper()
	return call(w.store.ArchiveRuns(w.ctx, w.leader, persistence.Archive{
		Age: age, Limit: persistence.ArchiveMax, Retention: kept(),
	})).must(w)
}

func (w *world) archiveFrom(after workflow.RunID, limit int) persistence.Archived {
	w.t.Helper()
	return call(w.store.ArchiveRuns(w.ctx, w.leader, persistence.Archive{After: after, Limit: limit, Retention: kept()})).must(w)
}

func (w *world) drop() persistence.Dropped {
	w.t.Helper()
	return call(drop(w.ctx, w.store, w.leader, kept(), time.Time{})).must(w)
}

func (w *world) requireGone(id workflow.RunID) {
	w.t.Helper()
	w.requireHidden("", id)
	for _, r := range w.snapshot().Runs {
		require.NotEqual(w.t, id, r.ID)
	}
}

// everything is what readers are told about runs.
func (w *world) everything(runs []workflow.RunID) []string {
	w.t.Helper()
	var all []string
	tell := func(v any, err error) { all = append(all, fmt.Sprintf("%+v %v", v, err)) }
	for _, id := range runs {
		tell(w.store.Run(w.ctx, tenantA, id))
		tasks, err := w.store.Tasks(w.ctx, tenantA, id)
		tell(tasks, err)
		tell(w.store.StepNames(w.ctx, tenantA, id))
		events, err := w.store.Events(w.ctx, tenantA, id, nil, persistence.PageMax)
		tell(events, err)
		tell(persistence.Payload(w.ctx, w.store, workflow.TaskID{Run: id, Step: lifecycle.RunStep}))
		for i := range tasks {
			tell(persistence.Payload(w.ctx, w.store, workflow.TaskID{Run: id, Step: tasks[i].Step}))
			tell(w.store.Payload(w.ctx, tenantA, id, tasks[i].Name, 100))
		}
		tell(w.store.Run(w.ctx, tenantB, id))
	}
	for _, filter := range []persistence.RunFilter{
		{Tenant: tenantA},
		{},
		{Tenant: tenantB},
		{Tenant: tenantA, Limit: 2},
		{States: []lifecycle.State{lifecycle.Completed}},
		{Tenant: tenantA, States: []lifecycle.State{lifecycle.Failed, lifecycle.Canceled}},
		{Labels: map[string]string{"a": "b"}},
		{Key: "key"},
		{Origin: "api"},
		{Class: "test"},
		{FailedStep: "bad", Tenant: tenantA},
	} {
		tell(w.store.ListRuns(w.ctx, filter))
	}
	tell(w.store.CountRuns(w.ctx, persistence.CountFilter{By: persistence.ByTenant | persistence.ByWorkflow}))
	tell(w.store.CountRuns(w.ctx, persistence.CountFilter{By: persistence.ByHour}))
	return all
}
