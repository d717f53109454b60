package troupe

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// tens is a workflow that a step may run.
var tens = Define("tens", func(b *Builder[int]) StepRef[int] { return Step0(b, "ten", constant[int](10)) })

func TestAChildIsDeclared(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		first := Step0(b, "first", constant[int](1))
		then, _ := If(first, yes)
		return Child(b, "child", tens, first, AbandonChild(), then, SkipIf(b.Input(), yes), After(first), RunIfAllSkipped())
	})
	require.NoError(t, w.Validate())
	s := w.plan.program.Definition.Steps[1]
	require.Equal(t, workflow.ChildSpec{Workflow: "tens", Output: workflow.OutputOf{Workflow: "tens", Step: "ten"}, Abandons: true}, s.Child)
	require.Equal(t, "func(int) int", s.Type)
	require.Len(t, s.Conditions, 2)
	require.Len(t, s.After, 1)
	require.True(t, s.RunIfAllSkipped)
}

func TestMistakesInChildrenAreReported(t *testing.T) {
	t.Parallel()
	var foreign StepRef[int]
	Define("elsewhere", func(b *Builder[int]) StepRef[int] {
		foreign = Step0(b, "a", constant[int](1))
		return foreign
	})
	broken := Define("broken", func(b *Builder[int]) StepRef[int] {
		Step0(b, "", constant[int](1))
		return Step0(b, "b", constant[int](1), Queue(""))
	})
	misuse(t, []string{
		`step "none": workflow: the workflow is nil: make one with Define, before this one`,
		`step "no-pointer": workflow: the workflow is nil: make one with Define, before this one`,
		`step "broken": workflow: workflow "broken" is wrong: step "b": queue: the name is empty: name a queue, or leave the option out (and 1 more): mend that workflow`,
		`step "no-name": workflow: workflow "" is wrong: name: the name is empty: use ASCII letters, digits and . _ - only, beginning with a letter or a digit: mend that workflow`,
		`step "no-input": input: the ref is nil: pass what a declaration of this workflow returned`,
		`step "empty": input: ` + emptyRef,
		`step "foreign": input: the ref belongs to another workflow, "elsewhere": declare the step in this workflow, too`,
		`step "option": options[0]: the option is nil: leave it out`,
		`step "condition": conditions[0]: ` + emptyRef,
	}, func(b *Builder[int], ok StepRef[int]) {
		Child[int, int, int](b, "none", nil, ok)
		Child(b, "no-pointer", (*Workflow[int, int])(nil), ok)
		Child(b, "broken", broken, ok)
		Child(b, "no-name", Define("", func(b *Builder[int]) StepRef[int] { return Step0(b, "a", constant[int](1)) }), ok)
		Child(b, "no-input", tens, nil)
		Child(b, "empty", tens, StepRef[int]{})
		Child(b, "foreign", tens, foreign)
		Child(b, "option", tens, ok, nil)
		Child(b, "condition", tens, ok, SkipIf(StepRef[int]{}, yes))
	})
	require.NotPanics(t, func() { Child[int](nil, "late", tens, foreign) })
}

// The errors of steps, and of runs, whose child run did not complete.
func TestErrorsOfChildRuns(t *testing.T) {
	t.Parallel()
	of := map[string]error{
		"child_failed": ErrChildFailed, "child_canceled": ErrChildCanceled, "child_gone": ErrChildGone, "too_deep": ErrTooDeep, "wait_timeout": ErrWaitTimeout,
	}
	for class := range of {
		for other, target := range of {
			require.Equal(t, class == other, errors.Is(&StepError{Class: class}, target), "%s and %v", class, target)
			require.Equal(t, class == other, errors.Is(&RunError{State: StateFailed, Class: class}, target), "%s and %v", class, target)
		}
		require.NotErrorIs(t, &RunError{State: StateCanceled, Class: class}, of[class])
	}
	require.NotErrorIs(t, &StepError{}, ErrChildFailed)
}
