package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// machined is what a store keeps of a machine, and what a test knows of its entries.
type machined struct {
	taken int64            // entries up to this number are handled
	given map[int64]string // entries that it may hear of, by number, as they were first seen
	back  map[int64]bool   // those of timers that it has taken back
}

func (w *world) isMachine() bool {
	return len(w.tasks) > 0 && w.tasks[0].Traits.Has(workflow.TraitMachine)
}

// heardEntry is an entry of the inbox of a machine.
type heardEntry struct {
	n    int64
	what string
	task int32 // that has ended; 0: it is a signal or a cancel
}

func (e heardEntry) String() string { return fmt.Sprintf("%d %s", e.n, e.what) }

// inboxOfMachine are the entries that a store has for the machine, by number.
func (w *world) inboxOfMachine() []heardEntry {
	var list []heardEntry
	for _, e := range w.inbox {
		list = append(list, heardEntry{n: e.N, what: "signal " + e.Name})
	}
	for i := range w.tasks {
		switch t := &w.tasks[i]; {
		case t.Entry > 0 && t.Step == 0:
			list = append(list, heardEntry{n: t.Entry, what: "cancel"})
		case t.Entry > 0:
			list = append(list, heardEntry{n: t.Entry, what: fmt.Sprintf("%s %v", t.Dynamic.Name, t.State), task: t.Step})
		}
	}
	slices.SortFunc(list, func(a, b heardEntry) int { return cmp.Compare(a.n, b.n) })
	return list
}

// activated keeps how far the activation has come that a decision applied.
func (w *world) activated(facts []Fact, d Decision) {
	for i, fact := range facts {
		if r, is := fact.(TaskReported); is && r.Activation != nil && i < len(d.Answers) && d.Answers[i] == Moved && d.Activated {
			w.machine.taken = r.Activation.Taken
		}
	}
}

// checkMachine: entries have numbers of their own, up to that of the last one, and stay what they
// are, unless the machine takes it back (I16). It waits only if it has handled
// all of them, and what it has started has the number and the name that say so.
func (w *world) checkMachine() {
	w.tb.Helper()
	if w.machine.given == nil {
		w.machine.given, w.machine.back = map[int64]string{}, map[int64]bool{}
	}
	last := int64(0)
	list := w.inboxOfMachine()
	for _, e := range list {
		require.Greater(w.tb, e.n, last, "entry %v has the number of another one", e)
		last = e.n
		require.False(w.tb, w.machine.back[e.n], "entry %v was taken back", e)
		if was, seen := w.machine.given[e.n]; seen {
			require.Equal(w.tb, was, e.what, "entry %d", e.n)
		}
		w.machine.given[e.n] = e.what
	}
	require.LessOrEqual(w.tb, last, w.run.Signals)
	for n, what := range w.machine.given {
		if slices.ContainsFunc(list, func(e heardEntry) bool { return e.n == n }) {
			continue
		}
		if n <= w.machine.taken || !strings.HasPrefix(what, "window#") && !strings.HasSuffix(what, " failed") && !strings.HasSuffix(what, " skipped") { // a timer or a failure that was canceled too late is taken back
			w.tb.Fatalf("entry %d (%s) is gone", n, what)
		}
		delete(w.machine.given, n)
		w.machine.back[n] = true
	}
	require.LessOrEqual(w.tb, w.machine.taken, w.run.Signals)
	if m := w.tasks[0]; m.State == Waiting && w.machine.taken != w.run.Signals {
		w.tb.Fatalf("the machine waits and has handled %d of %d entries", w.machine.taken, w.run.Signals)
	}
	for i := range w.tasks[1:] {
		w.checkSpawned(&w.tasks[i+1])
	}
}

// checkSpawned: the machine hears of each end once, but for what it has canceled, as long as it has
// not ended itself.
func (w *world) checkSpawned(t *Task) {
	w.tb.Helper()
	_, n := SpawnedAs(t.Dynamic.Name)
	require.Equal(w.tb, t.Step, w.run.Steps+n)
	require.Zero(w.tb, t.Dynamic.Owner)
	m := &w.tasks[0]
	switch {
	case !t.State.Terminal():
		require.Zero(w.tb, t.Entry, "%s has not ended", t.Dynamic.Name)
	case t.State == Canceled:
		require.LessOrEqual(w.tb, t.Entry, int64(0), "the machine does not hear of %s", t.Dynamic.Name)
	case !m.State.Terminal():
		require.NotZero(w.tb, t.Entry, "the machine has not heard of %s", t.Dynamic.Name)
	}
	if m.State.Terminal() && w.run.State == Running {
		require.True(w.tb, t.State.Terminal() || t.State == Running && (t.stopped() || w.run.Canceling), "%s is %v after the machine", t.Dynamic.Name, t.State)
	}
}

// activating reports whether the machine is where no event of it says so: it was woken or claimed
// since the last one.
func (w *world) activating() bool {
	m := &w.tasks[0]
	said := max(w.folded[0], Pending)
	woken := (said == Waiting || said == Queued) && (m.State == Queued || m.State == Running)
	return woken && m.Epoch >= w.counts[0] && m.Epoch <= w.counts[0]+2
}

// skipped counts the wake and the claim of a machine, for which its next event stands.
func (w *world) skipped(e Event) {
	w.tb.Helper()
	require.LessOrEqual(w.tb, e.N-w.counts[0], int64(2), "event %v stands for a wake and a claim at most", e)
	if w.folded[0] == Waiting {
		w.folded[0] = Queued
	}
	w.folded[0] = Running
	w.counts[0] = e.N
}

// activation reads what an activation of a script decides.
func (s *script) activation(c command) *Activation {
	s.tb.Helper()
	a := &Activation{Taken: c.number(s.tb, "taken", s.w.run.Signals), Deaf: slices.Contains(c.args, "deaf")}
	for _, e := range s.w.inboxOfMachine() {
		if e.n > s.w.machine.taken && e.n <= a.Taken {
			a.Heard++
		}
	}
	for _, name := range c.list("start") {
		name, in, _ := strings.Cut(name, "@")
		t := s.w.spawn(name)
		if in != "" {
			t.WakeAt = s.w.now.Add(duration(s.tb, in))
		}
		a.Start = append(a.Start, t)
	}
	for _, name := range c.list("cancel") {
		_, n := SpawnedAs(name)
		a.Cancel = append(a.Cancel, s.w.run.Steps+n)
	}
	for _, name := range c.list("refuse") {
		a.Refused = append(a.Refused, RefusedSignal{name, "it cannot be read"})
	}
	return a
}

// spawn is what a machine starts of a step.
func (w *world) spawn(name string) Task {
	w.tb.Helper()
	g := w.plan.graph()
	step := slices.IndexFunc(g.Nodes, func(n workflow.Node) bool { return n.Name == name })
	require.Positive(w.tb, step, "the machine does not start %q", name)
	return NewDynamic(int32(step), &g.Nodes[step], name)
}
