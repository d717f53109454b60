package lifecycle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// fate says beforehand how everything in a run goes that is not decided by the
// engine.
type fate struct {
	fails      []bool             // per step: its only attempt, or its child run, fails
	empty      []bool             // per step: its child run has no output
	input      []Flags            // per step: what conditions on the input say
	instants   []bool             // per step: the input gives an instant to sleep until
	conditions map[[2]int32]Flags // parent, child: what conditions on the parent say
	lists      []fateList         // per step that is a map
}

// fateList says how the elements of a map go: so many of them fail, the first ones in some order.
type fateList struct {
	order                  []int // of the items
	fail, allowed, windows int32
}

// randomList returns the list of a map that fails, or does not.
func randomList(s source, fails bool) fateList {
	l := fateList{windows: 1 + int32(s.IntN(4))}
	items := s.IntN(8)
	for item := range items {
		l.order = slices.Insert(l.order, s.IntN(item+1), item)
	}
	l.allowed = int32(s.IntN(items + 1))
	l.fail = int32(s.IntN(int(l.allowed) + 1))
	if fails && items > 0 {
		l.allowed = int32(s.IntN(items))
		l.fail = l.allowed + 1 + int32(s.IntN(items-int(l.allowed)))
	}
	return l
}

func randomFate(s source, p plan, mayFail bool) fate {
	f := fate{conditions: map[[2]int32]Flags{}}
	flags := func(skip, panics int) Flags {
		switch {
		case chance(s, skip):
			return FlagSkip
		case mayFail && chance(s, panics):
			return FlagFail
		}
		return 0
	}
	for i, step := range p.steps {
		f.fails = append(f.fails, mayFail && chance(s, 6))
		f.empty = append(f.empty, chance(s, 4))
		f.lists = append(f.lists, randomList(s, f.fails[i]))
		f.input = append(f.input, flags(15, 40))
		f.instants = append(f.instants, !mayFail || !chance(s, 4))
		for _, e := range step.edges {
			if e.conditioned {
				f.conditions[[2]int32{int32(e.parent), int32(i)}] = flags(3, 10)
			}
		}
	}
	return f
}

// oracle says how every task ends, by looking at the final states of parents
// and nothing else: no counters, no flags gathered on the way, no order. It
// repeats the rules of the design in its own words and knows neither the
// policy FailFast nor cancels, which depend on when things happen.
func oracle(p plan, f fate) []State {
	ends := make([]State, len(p.steps))
	for i, step := range p.steps {
		judged := slices.ContainsFunc(p.steps, func(other planStep) bool {
			return slices.ContainsFunc(other.edges, func(e planEdge) bool { return e.parent == i && e.conditioned })
		})
		ends[i] = oracleEnd(step, judged, int32(i), f, ends)
	}
	return ends
}

func oracleEnd(step planStep, judged bool, i int32, f fate, ends []State) State {
	const ok, skip, cancel = "ok", "skip", "cancel"
	meaning := map[workflow.EdgeKind]map[State]string{
		workflow.Plain:   {Completed: ok, Skipped: skip, Failed: cancel, Canceled: cancel},
		workflow.Maybe:   {Completed: ok, Skipped: ok, Failed: cancel, Canceled: cancel},
		workflow.Settled: {Completed: ok, Skipped: ok, Failed: ok, Canceled: ok},
	}
	votes := map[string]int{}
	panics := f.input[i] == FlagFail
	if f.input[i] == FlagSkip {
		votes[skip]++
	}
	skipped, held := 0, false
	for _, e := range step.edges {
		parent := ends[e.parent]
		votes[meaning[e.kind][parent]]++
		condition := f.conditions[[2]int32{int32(e.parent), i}]
		switch {
		case e.conditioned && parent != Completed:
			votes[skip]++
		case condition == FlagSkip:
			votes[skip]++
		case condition == FlagFail:
			panics = true
		}
		if parent == Skipped {
			skipped++
		}
		held = held || e.kind == workflow.Settled
	}
	nothingRan := len(step.edges) > 0 && skipped == len(step.edges)
	switch {
	case votes[cancel] > 0:
		return Canceled
	case panics:
		return Failed
	case votes[skip] > 0, nothingRan && !held && !step.traits.Has(workflow.TraitRunIfAllSkipped):
		return Skipped
	case step.traits.Has(workflow.TraitSleepUntil) && !f.instants[i]:
		return Failed
	case step.traits.Has(workflow.TraitSleepUntil), step.traits.Has(workflow.TraitSleep):
		return Completed
	case f.fails[i] && (!step.traits.Has(workflow.TraitWaits) || judged):
		return Failed
	case step.traits.Has(workflow.TraitChild) && f.empty[i]:
		return Skipped
	}
	return Completed
}

// oracleRun says how the run ends.
func oracleRun(p plan, ends []State) State {
	for i, end := range ends {
		children, settled := 0, 0
		for _, other := range p.steps {
			for _, e := range other.edges {
				if e.parent == i {
					children++
					if e.kind == workflow.Settled {
						settled++
					}
				}
			}
		}
		if end == Failed && (children == 0 || settled < children) {
			return Failed
		}
	}
	return Completed
}

// follow drives the run as fate has it, in an order of the source's choice.
func (h *history) follow(f fate) {
	h.tb.Helper()
	for i := range h.plan.steps {
		h.tasks[i].Flags = f.input[i]
		if f.instants[i] {
			h.tasks[i].WakeAt = h.now.Add(time.Hour)
		}
	}
	h.apply(RunStarted{})
	for !h.run.State.Terminal() {
		var sleeps []timerKey
		for _, key := range h.timerKeys() {
			if key.kind == SleepTimer {
				sleeps = append(sleeps, key)
			}
		}
		queued, running := h.in(Queued), h.in(Running)
		waiting := h.waiting()
		switch i := h.IntN(len(queued) + len(running) + len(sleeps) + len(waiting)); {
		case i >= len(queued)+len(running)+len(sleeps):
			h.bring(h.task(waiting[0]), f) // the deadline is never reached
		case i < len(queued):
			h.claim(queued[i], 1)
		case i < len(queued)+len(running):
			step := running[i-len(queued)]
			h.apply(h.report(step, f.report(h.world, step)))
		default:
			h.fire(sleeps[i-len(queued)-len(running)])
		}
	}
}

// bring brings a step what it waits for.
func (h *history) bring(t *Task, f fate) {
	h.tb.Helper()
	switch {
	case !t.Traits.Has(workflow.TraitChild):
		h.signal(t.Signal)
	case f.fails[t.Step]:
		h.apply(ChildEnded{Step: t.Step, State: Failed})
	case f.empty[t.Step]:
		h.apply(ChildEnded{Step: t.Step, State: Skipped})
	default:
		h.apply(ChildEnded{Step: t.Step, State: Completed})
	}
}

func (f fate) report(w *world, step int32) TaskReported {
	if t := w.task(step); t.Traits.Has(workflow.TraitChild) && !t.Flags.Has(FlagKept) {
		return TaskReported{Kind: Yielded}
	}
	t := w.task(step)
	switch {
	case t.IsElement():
		if l := f.lists[t.Dynamic.Owner]; slices.Index(l.order, int(ElementOf(t.Dynamic.Name))) < int(l.fail) {
			return TaskReported{Kind: Errored, Class: "boom"}
		}
		return TaskReported{Kind: Succeeded}
	case t.Traits.Has(workflow.TraitMap) && len(f.lists[step].order) > 0:
		if l := f.lists[step]; !t.Flags.Has(FlagSpread) {
			return TaskReported{Kind: Yielded, Map: w.spreading(step, int32(len(l.order)), l.windows, l.allowed)}
		}
	case int(step) < len(f.fails) && f.fails[step]:
		return TaskReported{Kind: Errored, Class: "boom"}
	}
	r := TaskReported{Kind: Succeeded}
	for _, c := range w.task(step).Children {
		if flags := f.conditions[[2]int32{step, c.Step}]; flags != 0 {
			r.Edges = append(r.Edges, EdgeFlag{Child: c.Step, Flags: flags})
		}
	}
	return r
}

// TestAnyOrderEndsAsTheOracleSays follows the same fate in several orders.
// Without races between a failure or a cancel and the rest, the order of
// independent tasks does not matter.
func TestAnyOrderEndsAsTheOracleSays(t *testing.T) {
	t.Parallel()
	ends := map[State]int{}
	current := namesSeed(t)
	for _, seed := range seeds(t, 600) {
		*current = seed
		random := rand.New(rand.NewPCG(seed, 1))
		p := randomPlan(random, 12)
		p.depth = min(p.depth, DepthMax-1) // or child runs would not begin
		f := randomFate(random, p, p.policy == workflow.FinishSiblings)
		want := oracle(p, f)
		for range 3 {
			h := &history{world: newWorld(t, p), source: random, seen: map[Answer]int{}, sizes: map[int32]int32{}}
			h.follow(f)
			require.Equal(t, want, h.states()[:len(p.steps)])
			require.Equal(t, oracleRun(p, want), h.run.State)
			require.Equal(t, p.hasHandler && h.run.State == Failed, h.run.HandlerMade)
		}
		for _, end := range want {
			ends[end]++
		}
	}
	if len(ends) > 1 {
		for _, s := range []State{Completed, Failed, Skipped, Canceled} {
			require.Greater(t, ends[s], 50, "tasks that end %v", s)
		}
	}
}
