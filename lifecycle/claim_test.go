package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	now := time.Unix(5, 0)
	before := Task{Step: 4, State: Queued, Epoch: 7, Attempt: 2, Lost: 1, Pod: 1}
	got, event := Claim(before, 9, now)
	want := before
	want.State, want.Epoch, want.Pod = Running, 8, 9
	require.Equal(t, want, got)
	require.Equal(t, Event{Step: 4, N: 8, Kind: EventStarted, At: now, Pod: 9, Attempt: 3}, event)
	for _, s := range States() {
		if s != Queued {
			require.Panics(t, func() { Claim(Task{State: s}, 1, now) }, "%v", s)
		}
	}
}

func TestNewRunAndTasks(t *testing.T) {
	t.Parallel()
	p := plan{policy: workflow.FinishSiblings, hasHandler: true, steps: []planStep{
		{name: "a"}, {name: "b", edges: []planEdge{{kind: workflow.Settled}}}, {name: "c"},
	}}
	g := p.graph()
	require.Equal(t, Run{
		State: Pending, Policy: workflow.FinishSiblings, Steps: 3, Remaining: 2, Events: 1, HasHandler: true,
	}, NewRun(g))
	require.Equal(t, Task{
		Step: 1, State: Pending, Traits: workflow.TraitHoldsSettled, Pending: 1, Parents: 1,
	}, NewTask(1, &g.Nodes[1]))
}

func TestNeedsSlowPath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step planStep
		want bool
	}{
		"functions":          {planStep{}, false},
		"sleep":              {planStep{traits: workflow.TraitSleep}, true},
		"sleep until":        {planStep{traits: workflow.TraitSleepUntil}, true},
		"limited wait":       {planStep{startTimeout: time.Second}, true},
		"child run":          {planStep{traits: workflow.TraitChild}, true},
		"run if all skipped": {planStep{traits: workflow.TraitRunIfAllSkipped}, false},
	} {
		g := plan{steps: []planStep{{}, c.step}}.graph()
		require.Equal(t, c.want, NeedsSlowPath(g), name)
		require.Equal(t, c.want, NewRun(g).Slow, name)
	}
}

// TestChildRunsTellTheirEnd: the fast path does not tell a parent that a run has ended, so that it
// takes no success that may end a child run.
func TestChildRunsTellTheirEnd(t *testing.T) {
	t.Parallel()
	g := plan{steps: []planStep{{name: "a"}, {name: "b", edges: []planEdge{{kind: workflow.Plain}}}}}.graph()
	run := NewChild(g, 3)
	want := NewRun(g)
	want.Depth, want.Slow = 3, true
	require.Equal(t, want, run)
	first, last := NewTask(0, &g.Nodes[0]), NewTask(1, &g.Nodes[1])
	child := func(int32) Task { return last }
	require.True(t, TakesFastPath(run, first, child))
	require.False(t, TakesFastPath(run, last, child))
	run.Depth = 0 // no child, and slow all the same
	require.True(t, TakesFastPath(run, last, child))
}

// TestInputConditionsNeedTheSlowPath: the fast path does not look at flags.
func TestInputConditionsNeedTheSlowPath(t *testing.T) {
	t.Parallel()
	p := plan{policy: workflow.FailFast, steps: []planStep{{name: "a"}, {name: "b", edges: []planEdge{{kind: workflow.Plain}}}}}
	w := newWorld(t, p)
	w.apply(RunStarted{})
	require.False(t, w.run.Slow)

	w = newWorld(t, p)
	w.tasks[1].Flags = FlagSkip
	w.apply(RunStarted{})
	require.True(t, w.run.Slow)
}

func TestTakesFastPath(t *testing.T) {
	t.Parallel()
	slow := Run{State: Running, Slow: true}
	odd := func(change func(*Run)) Run {
		run := slow
		change(&run)
		return run
	}
	waits := Task{StartTimeout: time.Second}
	for name, c := range map[string]struct {
		run         Run
		task, child Task
		want        bool
	}{
		"nothing happened":         {Run{State: Running}, Task{}, Task{}, true},
		"a branch was taken":       {slow, Task{}, Task{Flags: FlagLive}, true},
		"canceling":                {odd(func(r *Run) { r.Canceling = true }), Task{}, Task{}, false},
		"failing":                  {odd(func(r *Run) { r.Failing = true }), Task{}, Task{}, false},
		"unhandled failure":        {odd(func(r *Run) { r.Unhandled = true }), Task{}, Task{}, false},
		"cut":                      {odd(func(r *Run) { r.Cut = true }), Task{}, Task{}, false},
		"failure handler":          {odd(func(r *Run) { r.HandlerMade = true }), Task{}, Task{}, false},
		"its own wait is limited":  {slow, waits, Task{}, false},
		"the child's is":           {slow, Task{}, waits, false},
		"the child is skipped":     {slow, Task{}, Task{Flags: FlagSkip}, false},
		"the child is canceled":    {slow, Task{}, Task{Flags: FlagCancel | FlagLive}, false},
		"the child's output kept":  {slow, Task{}, Task{Flags: FlagKept}, false},
		"the child sleeps":         {slow, Task{}, Task{Traits: workflow.TraitSleep}, false},
		"the child sleeps until":   {slow, Task{}, Task{Traits: workflow.TraitSleepUntil}, false},
		"the child begins a run":   {slow, Task{}, Task{Traits: workflow.TraitChild}, true},
		"the child holds failures": {slow, Task{}, Task{Traits: workflow.TraitHoldsSettled}, true},
	} {
		c.task.Children = []workflow.Child{{Step: 1}}
		require.Equal(t, c.want, TakesFastPath(c.run, c.task, func(int32) Task { return c.child }), name)
	}
}
