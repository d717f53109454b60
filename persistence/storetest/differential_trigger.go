package storetest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// Durations are short or long, and time passes in whole hours: nothing is due
// by accident, however slow one of the stores is.
const (
	short = 30 * time.Minute
	long  = 90 * time.Minute
	never = 100_000 * time.Hour
)

func (w *differ) span() time.Duration { return anyOf(w, []time.Duration{short, long}) }

// differGraphs are the workflows of a differential test.
func differGraphs() []*workflow.Graph {
	return append(slices.Concat(families(), wideGraphs(), machineGraphs()),
		Single(), retained("kept", workflow.RetainForever), Chain(3), Diamond(), Fan(4), Branch(), Nap(short), Nap(long), Until(), Mixed(workflow.FailFast),
		Mixed(workflow.FinishSiblings), Handled(), InputBranch(), Skipping(), Impatient(short), Elsewhere(), Growing(), GrowingRescued(),
		approval("approval", workflow.FinishSiblings, true, short), approval("strict", workflow.FailFast, false, short), Gates(), gated(),
	)
}

func queueNames() []string { return []string{defaultQueue, "other", "gpu"} }

// open registers the workflows, elects a leader and lets two pods join.
func (w *differ) open() {
	graphs := w.graphs
	w.graphs = nil
	w.registerGraphs(graphs, queueNames())
	w.bump()
	w.joinWith(w.allGraphs())
	w.joinWith(w.allGraphs())
	w.compareStates()
}

func (w *differ) allGraphs() []int {
	all := make([]int, len(w.graphs))
	for i := range all {
		all[i] = i
	}
	return all
}

// someGraphs returns all graphs, now and then only the first ones.
func (w *differ) someGraphs() []int {
	all := w.allGraphs()
	if w.chance(4) {
		return all[:1+w.IntN(len(all))]
	}
	return all
}

// trigger is a trigger as both stores get it, with instants relative to present.
type trigger struct{ persistence.Trigger }

func (s *side) trigger(t trigger) persistence.Trigger {
	t.At = s.in(t.At)
	t.Edges = s.edges(t.Edges)
	return t.Trigger
}

func (w *differ) id() (id [16]byte) {
	w.ids++
	binary.BigEndian.PutUint64(id[8:], w.ids)
	return id
}

func (w *differ) runID() workflow.RunID {
	w.ids++
	var random [10]byte
	binary.BigEndian.PutUint64(random[2:], w.ids)
	return workflow.NewRunID(present.Add(time.Duration(w.ids)*time.Millisecond), random)
}

// draft makes a trigger, now and then one that is refused.
func (w *differ) draft() trigger {
	list, kin, wide := w.graphs, len(families()), len(families())+len(wideGraphs())
	switch {
	case w.kin && !w.chance(4):
		list = list[:kin]
	case w.wide && !w.chance(4):
		list = list[kin:wide]
	case w.driven && !w.chance(3):
		list = list[wide : wide+len(machineGraphs())]
	case !w.kin && !w.chance(8):
		list = list[wide+len(machineGraphs()):]
	}
	g := anyOf(w, list)
	if w.ids%16 == 0 { // of few others a failure is handled
		g = w.graphs[slices.IndexFunc(w.graphs, func(g *workflow.Graph) bool { return g.Name == "handled" })]
	}
	t := trigger{persistence.Trigger{
		Run: w.runID(), Definition: g.Hash, Workflow: g.Name, Tenant: anyOf(w, []string{"a", "b", "c"}),
		Input: fmt.Appendf(nil, "%d", w.ids), InputHash: [32]byte{byte(w.IntN(2))},
		Origin: "api", Labels: map[string]string{"color": anyOf(w, []string{"red", "blue"})},
		TraceContext: "trace",
	}}
	if w.chance(4) {
		t.Origin, t.TraceContext, t.Labels = "message", "", nil
	}
	if w.calm {
		t.Tenant = "a"
	}
	if w.chance(3) {
		t.Key = anyOf(w, []string{"k1", "k2"})
	}
	if len(w.inTx) > 0 && w.chance(2) {
		open := anyOf(w, w.inTx)
		t.Workflow, t.Definition, t.Tenant, t.Key = open.Workflow, open.Definition, open.Tenant, open.Key
	}
	for _, known := range w.graphs {
		if known.Hash == t.Definition {
			g = known
		}
	}
	if w.chance(6) {
		t.At = present.Add(anyOf(w, []time.Duration{-short, short, long}))
	}
	switch w.IntN(40) {
	case 0:
		t.Definition[0] ^= 0xff
	case 1:
		t.Queue = "nowhere"
	case 2:
		// Nothing else is wrong with it: what is noticed first is up to a store.
		t.Input, t.Key, t.Workflow, t.Definition = []byte(BadPayload), "", g.Name, g.Hash
	case 3:
		t.Labels = map[string]string{"nul": "\x00"}
	case 7:
		t.Queue = lateQueue
	case 4, 5, 6:
		t.Queue = "other"
	}
	for i := range g.Nodes {
		if g.IsMachine() {
			break // nothing is decided on its input
		}
		// An instant in an input waits where Advance does not reach.
		if edge, ok := w.condition(&g.Nodes[i], 25, -short, never); ok {
			t.Edges = append(t.Edges, edge)
		}
	}
	return t
}

// touched reports whether the open transaction found the key of a trigger in
// use. A store may then hold the key for it or not.
func (w *differ) touched(t trigger) bool {
	return t.Key != "" && slices.ContainsFunc(w.found, func(o trigger) bool {
		return o.Key == t.Key && o.Tenant == t.Tenant && o.Workflow == t.Workflow
	})
}

// condition makes up what a parent, or the input, says about a child: once in
// rarity times that it is skipped; and one of the instants if it sleeps until
// one.
func (w *differ) condition(child *workflow.Node, rarity int, until ...time.Duration) (persistence.EdgeResult, bool) {
	edge := persistence.EdgeResult{Child: child.Name}
	if w.calm {
		rarity *= 20
	}
	if child.Kind == workflow.SleepUntil && !w.chance(6) {
		edge.WakeAt = present.Add(anyOf(w, until))
	}
	switch {
	case w.chance(rarity):
		edge.Flags = lifecycle.FlagSkip
	case w.chance(4 * rarity):
		edge.Flags, edge.Error = lifecycle.FlagFail, "condition panicked"
	}
	if w.chance(10 * rarity) {
		edge.Child = "a child of another version"
	}
	return edge, edge.Flags != 0 || !edge.WakeAt.IsZero() || edge.Child != child.Name
}

// kept reports whether a run is in the tables.
func (w *differ) kept(id workflow.RunID) bool {
	return slices.ContainsFunc(w.state.Runs, func(r snapshot.Run) bool { return r.ID == id })
}

// trigger stores a batch of runs.
func (w *differ) trigger() {
	batch := make([]trigger, 1+w.IntN(4))
	grouped := w.chance(3) && !w.few // what is noticed first of a group is up to a store
	for i := range batch {
		batch[i] = w.draft()
		if len(w.triggers) > 0 && w.chance(25) {
			// Not of a run that is gone: no client asks again so late, and a
			// store may keep its events for a while.
			if t := anyOf(w, w.triggers); w.kept(t.Run) {
				batch[i] = t
			}
		}
		if w.touched(batch[i]) {
			batch[i].Key = ""
		}
		w.signaled(&batch[i])
		batch[i].Group = 0
		if grouped && string(batch[i].Input) != BadPayload {
			batch[i].Group = w.IntN(3)
		}
	}
	take := w.taking()
	if take.Limit > 0 && !grouped && w.chance(2) { // of many runs one is mostly not simple
		batch = batch[:1]
	}
	for i, answer := range w.store(batch, take).Answers {
		w.sawTrigger(batch[i], answer, "run triggered")
	}
	if take.Limit > 0 && w.chance(6) && !slices.ContainsFunc(batch, func(t trigger) bool { return t.Key != "" }) {
		w.store(batch, take)
		w.saw("batch repeated")
	}
}

// taking makes up a pod that would have the first tasks of a batch at once.
func (w *differ) taking() taking {
	if w.chance(3) {
		return taking{}
	}
	graphs := w.someGraphs()
	return taking{GrantRequest: persistence.GrantRequest{
		Pod: w.busy(), Claim: w.id(), Limit: 1 + w.IntN(8), Queues: queueNames()[:1+w.IntN(3)],
	}, graphs: graphs}
}

// taking is a GrantRequest as both stores get it; its pod is an ordinal.
type taking struct {
	persistence.GrantRequest
	graphs []int
}

// store stores a batch in both stores.
func (w *differ) store(batch []trigger, take taking) persistence.Triggers {
	what := fmt.Sprintf("trigger %+v, taking %+v", batch, take)
	out := both(w, what, func(s *side) (persistence.Triggers, error) {
		list := make([]persistence.Trigger, len(batch))
		for i := range batch {
			list[i] = s.trigger(batch[i])
		}
		own := take.GrantRequest
		if own.Limit > 0 {
			own.Pod, own.Handlers = s.pod(int(take.Pod)-1), s.handlers(take.graphs)
		}
		out, err := s.Store.TriggerRuns(w.ctx, list, own)
		s.setNow(&out.Now, err)
		out.Wake, out.Grants = sameWake(out.Wake), s.grants(out.Grants)
		for i := range out.Answers {
			out.Answers[i].Err = kindOnly(out.Answers[i].Err)
		}
		return out, err
	})
	w.sawAll(len(out.Value.Grants), "first task granted")
	w.sawTriggerSignals(batch, out.Value)
	return out.Value
}

// kindOnly keeps of an error what a caller may act on.
func kindOnly(err error) error {
	if err == nil {
		return nil
	}
	return sameError(errorKind(err))
}

// sameError is an error that is compared by its text.
type sameError string

func (e sameError) Error() string { return string(e) }

func (w *differ) sawTrigger(t trigger, answer persistence.TriggerAnswer, stored string) {
	switch answer.Result {
	case persistence.Triggered:
		if slices.ContainsFunc(w.triggers, func(o trigger) bool { return o.Run == t.Run }) {
			w.saw("run triggered again")
			return
		}
		w.saw(stored)
		if t.At.After(present) {
			w.saw("run triggered for later")
		}
		if len(t.Edges) > 0 {
			w.saw("condition on the input")
		}
		if stored == "run triggered" {
			w.triggers = append(w.triggers, t)
		}
	case persistence.Existing:
		w.saw("run found by its key")
	case persistence.KeyConflict:
		w.saw("key conflict")
	case persistence.KeyBusy:
		w.saw("key busy")
	case persistence.GroupRefused:
		w.saw("group refused")
	case persistence.UnknownWorkflow:
		w.saw("workflow unknown")
	case persistence.UnknownQueue:
		w.saw("queue unknown")
	case persistence.TriggerBadRow:
		w.saw("trigger refused as bad row")
	case persistence.TenantsFull:
		if !w.few {
			w.diverge("a tenant limit with three tenants")
		}
	}
}
