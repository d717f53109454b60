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
		"run if all skipped": {planStep{traits: workflow.TraitRunIfAllSkipped}, false},
	} {
		g := plan{steps: []planStep{{}, c.step}}.graph()
		require.Equal(t, c.want, NeedsSlowPath(g), name)
		require.Equal(t, c.want, NewRun(g).Slow, name)
	}
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
