package swarm

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// ActivationCrash is a pod that crashes a moment after a machine has decided something: before the
// activation is recorded, or behind that.
const ActivationCrash sim.Class = "activation-crash"

// machinery is what the oracle knows of machines: from what activations were given and have
// decided, and from what the database then has.
type machinery struct {
	oracle  *oracle
	runs    map[workflow.RunID]*model
	pending map[workflow.RunID][]decided // by the transaction that is judged
}

// decided is a report with an activation that the database says it has recorded.
type decided struct {
	epoch      int64
	activation persistence.Activation
}

// model is how far a machine should have come.
type model struct {
	version  int32
	state    []byte
	taken    int64
	entries  []entry // by number, from 1
	started  []persistence.Spawn
	canceled map[int32]bool // what recorded activations have canceled
	ended    bool           // the machine itself
	terminal map[int32]bool // what has ended of what it has started
	epoch    int64          // under which it was granted last
	input    []byte
	begunAt  time.Time
	took     map[int64]bool // epochs whose activation was recorded
}

// entry is one that the machine should hear of.
type entry struct {
	persistence.MachineEntry

	unheard bool
}

func newMachinery(o *oracle) *machinery {
	return &machinery{oracle: o, runs: map[workflow.RunID]*model{}, pending: map[workflow.RunID][]decided{}}
}

func (m *machinery) fail(promise string, run workflow.RunID, format string, args ...any) {
	s := m.oracle.seed
	s.world.Fail(promise, "%s: "+format, append([]any{s.nameOf(run)}, args...)...)
}

func (m *machinery) of(run *snapshot.Run) *model {
	if m.runs[run.ID] == nil {
		m.runs[run.ID] = &model{canceled: map[int32]bool{}, terminal: map[int32]bool{}, took: map[int64]bool{}}
	}
	return m.runs[run.ID]
}

// granted notes that an activation was granted, for which there is no event.
func (m *machinery) granted(run *snapshot.Run) {
	if !run.Graph.IsMachine() || run.Task(0) == nil {
		return
	}
	t, w := run.Task(0), m.of(run)
	b := m.oracle.book.runs[run.ID]
	if t.State != lifecycle.Running || t.Epoch == w.epoch || b == nil || len(b.tasks) == 0 {
		return
	}
	w.epoch = t.Epoch
	a := &b.tasks[0]
	a.pod, a.at = t.Pod, m.oracle.seed.world.Now()
	if m.oracle.book.dead[t.Pod] {
		m.fail("I4", run.ID, "an activation was granted to pod %d, which was declared dead", t.Pod)
	}
}

// reported notes an activation that the database says it has recorded.
func (m *machinery) reported(t *persistence.Transition, answer lifecycle.Answer) {
	switch {
	case t.Activation == nil:
	case answer == lifecycle.AlreadyYours:
		m.oracle.seed.saw(SawActivationUnheard)
	case answer == lifecycle.Moved:
		m.pending[t.Task.Run] = append(m.pending[t.Task.Run], decided{t.Epoch, *t.Activation})
	}
}

// judge compares the run of a machine, as a transaction has left it, with what should be there.
func (m *machinery) judge(run *snapshot.Run) {
	pending := m.pending[run.ID]
	delete(m.pending, run.ID)
	if !run.Graph.IsMachine() || run.Task(0) == nil {
		return
	}
	w := m.of(run)
	for i := range pending {
		m.apply(run, w, &pending[i])
	}
	m.events(run, w)
	m.arrived(run, w)
	m.spawned(run, w)
	stored := &run.Machine
	if stored.Taken != w.taken || stored.Version != w.version || !bytes.Equal(stored.State, w.state) {
		m.fail("I17", run.ID, "the database has the state %d %s at entry %d; the last activation left %d %s at %d",
			stored.Version, stored.State, stored.Taken, w.version, w.state, w.taken)
	}
	t := run.Task(0)
	asked := slices.ContainsFunc(run.Events, func(e lifecycle.Event) bool { return e.Kind == lifecycle.EventCancelRequested })
	told := slices.ContainsFunc(w.entries, func(e entry) bool { return e.Kind == persistence.EntryCancel })
	if asked && !told && run.Graph.Nodes[0].Sleep > 0 && !run.Core.Canceling && !w.ended {
		m.fail("I16", run.ID, "the run was asked to stop, and the machine will not hear of it")
	}
	open := slices.ContainsFunc(run.Tasks, func(t snapshot.Task) bool { return t.IsSpawned() && !t.State.Terminal() })
	if t.State == lifecycle.Waiting && !open && len(run.Graph.Signals()) == 0 && !t.Flags.Has(lifecycle.FlagStop) {
		m.fail("I16", run.ID, "the machine waits, hears no signals and has nothing open")
	}
	w.ended = t.State.Terminal()
}

// apply applies an activation to the model, if an event says that it counts.
func (m *machinery) apply(run *snapshot.Run, w *model, d *decided) {
	i := slices.IndexFunc(run.Events, func(e lifecycle.Event) bool { return e.Step == 0 && e.N == d.epoch+1 })
	if i < 0 {
		m.fail("I16", run.ID, "an activation under epoch %d was acknowledged, and has no event", d.epoch)
		return
	}
	kind := run.Events[i].Kind
	if kind != lifecycle.EventActivated && kind != lifecycle.EventCompleted {
		return // its run was stopping
	}
	a := &d.activation
	if a.Taken < w.taken || a.Taken > int64(len(w.entries)) || w.took[d.epoch] {
		m.fail("I16", run.ID, "an activation under epoch %d handles entries up to %d; handled were %d of %d", d.epoch, a.Taken, w.taken, len(w.entries))
	}
	w.took[d.epoch] = true
	if w.version != 0 && a.Version > w.version {
		m.oracle.seed.saw(SawMigrated)
	}
	w.taken, w.version, w.state = a.Taken, a.Version, a.State
	w.started = append(w.started, a.Start...)
	for _, n := range a.Cancel {
		w.canceled[n] = true
	}
	m.remembered(run, w)
	if kind == lifecycle.EventCompleted {
		m.oracle.seed.saw(SawMachineCompleted)
	}
}

// remembered judges what the machine itself keeps of the entries: each was handled once.
func (m *machinery) remembered(run *snapshot.Run, w *model) {
	var own memo
	if err := json.Unmarshal(w.state, &own); err != nil {
		m.fail("I17", run.ID, "its state is %q", w.state)
		return
	}
	ended := slices.Sorted(slices.Values(own.Ended))
	if len(slices.Compact(slices.Clone(ended))) < len(ended) {
		m.fail("I16", run.ID, "the machine has heard twice of an end: %v", ended)
	}
}

// events judges that each event of an activation is of one that was reported.
func (m *machinery) events(run *snapshot.Run, w *model) {
	for i := range run.Events {
		if e := &run.Events[i]; e.Step == 0 && e.Kind == lifecycle.EventActivated && !w.took[e.N-1] {
			m.fail("I16", run.ID, "an activation under epoch %d is recorded, and no pod has reported it", e.N-1)
		}
	}
}

// arrived judges the numbers of entries, and notes the new ones.
func (m *machinery) arrived(run *snapshot.Run, w *model) {
	s := m.oracle.seed
	for i := range run.Tasks { // a timer that has fired and was canceled then
		t := &run.Tasks[i]
		if n := -t.Entry; t.IsSpawned() && n > 0 && n <= int64(len(w.entries)) && w.entries[n-1].Name == t.Dynamic.Name && !w.entries[n-1].unheard {
			_, as := lifecycle.SpawnedAs(t.Dynamic.Name)
			e := &w.entries[n-1]
			if n <= w.taken || e.Kind == persistence.EntryCompleted || !w.canceled[as] && !run.Task(0).State.Terminal() {
				m.fail("I16", run.ID, "entry %d, %s, was taken away; %d were handled", n, t.Dynamic.Name, w.taken)
			}
			e.unheard = true
			s.saw(SawUnheardTimer)
		}
	}
	known := int64(len(w.entries))
	if run.Core.Signals < known {
		m.fail("I16", run.ID, "%d entries have come, and there were %d before", run.Core.Signals, known)
		return
	}
	if run.Core.Signals == known {
		return
	}
	row, err := s.world.Model().Machine(s.ctx, run.Tenant, run.ID, persistence.EntryQuery{After: known, Limit: persistence.EntriesMax})
	if err != nil && s.world.Model().IsBlocked(run.ID) {
		return
	}
	next := row.Entries
	for n := known + 1; n <= run.Core.Signals; n++ {
		switch {
		case len(next) > 0 && next[0].N == n:
			m.entry(run, w, &next[0])
			w.entries = append(w.entries, entry{MachineEntry: next[0]})
			next = next[1:]
		case m.takenBack(run, w, n):
			w.entries = append(w.entries, entry{MachineEntry: persistence.MachineEntry{N: n}, unheard: true})
		default:
			m.fail("I16", run.ID, "%d entries have come behind %d, and number %d is not among these: %v %v", run.Core.Signals-known, known, n, names(row.Entries), err)
			return
		}
	}
	if len(next) > 0 {
		m.fail("I16", run.ID, "the entries behind %d are not in order: %v", known, names(row.Entries))
	}
}

// takenBack reports whether the machine has canceled what an entry is about in the transaction in
// which that failed.
func (m *machinery) takenBack(run *snapshot.Run, w *model, n int64) bool {
	return slices.ContainsFunc(run.Tasks, func(t snapshot.Task) bool {
		if !t.IsSpawned() || t.Entry != -n || t.State == lifecycle.Canceled || t.State == lifecycle.Completed {
			return false
		}
		_, as := lifecycle.SpawnedAs(t.Dynamic.Name)
		return w.canceled[as]
	})
}

// entry judges a new entry by what it is about.
func (m *machinery) entry(run *snapshot.Run, w *model, e *persistence.MachineEntry) {
	s := m.oracle.seed
	switch e.Kind {
	case persistence.EntrySignal:
		sent := slices.ContainsFunc(s.client.sent, func(x *sending) bool {
			return x.order.name == s.nameOf(run.ID) && x.name == e.Name && bytes.Equal(x.payload(), e.Payload) && !x.rolledBack
		})
		if !sent {
			m.fail("I19", run.ID, "entry %d is a signal that was not sent: %s %s", e.N, e.Name, e.Payload)
		}
		return
	case persistence.EntryCancel:
		if !run.Task(0).Flags.Has(lifecycle.FlagStop) {
			m.fail("I16", run.ID, "entry %d is a cancel, and there was none", e.N)
		}
		s.saw(SawCancelHeard)
		return
	case persistence.EntryCompleted, persistence.EntryFailed, persistence.EntryFired:
	}
	_, n := lifecycle.SpawnedAs(e.Name)
	t := run.Task(run.Core.Steps + n)
	fits := false
	switch {
	case t == nil || w.terminal[n]:
	case e.Kind == persistence.EntryFired:
		fits = t.State == lifecycle.Completed && t.Traits.Has(workflow.TraitSleepUntil) && !w.canceled[n] && !e.At.Before(w.started[n-1].WakeAt.Truncate(time.Microsecond))
	case e.Kind == persistence.EntryCompleted:
		fits = t.State == lifecycle.Completed && bytes.Equal(t.Output, e.Payload)
		if fits && w.canceled[n] {
			s.saw(SawStoppedLate)
		}
	default:
		fits = t.State != lifecycle.Completed && !w.canceled[n] && t.Class == e.Class
	}
	if !fits {
		m.fail("I16", run.ID, "entry %d is of kind %d of %s, canceled %v, ended before %v", e.N, e.Kind, e.Name, w.canceled[n], w.terminal[n])
	}
}

// spawned judges that what the machine has started is there, as it was asked for, and that it hears
// of what has ended.
func (m *machinery) spawned(run *snapshot.Run, w *model) {
	if int(run.Core.Dynamic) != len(w.started) {
		m.fail("I18", run.ID, "%d things were started; recorded activations ask for %d", run.Core.Dynamic, len(w.started))
		return
	}
	for i := range w.started {
		n, spawn := int32(i+1), &w.started[i]
		t := run.Task(run.Core.Steps + n)
		if t == nil || !t.IsSpawned() || t.Dynamic.Name != lifecycle.SpawnedName(spawn.Step, n) || !bytes.Equal(t.Item, spawn.Input) {
			m.fail("I18", run.ID, "%s was started as number %d, and is not there", spawn.Step, n)
			return
		}
		switch {
		case !t.State.Terminal() && t.State != lifecycle.Running && w.canceled[n]:
			m.fail("I18", run.ID, "%s is %v, and was canceled", t.Dynamic.Name, t.State)
		case !t.State.Terminal() || w.terminal[n]:
			if w.terminal[n] && !t.State.Terminal() {
				m.fail("I3", run.ID, "%s had ended and continues", t.Dynamic.Name)
			}
			continue
		case t.State == lifecycle.Canceled && !w.canceled[n] && !run.Task(0).State.Terminal() && !run.Core.Canceling:
			m.fail("I18", run.ID, "%s was canceled, and the machine has not asked for that", t.Dynamic.Name)
		case t.State != lifecycle.Canceled && t.Entry == 0 && !w.ended && !run.Task(0).State.Terminal():
			m.fail("I16", run.ID, "%s has ended, and the machine will not hear of it", t.Dynamic.Name)
		}
		w.terminal[n] = true
	}
}
