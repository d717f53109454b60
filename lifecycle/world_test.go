package lifecycle

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// world is one run in a store that does what the callers of Decide must do:
// load few rows, load more when asked, write everything. It checks the
// promises of a run after every fact.
type world struct {
	tb      testing.TB
	plan    plan
	run     Run
	tasks   []Task
	now     time.Time
	events  []Event
	queue   map[int32]Enqueue // as in a store, rows may outlive their task's wait
	timers  map[timerKey]Timer
	inbox   []Entry         // that no step has taken
	taken   map[int64]int32 // by which step an entry was
	begun   map[int32]int   // child runs of a step
	given   map[int32]int   // outputs of child runs, to a step
	maps    map[int32]Map   // that have begun elements, without Next
	lists   map[int32]list  // of these
	opened  map[int32]int32 // elements of these that have not ended
	machine machined        // how far it has come, if the run is one

	checked int             // events that were checked
	counts  map[int32]int64 // of events per step
	folded  map[int32]State // of events per step
}

type timerKey struct {
	step int32
	kind TimerKind
}

func newWorld(tb testing.TB, p plan) *world {
	tb.Helper()
	g := p.graph()
	w := &world{
		tb: tb, plan: p, run: NewRun(g), now: time.Unix(0, 0).UTC(),
		queue: map[int32]Enqueue{}, timers: map[timerKey]Timer{}, taken: map[int64]int32{},
		begun: map[int32]int{}, given: map[int32]int{}, maps: map[int32]Map{}, lists: map[int32]list{}, opened: map[int32]int32{},
		counts: map[int32]int64{}, folded: map[int32]State{},
	}
	if p.depth > 0 {
		w.run = NewChild(g, p.depth)
	}
	for i := range g.Nodes {
		if g.Nodes[i].Traits.Has(workflow.TraitSpawned) {
			continue
		}
		w.tasks = append(w.tasks, NewTask(int32(i), &g.Nodes[i]))
	}
	w.events = []Event{{Step: RunStep, N: 1, Kind: EventRunCreated, At: w.now}}
	return w
}

// apply decides on facts the way a store does and writes the decision.
func (w *world) apply(facts ...Fact) Decision {
	w.tb.Helper()
	asked := facts
	for i, fact := range facts {
		if r, is := fact.(TaskReported); is && r.Map != nil {
			w.list(r.Step, r.Map)
			copied := *r.Map
			copied.Next, r.Map = slices.Clone(copied.Next), &copied
			asked = slices.Clone(asked)
			asked[i] = r
		}
	}
	few := w.rows(facts)
	before := clone(few)
	d := Decide(w.run, few, facts, w.now)
	w.same(before, few, "Decide changed its arguments")
	w.same(asked, facts, "Decide changed the facts")

	all := Decide(w.run, w.allRows(), facts, w.now)
	require.False(w.tb, all.MissingAll || all.MissingInbox)
	require.Empty(w.tb, all.Missing)
	require.Empty(w.tb, all.MissingMaps)
	for rounds := 0; d.MissingAll || d.MissingInbox || len(d.Missing)+len(d.MissingMaps) > 0; rounds++ {
		require.Less(w.tb, rounds, 3*len(w.tasks), "what a decision asks for comes to an end")
		few = w.more(few, d)
		d = Decide(w.run, few, facts, w.now)
	}
	w.same(all, d, "few rows and all rows decide differently")
	w.write(d)
	w.activated(facts, d)
	w.check(d)
	return d
}

func (w *world) same(want, got any, what string) {
	w.tb.Helper()
	if !reflect.DeepEqual(want, got) {
		w.tb.Fatalf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
	}
}

// rows are the tasks that the facts name and their children.
func (w *world) rows(facts []Fact) Rows {
	steps := map[int32]bool{}
	add := func(step int32) {
		t := w.task(step)
		if t == nil {
			return
		}
		steps[step] = true
		for _, c := range t.Children {
			steps[c.Step] = true
		}
	}
	for _, fact := range facts {
		switch f := fact.(type) {
		case TaskReported:
			add(f.Step)
		case ChildEnded:
			add(f.Step)
		case TimerFired:
			add(f.Step)
		case SignalArrived:
			for _, step := range f.Steps[:min(len(f.Steps), 1)] { // a store may load them, or wait until it is asked for them
				add(step)
			}
		case RunStarted, CancelRequested:
		}
	}
	var rows Rows
	for i := range w.tasks {
		if steps[w.tasks[i].Step] {
			rows.Tasks = append(rows.Tasks, w.tasks[i])
		}
	}
	return rows
}

// more returns the rows with those that a decision asked for.
func (w *world) more(rows Rows, asks Decision) Rows {
	w.tb.Helper()
	add := func(t *Task) {
		if t != nil && !slices.ContainsFunc(rows.Tasks, func(other Task) bool { return other.Step == t.Step }) {
			rows.Tasks = append(rows.Tasks, *t)
		}
	}
	for _, step := range asks.Missing {
		if w.task(step) == nil {
			rows.Complete = true // a store knows by then that there is none
		}
		add(w.task(step))
	}
	for i := range w.tasks {
		if asks.MissingAll || rows.Complete {
			add(&w.tasks[i])
		}
	}
	rows.Complete = rows.Complete || asks.MissingAll
	if asks.MissingInbox {
		rows.Inbox, rows.InboxKnown = slices.Clone(w.inbox), true
	}
	for _, step := range asks.MissingMaps {
		require.False(w.tb, slices.ContainsFunc(rows.Maps, func(m Map) bool { return m.Step == step }), "the map was given")
		rows.Maps = append(rows.Maps, w.mapOf(step))
	}
	slices.SortFunc(rows.Tasks, func(a, b Task) int { return int(a.Step) - int(b.Step) })
	return rows
}

func (w *world) allRows() Rows {
	rows := Rows{Tasks: slices.Clone(w.tasks), Complete: true, Inbox: slices.Clone(w.inbox), InboxKnown: true}
	for step := range w.maps {
		rows.Maps = append(rows.Maps, w.mapOf(step))
	}
	return rows
}

func clone(r Rows) Rows {
	r.Tasks, r.Maps = slices.Clone(r.Tasks), slices.Clone(r.Maps)
	for i := range r.Tasks {
		r.Tasks[i].Children = slices.Clone(r.Tasks[i].Children)
	}
	return r
}

func (w *world) write(d Decision) {
	w.tb.Helper()
	require.Equal(w.tb, w.run != d.Run, d.RunChanged)
	w.run = d.Run
	for _, t := range d.Tasks {
		*w.task(t.Step) = t
	}
	for _, t := range d.Created {
		at, there := slices.BinarySearchFunc(w.tasks, t.Step, taskAt)
		require.False(w.tb, there, "a created task has a number of its own")
		w.tasks = slices.Insert(w.tasks, at, t)
	}
	for _, e := range d.Enqueued {
		require.Equal(w.tb, Queued, w.task(e.Step).State, "only queued tasks get a place")
		w.queue[e.Step] = e
	}
	for key := range w.timers {
		if slices.Contains(d.DropTimers, key.step) {
			delete(w.timers, key)
		}
	}
	for _, t := range d.Timers {
		w.timers[timerKey{t.Step, t.Kind}] = t
	}
	w.events = append(w.events, d.Events...)
	w.inbox = append(w.inbox, d.Arrived...)
	for _, t := range d.Taken {
		at := slices.IndexFunc(w.inbox, func(e Entry) bool { return e.N == t.N })
		require.GreaterOrEqual(w.tb, at, 0, "entry %d is in the inbox", t.N)
		require.Equal(w.tb, w.task(t.Step).Signal, w.inbox[at].Name)
		w.inbox = slices.Delete(w.inbox, at, at+1)
		w.taken[t.N] = t.Step
	}
	for _, m := range d.Maps {
		m.Next = nil
		w.maps[m.Step] = m
	}
}

// signal sends a signal to the run.
func (w *world) signal(name string) Decision {
	w.tb.Helper()
	return w.apply(SignalArrived{Name: name, Steps: w.plan.graph().WaitsFor(name)})
}

// task returns the row of a step, or nil. Without a failure handler there is none of its
// number, also where dynamic tasks come after it.
func (w *world) task(step int32) *Task {
	at, there := slices.BinarySearchFunc(w.tasks, step, taskAt)
	if !there {
		return nil
	}
	return &w.tasks[at]
}

func taskAt(t Task, step int32) int { return int(t.Step) - int(step) }

// claim grants a queued task to a pod.
func (w *world) claim(step int32, pod int64) Event {
	w.tb.Helper()
	t, event := Claim(*w.task(step), pod, w.now)
	_, ok := w.queue[step]
	require.True(w.tb, ok, "a queued task has a place")
	delete(w.queue, step)
	*w.task(step) = t
	if event.Kind != 0 {
		w.events = append(w.events, event)
	}
	return event
}

// report says how the attempt that runs now ended.
func (w *world) report(step int32, r TaskReported) TaskReported {
	t := w.task(step)
	r.Step, r.Epoch, r.Pod = step, t.Epoch, t.Pod
	return r
}

// fire takes a timer out of the store and applies it, moving the clock on if
// it is not due yet.
func (w *world) fire(key timerKey) Decision {
	w.tb.Helper()
	timer, ok := w.timers[key]
	require.True(w.tb, ok, "no such timer")
	delete(w.timers, key)
	if timer.At.After(w.now) {
		w.now = timer.At
	}
	return w.apply(TimerFired{Step: timer.Step, Timer: timer.Kind, Epoch: timer.Epoch})
}

func (w *world) in(states ...State) []int32 {
	var steps []int32
	for i := range w.tasks {
		if slices.Contains(states, w.tasks[i].State) {
			steps = append(steps, w.tasks[i].Step)
		}
	}
	return steps
}

func (w *world) states() []State {
	states := make([]State, len(w.tasks))
	for i := range w.tasks {
		states[i] = w.tasks[i].State
	}
	return states
}
