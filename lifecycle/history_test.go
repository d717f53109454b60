package lifecycle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// history drives a run to its end with facts chosen by a source.
type history struct {
	*world
	source
	cancels bool
	dynamic bool            // tasks make others
	past    []TaskReported  // reports made so far
	sizes   map[int32]int32 // of the lists of maps
	ended   []ChildEnded    // ends of child runs so far
	seen    map[Answer]int
}

// historyMax bounds the facts of one history: retries, losses and releases are
// chosen rarely enough that a run ends long before.
const historyMax = 5000

func (h *history) drive() {
	h.tb.Helper()
	h.inputConditions()
	h.takeElements()
	if h.cancels && chance(h, 20) {
		h.cancel()
	}
	if h.run.State == Pending && len(h.plan.graph().Signals()) > 0 && chance(h, 5) {
		h.answer(h.signal("x"), Moved) // before it begins
	}
	if h.run.State == Pending {
		h.answer(h.apply(RunStarted{}), Moved)
	}
	for range historyMax {
		if h.run.State.Terminal() {
			h.afterEnd()
			return
		}
		h.step()
	}
	require.Fail(h.tb, "the run does not end")
}

func (h *history) answer(d Decision, want Answer) {
	h.tb.Helper()
	require.Equal(h.tb, []Answer{want}, d.Answers)
	h.seen[want]++
}

// inputConditions marks tasks as conditions on the input would.
func (h *history) inputConditions() {
	for i := range h.tasks {
		t := &h.tasks[i]
		switch {
		case chance(h, 20):
			t.Flags |= FlagSkip
		case chance(h, 60):
			t.Flags |= FlagFail
			t.Error = "condition panicked"
		}
		if t.Traits.Has(workflow.TraitSleepUntil) && chance(h, 2) {
			t.WakeAt = h.now.Add(time.Hour)
		}
	}
}

// step lets one thing happen.
func (h *history) step() {
	h.tb.Helper()
	switch {
	case chance(h, 12):
		h.repeat()
	case h.cancels && chance(h, 60) && !h.run.Canceling:
		h.cancel()
	case h.run.Signals < signalsMost && chance(h, 15):
		h.answer(h.signal(pick(h, "x", "y", "z")), Moved)
	default:
		queued, running, timers := h.in(Queued), h.in(Running), h.timerKeys()
		n := len(queued) + len(running) + len(timers)
		if waiting := h.waiting(); n == 0 || len(waiting) > 0 && chance(h, 4) {
			require.NotEmpty(h.tb, waiting, "nothing can happen any more")
			h.goOn(pick(h, waiting...))
			return
		}
		switch i := h.IntN(n); {
		case i < len(queued):
			h.claim(queued[i], 1+int64(h.IntN(3)))
		case i < len(queued)+len(running):
			h.end(running[i-len(queued)])
		default:
			h.fireOne(timers[i-len(queued)-len(running)])
		}
	}
}

// goOn brings a step what it waits for.
func (h *history) goOn(step int32) {
	h.tb.Helper()
	if t := h.task(step); !t.Traits.Has(workflow.TraitChild) {
		h.answer(h.signal(t.Signal), Moved)
		return
	}
	ended := ChildEnded{Step: step, Run: "child", State: pick(h, Completed, Completed, Skipped, Failed, Canceled, 0)}
	if ended.State == Failed && chance(h, 2) {
		ended.Failed, ended.Error = "s0", "no"
	}
	if chance(h, 5) {
		d := h.apply(ended, ended, CancelRequested{Reason: "with it"})
		require.Equal(h.tb, []Answer{Moved, Stale}, d.Answers[:2])
	} else {
		h.answer(h.apply(ended), Moved)
		h.answer(h.apply(ended), Stale)
	}
	h.ended = append(h.ended, ended)
}

func (h *history) timerKeys() []timerKey {
	var keys []timerKey
	for key := range h.timers {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b timerKey) int {
		return int(a.step-b.step)*10 + int(a.kind) - int(b.kind)
	})
	return keys
}

func (h *history) fireOne(key timerKey) {
	h.tb.Helper()
	timer := h.timers[key]
	current := key.step == RunStep || h.task(key.step).Epoch == timer.Epoch
	d := h.fire(key)
	if current {
		h.answer(d, Moved)
		h.answer(h.apply(TimerFired{Step: timer.Step, Timer: timer.Kind, Epoch: timer.Epoch}), Stale)
		return
	}
	h.answer(d, Stale)
}

func (h *history) cancel() {
	h.tb.Helper()
	h.answer(h.apply(CancelRequested{Reason: "enough", By: "test", Grace: time.Second}), Moved)
	want := AlreadyYours
	if h.run.State.Terminal() {
		want = Stale
	}
	h.answer(h.apply(CancelRequested{Reason: "again"}), want)
}

// end reports how an attempt ended, after reports that must not count.
func (h *history) end(step int32) {
	h.tb.Helper()
	r := h.report(step, h.randomReport(step))
	if r.Kind == Succeeded && h.dynamic && h.run.Dynamic < dynamicMost && chance(h, 4) {
		r.Make = h.randomTasks()
	}
	h.answer(h.apply(ChildEnded{Step: step, State: Completed}), Stale)
	for _, wrong := range []TaskReported{{Epoch: r.Epoch - 1, Pod: r.Pod}, {Epoch: r.Epoch, Pod: r.Pod + 1}} {
		wrong.Step, wrong.Kind = r.Step, r.Kind
		require.NotContains(h.tb, h.apply(wrong).Answers, Moved, "a report of another attempt counts")
	}
	again := AlreadyYours
	if r.Map != nil && r.Map.Left == 0 && !h.run.Canceling && (!h.run.Failing || !stopsWith(h.task(step).Traits)) {
		again = Stale // the map gathers at once
	}
	if chance(h, 10) {
		other := r // the same report twice in one batch
		d := h.apply(r, other)
		require.Equal(h.tb, []Answer{Moved, again}, d.Answers)
	} else {
		h.answer(h.apply(r), Moved)
		h.answer(h.apply(r), again)
	}
	h.past = append(h.past, r)
}

func (h *history) randomReport(step int32) TaskReported {
	switch h.IntN(12) {
	case 0:
		return TaskReported{Kind: Errored, Class: "boom", Error: "no"}
	case 1:
		return TaskReported{Kind: Errored, Class: "boom", TimedOut: "attempt", Error: "slow"}
	case 2:
		return TaskReported{Kind: Errored, Class: "boom", Retry: true, RetryIn: time.Second}
	case 3:
		return TaskReported{Kind: Lost, MaxLost: 3, Deaths: Deaths{Lately: int32(h.IntN(6)), Kept: int32(h.IntN(12))}}
	case 4:
		return TaskReported{Kind: Released}
	}
	if t := h.task(step); t.Traits.Has(workflow.TraitChild) && !t.Flags.Has(FlagKept) {
		return TaskReported{Kind: Yielded, Child: "child"}
	} else if m := h.randomMap(t); m != nil {
		return TaskReported{Kind: Yielded, Map: m}
	}
	r := TaskReported{Kind: Succeeded}
	for _, c := range h.task(step).Children {
		edge := EdgeFlag{Child: c.Step}
		switch {
		case c.Conditioned && chance(h, 3):
			edge.Flags = FlagSkip
		case c.Conditioned && chance(h, 10):
			edge.Flags, edge.Error = FlagFail, "condition panicked"
		}
		if h.task(c.Step).Traits.Has(workflow.TraitSleepUntil) {
			edge.WakeAt = h.now.Add(time.Minute)
		}
		r.Edges = append(r.Edges, edge)
	}
	return r
}

// signalsMost bounds the signals of a history that no step may ever wait for.
const signalsMost = 6

// dynamicMost bounds the dynamic tasks of a history, so that it ends.
const dynamicMost = 12

// randomTasks are dynamic tasks of steps without parents.
func (h *history) randomTasks() []Task {
	g := h.plan.graph()
	var tasks []Task
	for range 1 + h.IntN(3) {
		step := int32(h.IntN(len(g.Nodes)))
		if node := &g.Nodes[step]; node.Pending == 0 && node.Kind != workflow.Wait {
			tasks = append(tasks, NewDynamic(step, node, "dynamic"))
		}
	}
	return tasks
}

// repeat sends an old report again: it may be recognised, it never counts.
func (h *history) repeat() {
	h.tb.Helper()
	if len(h.past) == 0 {
		return
	}
	d := h.apply(pick(h, h.past...))
	require.NotContains(h.tb, d.Answers, Moved)
	require.False(h.tb, d.RunChanged)
	require.Empty(h.tb, d.Tasks)
	require.Empty(h.tb, d.Events)
	h.seen[d.Answers[0]]++
}

// afterEnd shows that terminal is sticky.
func (h *history) afterEnd() {
	h.tb.Helper()
	for step := range h.counts {
		var kinds []EventKind
		for _, e := range h.events {
			if e.Step == step {
				kinds = append(kinds, e.Kind)
			}
		}
		require.Equal(h.tb, h.folded[step], Fold(kinds))
	}
	run := h.run
	for range 3 {
		h.repeat()
	}
	h.apply(RunStarted{})
	h.answer(h.apply(CancelRequested{}), Stale)
	h.answer(h.signal("x"), Stale)
	h.answer(h.apply(TimerFired{Step: RunStep, Timer: CancelGraceTimer}), Stale)
	for i := range h.tasks {
		h.answer(h.apply(ChildEnded{Step: h.tasks[i].Step, State: Completed}), Stale)
		for epoch := range h.tasks[i].Epoch + 1 {
			h.answer(h.apply(TimerFired{Step: h.tasks[i].Step, Timer: BackoffTimer, Epoch: epoch - 1}), Stale)
		}
	}
	require.Equal(h.tb, run, h.run)
}

// TestRandomHistoriesKeepThePromises drives random graphs through random
// histories; world checks the promises after every fact. TROUPE_TEST_SEED
// replays one, TROUPE_TEST_RUNS asks for more.
func TestRandomHistoriesKeepThePromises(t *testing.T) {
	t.Parallel()
	seeds := seeds(t, 1500)
	answers, ends := map[Answer]int{}, map[State]int{}
	handled, made := 0, map[bool]map[bool]int{false: {}, true: {}}
	taken, late := 0, map[EventKind]int{}
	children, deep := map[State]int{}, 0
	spread := map[string]int{}
	current := namesSeed(t)
	for _, seed := range seeds {
		*current = seed
		random := rand.New(rand.NewPCG(seed, 0))
		h := &history{
			world: newWorld(t, randomPlan(random, 12)), source: random,
			cancels: chance(random, 3), dynamic: chance(random, 2), seen: answers, sizes: map[int32]int32{},
		}
		h.drive()
		ends[h.run.State]++
		if h.run.HandlerMade {
			handled++
		}
		made[h.run.Dynamic > 0][h.run.HandlerMade]++
		taken += len(h.taken)
		for _, e := range h.events {
			if e.By == byDeadline {
				late[e.Kind]++
			}
			if e.Class == ClassTooDeep {
				deep++
			}
		}
		for _, ended := range h.ended {
			children[ended.State]++
		}
		h.countMaps(spread)
	}
	if len(seeds) > 1 {
		for _, a := range []Answer{Moved, AlreadyYours, Stale} {
			require.Greater(t, answers[a], 100, "answer %d", a)
		}
		for _, s := range []State{Completed, Failed, Canceled} {
			require.Greater(t, ends[s], 20, "runs that end %v", s)
		}
		require.Greater(t, handled, 20, "runs with a failure handler")
		require.Greater(t, taken, 100, "signals that steps have taken")
		require.Greater(t, late[EventSkipped], 20, "steps that were skipped at their deadlines")
		require.Greater(t, late[EventTimedOut], 20, "steps that failed at their deadlines")
		for _, s := range []State{Completed, Skipped, Failed, Canceled, 0} {
			require.Greater(t, children[s], 20, "child runs that end %v", s)
		}
		for _, what := range []string{"completed", "broke", "tolerated", "moved", "took over", "canceled", "went on while the run failed"} {
			require.Greater(t, spread[what], 20, "maps that %s: %v", what, spread)
		}
		require.Greater(t, deep, 20, "child runs that would be too deep")
		require.Greater(t, made[true][true], 20, "runs with dynamic tasks and a failure handler")
		require.Greater(t, made[true][false], 20, "runs with a hole in their numbers")
	}
}

// FuzzHistory lets the fuzzer choose graph and facts.
func FuzzHistory(f *testing.F) {
	f.Add([]byte{0, 1, 5, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	f.Add([]byte("a diamond with a condition, a sleep and a cancel in the middle of it"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		chosen := &bytesSource{left: choices}
		h := &history{
			world: newWorld(t, randomPlan(chosen, 12)), source: chosen,
			cancels: chance(chosen, 2), dynamic: true, seen: map[Answer]int{}, sizes: map[int32]int32{},
		}
		h.limitedDrive()
	})
}

// limitedDrive drives until the fuzzer's choices are used up.
func (h *history) limitedDrive() {
	h.tb.Helper()
	h.inputConditions()
	h.takeElements()
	h.apply(RunStarted{})
	chosen, ok := h.source.(*bytesSource)
	require.True(h.tb, ok)
	for len(chosen.left) > 0 && !h.run.State.Terminal() {
		h.step()
	}
}
