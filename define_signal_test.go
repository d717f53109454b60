package troupe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

var goAhead = NewSignal[int]("go")

func TestAWaitIsDeclared(t *testing.T) {
	t.Parallel()
	require.Equal(t, "go", goAhead.Name())
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		first := Step0(b, "first", constant[int](1))
		then, _ := If(first, yes)
		WaitSignal(b, "skips", goAhead, SkipAfter(time.Minute), SkipAfter(time.Hour))
		return WaitSignal(b, "fails", goAhead, FailAfter(time.Hour), After(first), then, SkipIf(first, yes), RunIfAllSkipped())
	})
	require.NoError(t, w.Validate())
	skips, fails := w.plan.program.Definition.Steps[1], w.plan.program.Definition.Steps[2]
	require.Equal(t, workflow.Step{Name: "skips", Kind: workflow.Wait, Type: "int", Signal: "go", Sleep: time.Hour, SkipLate: true}, skips)
	require.Equal(t, time.Hour, fails.Sleep)
	require.False(t, fails.SkipLate)
	require.Len(t, fails.Conditions, 2)
	require.Len(t, fails.After, 1)
	require.True(t, fails.RunIfAllSkipped)
}

func TestMistakesInWaitsAreReported(t *testing.T) {
	t.Parallel()
	misuse(t, []string{
		`step "both": deadline: the step has SkipAfter and FailAfter: choose one`,
		`step "zero": deadline: 0s is not a positive duration: give a positive duration, or wait for ever`,
		`step "past": deadline: -1s is not a positive duration: give a positive duration, or wait for ever`,
		`step "nil": options[0]: the option is nil: leave it out`,
		`step "nil": after[0]: ` + emptyRef,
		`step "unnamed": signal: the name is empty: use ASCII letters, digits and . _ - only, beginning with a letter or a digit`,
	}, func(b *Builder[int], ok StepRef[int]) {
		WaitSignal(b, "both", goAhead, SkipAfter(time.Minute), FailAfter(time.Minute))
		WaitSignal(b, "zero", goAhead, FailAfter(0))
		WaitSignal(b, "past", goAhead, SkipAfter(-time.Second))
		WaitSignal(b, "nil", goAhead, nil, After(StepRef[int]{}))
		WaitSignal(b, "unnamed", Signal[int]{})
	})
	require.NotPanics(t, func() { WaitSignal[int](nil, "late", goAhead) })
}

// A signal of a type that JSON loses is a problem of the workflow, as an output is.
func TestSignalsOfTypesThatJSONLoses(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[int]) StepRef[chan int] {
		return WaitSignal(b, "wait", NewSignal[chan int]("go"))
	})
	_, err := bind(w, Config{Codec: JSON{}}.binding(nil))
	require.ErrorContains(t, err, `step "wait": output: the type is a chan int`)
}

func TestASendErrorNamesWhatItIsAbout(t *testing.T) {
	t.Parallel()
	run := RunID{15: 1}
	for want, err := range map[string]*SendError{
		"signal refused (bad_input): id: remove it":                  {Code: BadInput, Field: "id", Remedy: "remove it"},
		"signal refused (run_ended): run " + run.String() + ": wait": {Code: RunEnded, Field: "run", Remedy: "wait", Run: run},
		"signal refused (unavailable): " + ErrRunEnded.Error():       {Code: Unavailable, cause: ErrRunEnded},
	} {
		require.EqualError(t, err, want)
	}
	require.ErrorIs(t, &SendError{Code: Unavailable, cause: ErrRunEnded}, ErrUnavailable)
	require.ErrorIs(t, &SendError{Code: Unavailable, cause: ErrRunEnded}, ErrRunEnded)
	require.NotErrorIs(t, &SendError{Code: Unavailable}, ErrRefused, "it may have been stored")
}
