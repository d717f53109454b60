package lifecycle

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// program is a machine as its author writes one: what it does with an entry follows from the
// entries before it, and from nothing else.
type program struct {
	sum     uint64 // of all entries so far
	count   int
	started int32
	actions []string
	start   []string // of the activation
	cancel  []int32  // the same
	over    bool
	most    int // entries that it handles
	deaf    bool
}

// on handles an entry.
func (p *program) on(e heardEntry) {
	if p.over {
		return
	}
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, p.sum, e)
	p.sum = hash.Sum64()
	p.count++
	p.over = p.count > p.most
	choose := rand.New(rand.NewPCG(p.sum, 0))
	if p.over {
		return
	}
	for range choose.IntN(3) {
		p.started++
		step := []string{"charge", "window", "sub", "slow"}[choose.IntN(4)]
		p.start = append(p.start, step)
		p.actions = append(p.actions, SpawnedName(step, p.started))
	}
	for range choose.IntN(3) {
		if before := p.started - int32(len(p.start)); before > 0 {
			n := 1 + int32(choose.IntN(int(before)))
			p.cancel = append(p.cancel, n)
		}
	}
}

// machineHistory drives a machine to its end.
type machineHistory struct {
	*world
	source
	program program // as the store has it
	log     []heardEntry
	past    []TaskReported
	cancels int // left
	signals int // left
	seen    map[string]int
	spoil   func(h *machineHistory) // a mistake of the store after each fact; nil: none
}

// randomMachine is the plan of a machine.
func randomMachine(s source) plan {
	p := plan{policy: pick(s, workflow.FailFast, workflow.FinishSiblings), depth: pick[int16](s, 0, 0, 0, 1, DepthMax)}
	p.steps = []planStep{
		{name: "machine", traits: workflow.TraitMachine, sleep: pick(s, 0, time.Minute)},
		{name: "charge", traits: workflow.TraitSpawned},
		{name: "window", traits: workflow.TraitSpawned | workflow.TraitSleepUntil},
		{name: "sub", traits: workflow.TraitSpawned | workflow.TraitChild | pick(s, 0, workflow.TraitAbandons)},
		{name: "slow", traits: workflow.TraitSpawned, startTimeout: time.Minute},
	}
	if !chance(s, 3) {
		p.steps = append(p.steps, planStep{name: "paid", traits: workflow.TraitSpawned | workflow.TraitWaits, signal: "paid"})
	}
	return p
}

func newMachineHistory(tb testing.TB, s source) *machineHistory {
	tb.Helper()
	p := randomMachine(s)
	h := &machineHistory{world: newWorld(tb, p), source: s, seen: map[string]int{}, signals: s.IntN(8), cancels: s.IntN(3)}
	h.program = program{most: 2 + s.IntN(20), deaf: len(p.graph().Signals()) == 0}
	return h
}

func (h *machineHistory) drive() {
	h.tb.Helper()
	if chance(h, 5) {
		h.send()
	}
	if h.cancels > 0 && chance(h, 20) {
		h.stop()
	}
	if h.run.State == Pending {
		h.apply(RunStarted{})
	}
	for range historyMax {
		if h.run.State.Terminal() {
			h.afterEnd()
			return
		}
		h.step()
		if h.spoil != nil {
			h.spoil(h)
			h.checkMachine()
		}
	}
	require.Fail(h.tb, "the run does not end")
}

// step lets one thing happen.
func (h *machineHistory) step() {
	h.tb.Helper()
	queued, running := h.in(Queued), h.in(Running)
	var timers []timerKey
	for key := range h.timers {
		timers = append(timers, key)
	}
	slices.SortFunc(timers, func(a, b timerKey) int { return int(a.step-b.step)*10 + int(a.kind) - int(b.kind) })
	children := slices.DeleteFunc(h.in(Waiting), func(step int32) bool { return step == 0 })
	n := len(queued) + len(running) + len(timers) + len(children)
	switch {
	case chance(h, 12) && len(h.past) > 0:
		h.repeat(pick(h, h.past...))
		return
	case h.cancels > 0 && chance(h, 30):
		h.stop()
		return
	case h.signals > 0 && chance(h, 6), n == 0 && !h.program.deaf:
		h.signals--
		h.send()
		return
	}
	require.Positive(h.tb, n, "a machine that hears nothing waits for ever")
	switch i := h.IntN(n); {
	case i < len(queued):
		h.claim(queued[i], 1+int64(h.IntN(3)))
	case i < len(queued)+len(running):
		h.end(running[i-len(queued)], running)
	case i < len(queued)+len(running)+len(timers):
		h.fireOne(timers[i-len(queued)-len(running)])
	default:
		step := children[i-len(queued)-len(running)-len(timers)]
		f := ChildEnded{Step: step, Run: "child", State: pick(h, Completed, Completed, Skipped, Failed, Canceled, 0)}
		require.Equal(h.tb, []Answer{Moved}, h.apply(f).Answers)
		require.Equal(h.tb, []Answer{Stale}, h.apply(f).Answers)
	}
}

func (h *machineHistory) send() {
	if h.program.deaf || h.run.State.Terminal() {
		return
	}
	require.Equal(h.tb, []Answer{Moved}, h.signal("paid").Answers)
}

// stop asks the run to stop. A machine that hears of it is not stopped, once.
func (h *machineHistory) stop() {
	h.tb.Helper()
	h.cancels--
	hears := h.tasks[0].hearsCancel() && h.run.State == Running
	want := Moved
	repeated := h.tasks[0].repeatsCancel(h.now) && h.run.State == Running && !h.run.Canceling
	if h.run.Canceling || repeated {
		want = AlreadyYours
	}
	d := h.apply(CancelRequested{Reason: "enough", By: "test", Grace: time.Second})
	require.Equal(h.tb, []Answer{want}, d.Answers)
	if hears {
		h.seen["cancel heard"]++
		require.False(h.tb, h.run.Canceling)
		require.Equal(h.tb, h.run.Signals, h.tasks[0].Entry)
	} else if repeated {
		require.False(h.tb, h.run.Canceling)
	} else {
		require.True(h.tb, h.run.Canceling)
		h.seen["cancel"]++
	}
}

func (h *machineHistory) fireOne(key timerKey) {
	h.tb.Helper()
	timer := h.timers[key]
	current := key.step != RunStep && h.task(key.step).Epoch == timer.Epoch || key.step == RunStep && (h.run.Canceling || !h.tasks[0].State.Terminal())
	d := h.fire(key)
	if !current {
		require.Equal(h.tb, []Answer{Stale}, d.Answers)
		return
	}
	require.Equal(h.tb, []Answer{Moved}, d.Answers)
	h.seen[fmt.Sprintf("timer %d", key.kind)]++
}

// repeat sends an old report again, which never counts.
func (h *machineHistory) repeat(r TaskReported) {
	h.tb.Helper()
	d := h.apply(r)
	require.NotContains(h.tb, d.Answers, Moved)
	require.False(h.tb, d.RunChanged || d.Activated)
	require.Empty(h.tb, d.Tasks)
	require.Empty(h.tb, d.Created)
	require.Empty(h.tb, d.Events)
}

// end reports how an attempt ended, now and then together with another one, or twice.
func (h *machineHistory) end(step int32, running []int32) {
	h.tb.Helper()
	steps := []int32{step}
	if other := pick(h, running...); other != step && !chance(h, 3) {
		steps = append(steps, other)
	}
	var facts []Fact
	var next program
	var heard []heardEntry
	for _, s := range steps {
		r := h.report(s, h.attempt(s))
		if s == 0 {
			next, heard = h.activation(&r)
		}
		late := r
		late.Epoch--
		require.NotContains(h.tb, h.apply(late).Answers, Moved)
		facts = append(facts, r)
		h.past = append(h.past, r)
	}
	d := h.apply(facts...)
	for i, answer := range d.Answers {
		require.Equal(h.tb, Moved, answer, "%+v", facts[i])
	}
	if d.Activated {
		next.start, next.cancel = nil, nil
		h.program, h.log = next, append(h.log, heard...)
		h.seen["activated"]++
		h.seen["entries"] += len(heard)
		if m := &h.tasks[0]; !m.State.Terminal() && m.Lost+m.Attempt != 0 {
			h.tb.Fatalf("losses and failed attempts are kept: %+v", m)
		}
	}
	h.repeat(h.past[len(h.past)-1])
}

// attempt makes up how an attempt ended; of a machine that continues: not what it has decided.
func (h *machineHistory) attempt(step int32) TaskReported {
	switch h.IntN(14) {
	case 0:
		if step != 0 || chance(h, 4) {
			return TaskReported{Kind: Errored, Class: "boom", Error: "no"}
		}
	case 1:
		return TaskReported{Kind: Errored, Class: "boom", TimedOut: "attempt", Retry: true, RetryIn: time.Second}
	case 2:
		return TaskReported{Kind: Lost, MaxLost: 1 + int32(h.IntN(3)), Deaths: Deaths{Lately: int32(h.IntN(3)), Kept: int32(h.IntN(6))}}
	case 3:
		return TaskReported{Kind: Released}
	}
	if step == 0 || h.task(step).Traits.Has(workflow.TraitChild) {
		return TaskReported{Kind: Yielded, Child: "child"}
	}
	return TaskReported{Kind: Succeeded}
}

// activation has the program handle some entries, and puts what it decides into a report.
func (h *machineHistory) activation(r *TaskReported) (program, []heardEntry) {
	p := h.program
	p.actions = slices.Clone(p.actions)
	if r.Kind != Yielded {
		return p, nil
	}
	r.Child = ""
	entries := h.inboxOfMachine()
	entries = slices.DeleteFunc(entries, func(e heardEntry) bool { return e.n <= h.machine.taken })
	a := &Activation{Taken: h.run.Signals, Deaf: p.deaf}
	if len(entries) > 1 && chance(h, 3) {
		entries = entries[:1+h.IntN(len(entries)-1)]
		a.Taken = entries[len(entries)-1].n
	}
	if p.count == 0 {
		p.on(heardEntry{what: "start"})
	}
	for _, e := range entries {
		p.on(e)
	}
	a.Heard = int32(len(entries))
	for _, name := range p.start {
		t := h.spawn(name)
		if name == "window" {
			t.WakeAt = h.now.Add(time.Hour)
		}
		a.Start = append(a.Start, t)
	}
	for _, n := range p.cancel {
		a.Cancel = append(a.Cancel, h.run.Steps+n)
	}
	r.Activation = a
	if p.over {
		r.Kind, a.Start, a.Cancel = Succeeded, nil, nil
	}
	return p, entries
}

// afterEnd: the entries were handled in their order, each once, and handling them one by one gives
// the state that the activations have left, and what they started (I17).
func (h *machineHistory) afterEnd() {
	h.tb.Helper()
	last := int64(0)
	again := program{most: h.program.most, deaf: h.program.deaf}
	for i, e := range h.log {
		if i == 0 || again.count == 0 {
			again.on(heardEntry{what: "start"})
		}
		require.Greater(h.tb, e.n, last)
		last = e.n
		again.on(e)
		again.start, again.cancel = nil, nil
	}
	if again.count == 0 && h.program.count > 0 {
		again.on(heardEntry{what: "start"})
	}
	require.Equal(h.tb, h.program.sum, again.sum)
	var started []string
	for i := range h.tasks[1:] {
		started = append(started, h.tasks[i+1].Dynamic.Name)
	}
	if h.tasks[0].State != Completed {
		require.Equal(h.tb, again.actions, started)
	}
	for _, e := range h.inboxOfMachine() {
		if e.n <= h.machine.taken && !slices.ContainsFunc(h.log, func(l heardEntry) bool { return l.n == e.n }) {
			h.tb.Fatalf("entry %v was passed over", e)
		}
	}
	for range min(5, len(h.past)) {
		h.repeat(pick(h, h.past...))
	}
	require.Equal(h.tb, []Answer{Stale}, h.signal("paid").Answers)
	require.Equal(h.tb, []Answer{Stale}, h.apply(CancelRequested{}).Answers)
	require.Equal(h.tb, []Answer{Stale}, h.apply(TimerFired{Step: RunStep, Timer: CancelGraceTimer}).Answers)
	h.seen[fmt.Sprintf("ended %v", h.run.State)]++
	h.seen["class "+h.tasks[0].Class]++
	for i := range h.tasks[1:] {
		t := &h.tasks[i+1]
		h.seen[fmt.Sprintf("%v %v", t.State, t.stopped())]++
		if t.Traits.Has(workflow.TraitSleepUntil) && t.State == Completed && t.Entry < 0 {
			h.seen["taken back"]++
		}
	}
}

// TestRandomMachinesKeepThePromises drives machines through random histories; world checks the
// promises after every fact. TROUPE_TEST_SEED replays one, TROUPE_TEST_RUNS asks for more.
func TestRandomMachinesKeepThePromises(t *testing.T) {
	t.Parallel()
	seeds := seeds(t, 250)
	seen := map[string]int{}
	current := namesSeed(t)
	for _, seed := range seeds {
		*current = seed
		h := newMachineHistory(t, rand.New(rand.NewPCG(seed, 2)))
		h.drive()
		for what, n := range h.seen {
			seen[what] += n
		}
	}
	if len(seeds) == 1 {
		return
	}
	for _, what := range []string{
		"activated", "entries", "cancel heard", "cancel", "ended completed", "ended failed", "ended canceled",
		"class " + ClassStalled, "class lost", "class boom", "taken back",
		"timer 1", "timer 2", "timer 4", "timer 5", "timer 6",
		"completed false", "completed true", "canceled false", "canceled true", "failed false",
	} {
		require.Greater(t, seen[what], 5, "%s: %v", what, seen)
	}
}
