package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// double is the function of an element.
func double(_ context.Context, _, item int) (int64, error) { return int64(2 * item), nil }

func TestAMapIsDeclared(t *testing.T) {
	t.Parallel()
	var strict, settled workflow.Step
	w := Define("w", func(b *Builder[int]) StepRef[[]int64] {
		list := Step0(b, "list", constant[int]([]int{1}))
		other := Step0(b, "other", constant[int](1))
		then, _ := If(other, yes)
		MapSettled(b, "settled", list, double, MaxConcurrency(1000), ToleratedFailures(0.29), Queue("slow"), RunIfAllSkipped())
		return Map(b, "strict", list, double, MaxConcurrency(7), then, SkipIf(b.Input(), yes), After(other),
			Retry{Attempts: 3}, AttemptTimeout(time.Second), HeartbeatTimeout(time.Minute), ScheduleToStartTimeout(time.Hour))
	})
	require.NoError(t, w.Validate())
	steps, functions := w.plan.program.Definition.Steps, w.plan.program.Functions
	settled, strict = steps[2], steps[3]
	require.Equal(t, workflow.Map, strict.Kind)
	require.Equal(t, "func(context.Context, int, int) (int64, error)", strict.Type)
	require.Equal(t, "settled "+strict.Type, settled.Type)
	require.Equal(t, []workflow.Edge{{Parent: 0, Kind: workflow.Plain}}, strict.Parents)
	require.Len(t, strict.Conditions, 2)
	require.Len(t, strict.After, 1)
	require.Equal(t, []any{3, time.Second, time.Minute, time.Hour},
		[]any{strict.Options.Retry.Attempts, strict.Options.AttemptTimeout, strict.Options.HeartbeatLimit, strict.Options.ScheduleToStart})
	require.Equal(t, "slow", settled.Options.Queue)
	require.True(t, settled.RunIfAllSkipped)
	require.Equal(t, []any{7, 0.0, 1000, 0.29}, []any{functions[3].Map.Window, functions[3].Map.Tolerated, functions[2].Map.Window, functions[2].Map.Tolerated})
	require.Equal(t, reflect.TypeFor[int64](), functions[3].Result)
	require.Equal(t, reflect.TypeFor[[]ElementOutcome[int64]](), functions[2].Map.List)
}

func TestMistakesInMapsAreReported(t *testing.T) {
	t.Parallel()
	var foreign StepRef[[]int]
	Define("elsewhere", func(b *Builder[int]) StepRef[[]int] {
		foreign = Step0(b, "a", constant[int]([]int{1}))
		return foreign
	})
	misuse(t, []string{
		`step "none": function: the function is nil: pass the function that is executed for each element`,
		`step "no-items": items: the ref is nil: pass what a declaration of this workflow returned`,
		`step "empty": items: ` + emptyRef,
		`step "foreign": items: the ref belongs to another workflow, "elsewhere": declare the step in this workflow, too`,
		`step "option": options[0]: the option is nil: leave it out`,
		`step "condition": conditions[0]: ` + emptyRef,
		`step "window": max_concurrency: 0 elements at once: use 1 to 1000`,
		`step "wide": max_concurrency: 1001 elements at once: use 1 to 1000`,
		`step "part": tolerated_failures: 1.5 is no fraction of the elements: use 0, for none, to 1, for all`,
		`step "nan": tolerated_failures: NaN is no fraction of the elements: use 0, for none, to 1, for all`,
		`step "retry": retry.attempts: 0 attempts: say how many in all, as in Retry{Attempts: 3}`,
		`step "tx": in_tx: the elements of a map have no transactions: remove the option`,
	}, func(b *Builder[int], _ StepRef[int]) {
		ok := Step0(b, "items", constant[int]([]int{1}))
		Map[int, int, int](b, "none", ok, nil)
		Map(b, "no-items", nil, double)
		Map(b, "empty", StepRef[[]int]{}, double)
		MapSettled(b, "foreign", foreign, double)
		Map(b, "option", ok, double, nil)
		Map(b, "condition", ok, double, SkipIf(StepRef[int]{}, yes))
		Map(b, "window", ok, double, MaxConcurrency(0))
		MapSettled(b, "wide", ok, double, MaxConcurrency(1001))
		MapSettled(b, "part", ok, double, ToleratedFailures(1.5))
		MapSettled(b, "nan", ok, double, ToleratedFailures(math.NaN()))
		Map(b, "retry", ok, double, Retry{})
		Map(b, "tx", ok, double, InTx())
	})
	require.NotPanics(t, func() {
		Map(nil, "late", foreign, double)
		MapSettled(nil, "late", foreign, double)
	})
}

// JSON holds what the items and the results are, or the workflow is refused.
func TestTypesOfMapsThatJSONCannotHold(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[int]) StepRef[[]chan int] {
		list := Step0(b, "list", constant[int]([]chan int{}))
		return Map(b, "each", list, func(_ context.Context, _ int, item chan int) (chan int, error) { return item, nil })
	})
	require.NoError(t, w.Validate())
	_, err := bind(w, Config{Codec: JSON{}}.binding(nil))
	require.ErrorContains(t, err, `step "each": items: `)
	require.ErrorContains(t, err, `step "each": output: `)
}

func TestElementOutcome(t *testing.T) {
	t.Parallel()
	list := []ElementOutcome[*int]{
		{Output: new(int), State: StateCompleted},
		{State: StateCompleted},
		{State: StateFailed, Class: "torn", Error: "busy"},
		{State: StateFailed, Error: "busy"},
		{State: StateCanceled},
	}
	text, err := JSON{}.Marshal(list)
	require.NoError(t, err)
	require.Equal(t, `[{"output":0},{"output":null},{"state":"failed","class":"torn","error":"busy"},{"state":"failed","error":"busy"},{"state":"canceled","error":""}]`, string(text))
	var again []ElementOutcome[*int]
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, list, again)
	require.Error(t, json.Unmarshal([]byte(`[{"state":7}]`), &again))

	_, err = list[2].Value()
	require.EqualError(t, err, "an element failed (torn): busy")
	var failed *StepError
	require.ErrorAs(t, err, &failed)
	_, err = list[3].Value()
	require.EqualError(t, err, "an element failed: busy")
	_, err = list[4].Value()
	require.ErrorIs(t, err, ErrStepCanceled)
	_, err = ElementOutcome[int]{}.Value()
	require.ErrorIs(t, err, ErrStepSkipped)
	value, err := list[0].Value()
	require.NoError(t, err)
	require.Zero(t, *value)
	require.True(t, list[0].Completed())
	require.False(t, list[2].Completed())
	require.True(t, errors.Is(&StepError{Class: "element_failed"}, ErrElementFailed))
	require.True(t, errors.Is(&RunError{State: StateFailed, Class: "element_failed"}, ErrElementFailed))
}
