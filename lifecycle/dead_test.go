package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReasonsHaveNamesThatAreRead(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i, r := range DeadReasons() {
		require.Equal(t, i+1, int(r), "codes are stored")
		got, err := ParseDeadReason(r.String())
		require.NoError(t, err)
		require.Equal(t, r, got)
		require.False(t, seen[r.String()])
		seen[r.String()] = true
	}
	require.Equal(t, "reason(99)", DeadReason(99).String())
	_, err := ParseDeadReason("tired")
	require.EqualError(t, err, `there is no reason "tired": use one of attempts_exhausted, non_retryable, poison, unregistered, `+
		`undecodable, timed_out`)
}

func TestWhichReasonsCount(t *testing.T) {
	t.Parallel()
	require.True(t, TimedOut.Counts(nil), "none stands for all")
	require.True(t, TimedOut.Counts([]DeadReason{PoisonPill, TimedOut}))
	require.False(t, TimedOut.Counts([]DeadReason{PoisonPill}))
}

func TestWhyAnAttemptWasTheLast(t *testing.T) {
	t.Parallel()
	for want, reports := range map[DeadReason][]TaskReported{
		Undecodable: {
			{Class: ClassBadRow}, {Class: ClassTooLarge}, {Class: ClassEncoding}, {Class: ClassDecoding, Exhausted: true}, {Class: ClassDecoding, TimedOut: "attempt"},
		},
		TimedOut:          {{TimedOut: "attempt"}, {TimedOut: "attempt", Exhausted: true}},
		AttemptsExhausted: {{Exhausted: true, Class: "net"}},
		NonRetryable:      {{Class: "net"}, {}},
	} {
		for _, r := range reports {
			require.Equal(t, want, reasonOf(r), "%+v", r)
		}
	}
}

// A diamond behind a first step, with a step beside it.
func TestWhatARunThatGoesOnTakesOver(t *testing.T) {
	t.Parallel()
	g := plan{steps: []planStep{
		{name: "first"},
		{name: "left", edges: []planEdge{{parent: 0}}},
		{name: "right", edges: []planEdge{{parent: 0}}},
		{name: "join", edges: []planEdge{{parent: 1}, {parent: 2}}},
		{name: "beside"},
	}}.graph()
	const handler = 5
	for name, c := range map[string]struct {
		states []State
		dead   int32
		kept   []int32
	}{
		"what failed and what comes after it":    {[]State{Completed, Completed, Failed, Canceled, Completed}, 2, []int32{0, 1, 4}},
		"what saw the failure runs again":        {[]State{Completed, Completed, Failed, Completed, Completed}, 2, []int32{0, 1, 4}},
		"the first takes all but what is beside": {[]State{Failed, Completed, Completed, Completed, Completed}, 0, []int32{4}},
		"another that failed runs again, too":    {[]State{Completed, Failed, Failed, Canceled, Failed}, 2, []int32{0}},
		"what was skipped is decided upon anew":  {[]State{Completed, Skipped, Completed, Failed, Completed}, 3, []int32{0, 2, 4}},
		"a completed step can be named, too":     {[]State{Completed, Completed, Completed, Completed, Completed}, 1, []int32{0, 2, 4}},
		"the failure handler has no children":    {[]State{Completed, Failed, Completed, Canceled, Completed}, handler, []int32{0, 2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks := make([]Task, len(c.states))
			for i, s := range c.states {
				tasks[i] = Task{Step: int32(i), State: s}
			}
			kept, maps := Resume(g, tasks, c.dead)
			require.Equal(t, c.kept, kept)
			require.Empty(t, maps)
		})
	}
}

// Dynamic tasks are not taken over: the owner of one that did not complete makes them again.
func TestOwnersOfWhatDidNotCompleteRunAgain(t *testing.T) {
	t.Parallel()
	g := plan{steps: []planStep{{name: "owner"}, {name: "child", edges: []planEdge{{parent: 0}}}, {name: "beside"}}}.graph()
	dynamic := func(step, owner int32, state State) Task {
		return Task{Step: step, State: state, Dynamic: &Dynamic{Declared: 2, Owner: owner}}
	}
	for name, c := range map[string]struct {
		made []Task
		dead int32
		kept []int32
	}{
		"all completed":                     {[]Task{dynamic(4, 0, Completed), dynamic(5, 0, Skipped)}, 3, []int32{0, 1, 2}},
		"one failed":                        {[]Task{dynamic(4, 0, Completed), dynamic(5, 0, Failed)}, 5, []int32{2}},
		"one was canceled":                  {[]Task{dynamic(4, 2, Canceled)}, 3, []int32{0, 1}},
		"one is named that has completed":   {[]Task{dynamic(4, 0, Completed)}, 4, []int32{2}},
		"one of an owner that is dynamic":   {[]Task{dynamic(4, 0, Completed), dynamic(5, 4, Failed)}, 5, []int32{2}},
		"one that the failure handler made": {[]Task{{Step: 3, State: Completed}, dynamic(4, 3, Failed)}, 4, []int32{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks := []Task{{State: Completed}, {Step: 1, State: Completed}, {Step: 2, State: Completed}}
			kept, maps := Resume(g, append(tasks, c.made...), c.dead)
			require.Equal(t, c.kept, kept)
			require.Empty(t, maps)
		})
	}
}

func TestWhatTheInputSaidIsRemembered(t *testing.T) {
	t.Parallel()
	for _, said := range []Flags{0, FlagSkip, FlagFail, FlagSkip | FlagFail} {
		flags := InputFlags(said | FlagLive)
		require.Equal(t, said, flags&(FlagSkip|FlagFail))
		require.Zero(t, flags&FlagLive)
		require.Equal(t, said, SaidByInput(flags|FlagLive))
	}
	require.Zero(t, SaidByInput(FlagSkip|FlagFail), "a parent said so")
}
