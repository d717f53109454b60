package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// machineGraphs are workflows with a machine. Of one there are two versions: the second one executes
// activations of the first, too. How long a machine may go on after a cancel, and what it has
// started in the queue, are such that no two timers of a run are due at one instant: which one fires
// first would be a matter of the clock.
func machineGraphs() []*workflow.Graph {
	ordering := func(version int32) *workflow.Graph {
		return Graph(workflow.Definition{Name: "ordering", Steps: []workflow.Step{
			{Name: "machine", Kind: workflow.Machine, Version: version, Sleep: 45 * time.Minute},
			{Name: "charge", Spawned: true},
			{Name: "ship", Spawned: true, Options: workflow.Options{ScheduleToStart: 40 * time.Minute}},
			{Name: "window", Kind: workflow.SleepUntil, WakeFrom: workflow.Input, Spawned: true},
			{Name: "sub", Kind: workflow.ChildRun, Spawned: true, Child: workflow.ChildSpec{Workflow: "single", Output: workflow.OutputOf{Workflow: "single", Step: "a"}}},
			{Name: "paid", Kind: workflow.Wait, Signal: "paid", Spawned: true},
			{Name: "noted", Kind: workflow.Wait, Signal: "noted", Spawned: true},
		}})
	}
	return []*workflow.Graph{ordering(1), ordering(2), Deaf()}
}

// nodeOf returns the node whose function a task executes, by its name: a machine may have started
// it with a program of another version.
func nodeOf(h held) *workflow.Node {
	g := h.run.Graph
	if !h.task.IsSpawned() {
		return &g.Nodes[h.task.Step]
	}
	step, _ := lifecycle.SpawnedAs(h.task.Dynamic.Name)
	return &g.Nodes[slices.IndexFunc(g.Nodes, func(n workflow.Node) bool { return n.Name == step })]
}

// taskName is what handlers see of a task as its name.
func taskName(h held) string {
	if h.task.Dynamic != nil {
		return h.task.Dynamic.Name
	}
	return h.run.Graph.Nodes[h.task.Step].Name
}

// programs are the workflows that may execute the next activation of a run.
func (w *differ) programs(r *snapshot.Run) (list []*workflow.Graph) {
	now := r.Graph.Nodes[0].Fingerprint
	for _, g := range w.graphs {
		if g.Name == r.Graph.Name && (g.Nodes[0].Fingerprint == now || slices.Contains(g.Older, now)) {
			list = append(list, g)
		}
	}
	return list
}

// openMost is about how much a machine has open in a differential test.
const openMost = 12

// activate makes up what an activation decides, now and then what a store refuses. No machine of a
// test has all that it may: one that has handled a few entries is more and more likely to end.
func (w *differ) activate(r *sent, h held) {
	g := anyOf(w, w.programs(h.run))
	a := &persistence.Activation{Taken: h.run.Core.Signals, Definition: g.Hash}
	if before := h.run.Machine.Taken; a.Taken > before && w.chance(4) {
		a.Taken = before + int64(w.IntN(int(a.Taken-before)))
	}
	a.Heard = int32(a.Taken - h.run.Machine.Taken)
	if h.run.Machine.Version == 0 || !w.chance(4) {
		a.Version, a.State = int32(len(g.Older))+1, fmt.Appendf(nil, "%d", w.count)
	}
	if len(g.Signals()) > 0 && w.chance(10) {
		a.Refused = []persistence.RefusedSignal{{Name: anyOf(w, g.Signals()), Why: "no\x00 text"}}
	}
	r.Activation = a
	if w.IntN(40) < int(h.run.Machine.Taken) {
		return // it has completed
	}
	r.Report, r.Output = lifecycle.Yielded, nil
	for range w.IntN(6) {
		if n := h.run.Core.Dynamic; n > 0 && w.chance(3) {
			a.Cancel = append(a.Cancel, 1+int32(w.IntN(int(n))))
		} else if h.run.Core.Remaining < openMost && h.run.Core.Dynamic < 3*openMost {
			a.Start = append(a.Start, w.spawn(g, shipped(h, a)))
		}
	}
	for i := range h.run.Tasks { // a timer that has fired, and that the machine has not heard of
		if t := &h.run.Tasks[i]; t.Entry > a.Taken && t.Traits.Has(workflow.TraitSleepUntil) && w.chance(2) {
			a.Cancel = append(a.Cancel, t.Step-h.run.Core.Steps)
		}
	}
	if w.chance(12) {
		a.Cancel = append(a.Cancel, h.run.Core.Dynamic+int32(w.IntN(4)))
	}
	w.spoilActivation(r)
}

// shipped reports whether a machine has something open, or begins it, that may wait in the queue for
// so long: a second one could come before it there, and its end as well.
func shipped(h held, a *persistence.Activation) bool {
	return slices.ContainsFunc(a.Start, func(s persistence.Spawn) bool { return s.Step == "ship" }) ||
		slices.ContainsFunc(h.run.Tasks, func(t snapshot.Task) bool { return t.StartTimeout > 0 && !t.State.Terminal() })
}

// spawn is something that a program starts.
func (w *differ) spawn(g *workflow.Graph, shipped bool) persistence.Spawn {
	var starts []*workflow.Node
	for i := range g.Nodes[1:] {
		if n := &g.Nodes[i+1]; n.Kind != workflow.Wait && !(shipped && n.StartTimeout > 0) {
			starts = append(starts, n)
		}
	}
	n := anyOf(w, starts)
	s := persistence.Spawn{Step: n.Name, Input: fmt.Appendf(nil, "%d", w.count)}
	if n.Kind == workflow.SleepUntil {
		s.Input, s.WakeAt = nil, present.Add(anyOf(w, []time.Duration{-short, short, long}))
	}
	return s
}

// spoilActivation changes an activation so that a store refuses it. Of a run that stops nothing is
// stored, and whether its values are looked at is up to a store.
func (w *differ) spoilActivation(r *sent) {
	a := r.Activation
	r.spoiled = true
	switch w.IntN(60) {
	case 0:
		a.Definition[0] ^= 0xff
	case 1:
		a.Definition = w.graph("single").Hash
	case 2:
		a.Start = append(a.Start, persistence.Spawn{Step: anyOf(w, []string{"absent", "machine", "paid"})})
	case 3:
		a.Start = append(a.Start, persistence.Spawn{Step: "window"})
	case 4:
		if at := slices.IndexFunc(w.state.Runs, func(run snapshot.Run) bool { return run.ID == r.Task.Run }); w.state.Runs[at].Core.Canceling {
			r.spoiled = false
			return
		}
		a.Version, a.State = 1, []byte(BadPayload)
	default:
		r.spoiled = false
	}
}

// activationOf is an activation as a store gets it.
func (s *side) activationOf(a *persistence.Activation) *persistence.Activation {
	if a == nil {
		return nil
	}
	own := *a
	own.Start = slices.Clone(a.Start)
	for i := range own.Start {
		own.Start[i].WakeAt = s.in(own.Start[i].WakeAt)
	}
	return &own
}

// machineGrant is a grant of an activation as it is compared.
func (s *side) machineGrant(g *persistence.MachineGrant) *persistence.MachineGrant {
	if g == nil {
		return nil
	}
	own := *g
	own.State, own.Entries = orNil(own.State), entriesSeen(own.Entries)
	return &own
}

func entriesSeen(list []persistence.MachineEntry) []persistence.MachineEntry {
	list = slices.Clone(list)
	for i := range list {
		e := &list[i]
		e.At, e.Payload, e.Error = flat(e.At), orNil(e.Payload), errorText(e.Class, e.Error)
	}
	return list
}

// machineIs selects runs with a machine in a state.
func machineIs(states ...lifecycle.State) func(r snapshot.Run) bool {
	return func(r snapshot.Run) bool {
		m := r.Task(0)
		return r.Graph.IsMachine() && m != nil && slices.Contains(states, m.State)
	}
}

// turnStopped has more of the attempts that were asked to stop end as they do then.
func (w *differ) turnStopped(r *sent, h held) {
	if h.task.Flags.Has(lifecycle.FlagStop) && h.task.IsSpawned() && w.chance(2) {
		*r = sent{pod: r.pod, Transition: persistence.Transition{
			Task: r.Task, Epoch: r.Epoch, Report: anyOf(w, []lifecycle.ReportKind{lifecycle.Errored, lifecycle.Lost, lifecycle.Released}), Class: "test",
		}}
	}
}

// stopping reports whether something runs that was asked to stop: when it is fenced depends on the
// clock of a store, until an hour has passed.
func (w *differ) stopping() bool {
	return slices.ContainsFunc(w.state.Timers, func(t snapshot.Timer) bool { return t.Kind == lifecycle.StopTimer })
}

// asked selects runs whose machine has heard of a cancel and has not ended.
func asked(r snapshot.Run) bool {
	return r.Graph.IsMachine() && r.Task(0) != nil && r.Task(0).Flags.Has(lifecycle.FlagStop) && !r.Task(0).State.Terminal()
}

// impel lets machines get further.
func (w *differ) impel() {
	if open := slices.IndexFunc(w.state.Runs, machineIs(lifecycle.Waiting, lifecycle.Queued, lifecycle.Running)); open < 0 {
		w.trigger()
		w.compareStates()
	}
	w.forward()
	switch {
	case w.chance(3):
		w.signal()
		w.compareStates()
	case w.chance(6), w.chance(2) && slices.ContainsFunc(w.state.Runs, asked):
		w.fire()
		w.compareStates()
	case w.chance(6):
		w.cancel()
		w.compareStates()
	}
	if at := slices.IndexFunc(w.state.Runs, func(r snapshot.Run) bool { return r.Graph.IsMachine() && w.chance(2) }); at >= 0 && w.chance(2) {
		w.machineOf(w.state.Runs[at].Tenant, &w.state.Runs[at])
	}
	w.drain()
}

// machineOf compares what readers see of a machine.
func (w *differ) machineOf(tenant string, r *snapshot.Run) {
	query := persistence.EntryQuery{After: int64(w.IntN(4)), Limit: w.IntN(4)}
	out := both(w, fmt.Sprintf("machine of %v of %q: %+v", r.ID, tenant, query), func(s *side) (persistence.MachineRow, error) {
		row, err := s.Store.Machine(w.ctx, tenant, r.ID, query)
		row.State, row.BaseState, row.Entries = orNil(row.State), orNil(row.BaseState), entriesSeen(row.Entries)
		return row, err
	})
	switch {
	case out.Error == persistence.ErrNoMachine.Error():
		w.saw("run that is no machine")
	case out.Error == "" && out.Value.More:
		w.saw("page of entries read")
	case out.Error == "":
		w.saw("machine read")
	}
}

// sawActivation counts what became of the report of an activation.
func (w *differ) sawActivation(r sent) {
	w.saw("activation recorded")
	if r.Report == lifecycle.Succeeded {
		w.saw("machine completed")
	}
	w.sawAll(len(r.Activation.Start), "activation starts something")
	w.sawAll(len(r.Activation.Cancel), "activation cancels something")
}

// machineMoves are what machines, and what they have started, go through that has to happen.
func machineMoves() []string {
	return []string{
		"machine: pending to queued", "machine: queued to running", "machine: running to waiting", "machine: running to queued",
		"machine: waiting to queued", "machine: running to completed", "machine: running to failed", "machine: running to backoff",
		"machine: backoff to queued", "machine: waiting to canceled", "machine: running to canceled",
		"started: queued to running", "started: running to completed", "started: running to failed", "started: running to canceled",
		"started: running to backoff", "started: running to waiting", "started: running to queued", "started: backoff to queued",
		"started: sleeping to completed", "started: sleeping to canceled", "started: queued to canceled", "started: queued to failed",
		"started: waiting to completed", "started: waiting to failed", "started: waiting to canceled",
		"machine stalled", "cancel heard by a machine", "cancel of a machine too late", "machine continues with another program", "signal left out",
		"end of what a machine started", "end of a timer", "timer taken back", "end that a machine does not hear",
		"task asked to stop", "task stopped", "task fenced", "task completed although it was asked to stop",
	}
}

// sawMachines counts what machines have done between two states.
func (w *differ) sawMachines(before, after *snapshot.Tables) {
	for i := range after.Runs {
		r := &after.Runs[i]
		if !r.Graph.IsMachine() {
			continue
		}
		at := slices.IndexFunc(before.Runs, func(old snapshot.Run) bool { return old.ID == r.ID })
		if at < 0 {
			continue
		}
		old := &before.Runs[at]
		if old.Graph.Hash != r.Graph.Hash {
			w.saw("machine continues with another program")
		}
		for _, e := range r.Events {
			was := func(o lifecycle.Event) bool { return o.Step == e.Step && o.N == e.N }
			if e.Step <= 0 && !slices.ContainsFunc(old.Events, was) {
				w.sawMachineEvent(e)
			}
		}
		for j := range r.Tasks {
			t := &r.Tasks[j]
			w.sawMove(old.Task(t.Step), t)
		}
	}
}

func (w *differ) sawMachineEvent(e lifecycle.Event) {
	switch {
	case e.Kind == lifecycle.EventSignalRefused:
		w.saw("signal left out")
	case e.Class == lifecycle.ClassStalled:
		w.saw("machine stalled")
	case e.Kind == lifecycle.EventCancelRequested && e.By == "cancel_grace":
		w.saw("cancel of a machine too late")
	}
}

func (w *differ) sawMove(old, t *snapshot.Task) {
	what := "started"
	if t.Step == 0 {
		what = "machine"
	}
	if old == nil {
		return
	}
	move := fmt.Sprintf("%s: %v to %v", what, old.State, t.State)
	if old.State != t.State && slices.Contains(machineMoves(), move) {
		w.saw(move)
	}
	stopped := t.Flags.Has(lifecycle.FlagStop)
	switch {
	case stopped && !old.Flags.Has(lifecycle.FlagStop) && t.Step == 0:
		w.saw("cancel heard by a machine")
	case stopped && !old.Flags.Has(lifecycle.FlagStop):
		w.saw("task asked to stop")
	case t.Step == 0 || old.State != lifecycle.Running || !stopped:
	case t.State == lifecycle.Completed:
		w.saw("task completed although it was asked to stop")
	case t.State == lifecycle.Canceled && t.Flags.Has(lifecycle.FlagCancel):
		w.saw("task fenced")
	case t.State == lifecycle.Canceled:
		w.saw("task stopped")
	}
	switch timer := t.Traits.Has(workflow.TraitSleepUntil); {
	case old.Entry == t.Entry || t.Step == 0:
	case old.Entry > 0:
		w.saw("timer taken back")
	case t.Entry < 0:
		w.saw("end that a machine does not hear")
	case timer:
		w.saw("end of a timer")
	default:
		w.saw("end of what a machine started")
	}
}

// ofMachine reports whether a run is there, and of a machine.
func (w *differ) ofMachine(run workflow.RunID) bool {
	return slices.ContainsFunc(w.state.Runs, func(r snapshot.Run) bool { return r.ID == run && r.Graph.IsMachine() })
}
