package storetest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// families are the workflows whose steps begin child runs.
func families() []*workflow.Graph {
	return []*workflow.Graph{
		Parent(), Judging(), Careless(), Many(3), parentOf("grand", Parent(), workflow.ChildSpec{}),
		parentOf("distant", Parent(), workflow.ChildSpec{Abandons: true}),
		parentOf("hollow", Empty(), workflow.ChildSpec{}, workflow.Condition{Kind: workflow.SkipIf, Ref: 1}), Empty(),
	}
}

// raise lets child runs get further. Now and then a parent has to hear of one in another way than from
// the pod that ended it, or too late.
func (w *differ) raise() {
	w.forward()
	switch ended := len(w.unnoticed()) > 0; {
	case ended && w.chance(8):
		w.archiveRuns(0, persistence.Archive{Limit: persistence.ArchiveMax, Retention: anHour()})
		w.compareStates()
		w.retire()
		w.compareStates()
	case ended && w.chance(4):
		w.wakeParents()
		w.compareStates()
	case w.chance(4):
		w.cancel()
		w.compareStates()
	}
	w.drain()
}

// forward has a living pod claim all that it can, and report some of what it holds.
func (w *differ) forward() {
	at := slices.IndexFunc(w.state.Pods, func(p snapshot.Pod) bool { return !p.Dead })
	if at < 0 {
		return
	}
	pod := w.state.Pods[at].ID
	w.renewPod(pod)
	w.claimFor(pod, persistence.ClaimRequest{GrantRequest: persistence.GrantRequest{
		Claim: w.id(), Queues: queueNames(), Limit: manyTasks, TenantLimit: w.limit,
	}, Suspects: true}, w.allGraphs())
	w.compareStates()
	var batch []sent
	for _, h := range w.holds(pod) {
		if len(batch) < 8 && (!w.wide || !w.chance(5)) && (!w.driven || !h.task.IsSpawned() || w.chance(2)) {
			batch = append(batch, w.report(h))
		}
	}
	w.failBehind(batch)
	batch = w.apart(batch)
	w.stopBefore(batch)
	record := w.newRecord()
	w.send(pod, record, batch)
	if w.wide && w.chance(4) {
		w.send(pod, record, batch)
		w.saw("record repeated")
	}
	w.past = append(w.past, batch...)
	w.compareStates()
}

// failBehind has a step fail, now and then, in the batch in which a child run of its run begins.
func (w *differ) failBehind(batch []sent) {
	for i := range batch {
		begins := func(r sent) bool {
			return r.Report == lifecycle.Yielded && !r.spoiled && r.Task.Run == batch[i].Task.Run
		}
		if r := &batch[i]; r.Report == lifecycle.Succeeded && slices.ContainsFunc(batch[:i], begins) && w.chance(4) {
			r.Transition = persistence.Transition{Task: r.Task, Epoch: r.Epoch, Report: lifecycle.Errored, Class: "test", Error: "it broke"}
		}
	}
}

// graph returns the newest version of a workflow.
func (w *differ) graph(name string) *workflow.Graph {
	for _, g := range slices.Backward(w.graphs) {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// begins reports whether a task has to begin a child run.
func begins(h held) bool {
	return h.task.Traits.Has(workflow.TraitChild) && !h.task.Flags.Has(lifecycle.FlagKept)
}

// yield lets the child run of a task begin, now and then one that a store refuses.
func (w *differ) yield(r *sent, h held) {
	node := nodeOf(h)
	g := w.graph(node.Child.Workflow)
	child := &persistence.Child{
		Run: w.runID(), Definition: g.Hash, Workflow: g.Name, KeyRun: persistence.ChildKeys(h.run.ID, taskName(h)),
		Input: fmt.Appendf(nil, "%d", w.count), TraceContext: anyOf(w, []string{"", "trace"}),
	}
	for i := range g.Nodes {
		if edge, ok := w.condition(&g.Nodes[i], 7, -short, never); ok {
			child.Edges = append(child.Edges, edge)
		}
	}
	r.Report, r.Output, r.Child, r.spoiled = lifecycle.Yielded, nil, child, true
	switch w.IntN(32) {
	case 0:
		r.Child = nil
	case 1:
		child.Workflow = anyOf(w, []string{"kept", "absent"})
	case 2:
		child.Definition[0] ^= 0xff
	case 3:
		child.Input = []byte(BadPayload)
	default:
		r.spoiled = false
	}
}

// sawYield counts what became of the child run that a report would let begin.
func (w *differ) sawYield(r sent) {
	if _, err := w.model.Store.Run(w.ctx, "", r.Child.Run); err != nil {
		w.saw("child run taken back")
		return
	}
	w.saw("child run begun")
}

// related reports whether a run has child runs or is one: what wakes it may be about these.
func related(r *snapshot.Run) bool { return r.Graph.HasChildren() || !r.Family.Parent.Run.IsZero() }

// awaitsChild reports whether a step of a run waits for a child run.
func awaitsChild(r snapshot.Run) bool {
	return slices.ContainsFunc(r.Tasks, func(t snapshot.Task) bool {
		return t.State == lifecycle.Waiting && t.Traits.Has(workflow.TraitChild)
	})
}

// isChild reports whether a run is a child run that has not ended.
func isChild(r snapshot.Run) bool { return !r.Core.State.Terminal() && !r.Family.Parent.Run.IsZero() }

// drainMost is how many runs a call begins, and to how many it delivers. In which order those hear
// of their families that were asked to together is up to a store: all do then.
func (w *differ) drainMost() int {
	for i := range w.state.Runs {
		if r := &w.state.Runs[i]; related(r) && (slices.Contains(w.state.Signaled, r.ID) || slices.Contains(w.state.Intake, r.ID)) {
			return manyTasks
		}
	}
	return 1 + w.IntN(3)
}

// sawFamilies counts what runs have heard of their families since a state.
func (w *differ) sawFamilies(before snapshot.Tables) {
	for i := range before.Runs {
		old := &before.Runs[i]
		at := slices.IndexFunc(w.state.Runs, func(r snapshot.Run) bool { return r.ID == old.ID })
		r := &w.state.Runs[at]
		if !old.Family.Parent.Run.IsZero() && !old.Core.Canceling && r.Core.Canceling {
			w.saw("child run canceled with its step")
		}
		for j := range old.Tasks {
			if t := &old.Tasks[j]; t.State == lifecycle.Waiting && t.Traits.Has(workflow.TraitChild) {
				w.sawChildEnd(&r.Tasks[j])
			}
		}
	}
}

// sawChildEnd counts how a step has heard of the end of its child run.
func (w *differ) sawChildEnd(t *snapshot.Task) {
	switch {
	case t.State == lifecycle.Completed:
		w.saw("step completed with its child run")
	case t.State == lifecycle.Queued:
		w.saw("output of a child run to be judged")
	case t.State == lifecycle.Skipped:
		w.saw("step skipped with its child run")
	case t.Class == lifecycle.ClassChildFailed:
		w.saw("step failed with its child run")
	case t.Class == lifecycle.ClassChildCanceled:
		w.saw("child run of a step was canceled")
	case t.Class == lifecycle.ClassChildGone:
		w.saw("child run of a step is gone")
	}
}

// unnoticed returns runs that wait for child runs which have ended, if nothing but WakeParents is
// needed for them to hear of that.
func (w *differ) unnoticed() (runs []workflow.RunID) {
	for i := range w.state.Runs {
		r := &w.state.Runs[i]
		if !slices.Contains(w.state.Signaled, r.ID) || !r.Family.Parent.Run.IsZero() || len(r.Graph.Signals()) > 0 {
			continue
		}
		if awaitsChild(*r) {
			runs = append(runs, r.ID)
		}
	}
	return runs
}

// wakeParents looks at all steps that wait for child runs, page by page, once what would tell some
// of them was removed.
func (w *differ) wakeParents() {
	reign := w.reign()
	if reign == 0 {
		for _, run := range w.unnoticed() {
			both(w, fmt.Sprintf("forget to tell %v", run), func(s *side) (string, error) { return "", s.Forget(w.ctx, run) })
		}
	}
	limit := 1 + w.IntN(3)
	out := both(w, fmt.Sprintf("wake parents, %d at a time, reign %d", limit, reign), func(s *side) (persistence.Woken, error) {
		var all persistence.Woken
		for {
			page, err := s.Store.WakeParents(w.ctx, s.epoch(reign), all.Next, limit)
			if err != nil {
				return all, err
			}
			if page.Next != (workflow.TaskID{}) && bytes.Compare(page.Next.Run[:], all.Next.Run[:]) < 0 {
				return all, fmt.Errorf("the page behind %v ends with %v", all.Next, page.Next)
			}
			all.Count, all.Next, all.Wake.Submitted = all.Count+page.Count, page.Next, all.Wake.Submitted || page.Wake.Submitted
			if page.Next == (workflow.TaskID{}) {
				return all, nil
			}
		}
	})
	w.sawRefused(out.Error)
	w.sawAll(out.Value.Count, "parent woken by the leader")
}

// narrowToChildren has a listing select the child runs of a run, rather of one that has some, mostly
// by nothing else.
func (w *differ) narrowToChildren(filter *persistence.RunFilter) {
	filter.Parent = anyOf(w, w.state.Runs).ID
	var parents []workflow.RunID
	for i := range w.state.Runs {
		if parent := w.state.Runs[i].Family.Parent.Run; !parent.IsZero() {
			parents = append(parents, parent)
		}
	}
	if len(parents) > 0 && !w.chance(6) {
		filter.Parent = anyOf(w, parents)
	}
	if !w.chance(3) {
		filter.Workflow, filter.States, filter.Labels, filter.Before, filter.Tenant = "", nil, nil, workflow.RunID{}, ""
	}
}

// sawFamilyRequeued counts the dead letters of families that were requeued.
func (w *differ) sawFamilyRequeued(letter workflow.TaskID) {
	at := slices.IndexFunc(w.state.Runs, func(r snapshot.Run) bool { return r.ID == letter.Run })
	if at < 0 {
		return
	}
	r := &w.state.Runs[at]
	if r.Graph.HasChildren() {
		w.saw("dead letter of a parent requeued")
	}
	if w.ofChild(r.ID) {
		w.saw("dead letter of a child run requeued")
	}
}
