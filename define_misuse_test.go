package troupe

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// misuse declares a workflow of a step "ok" and whatever declare adds, and
// wants exactly these problems: what the compiler lets pass is reported, all at
// once, and nothing panics.
func misuse(t *testing.T, want []string, declare func(b *Builder[int], ok StepRef[int])) {
	t.Helper()
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		ok := Step0(b, "ok", constant[int](1))
		declare(b, ok)
		return ok
	})
	require.Equal(t, want, texts(t, w.Validate()))
	_, err := bind(w, Config{Codec: JSON{}}.binding(nil))
	require.Error(t, err)
}

func yes(int) bool { return true }

const emptyRef = "the ref is empty: pass what Step0, Sleep or another declaration of this workflow returned"

func TestRefOfAnotherWorkflow(t *testing.T) {
	t.Parallel()
	var foreign StepRef[int]
	var foreignThen EdgeOption
	Define("elsewhere", func(b *Builder[int]) StepRef[int] {
		foreign = Step0(b, "a", constant[int](1))
		foreignThen, _ = If(foreign, yes)
		return foreign
	})
	const elsewhere = `the ref belongs to another workflow, "elsewhere": declare the step in this workflow, too`
	one := func(context.Context, int, int) (int, error) { return 1, nil }
	misuse(t, []string{
		`step "s": parents[0]: ` + elsewhere, `step "s": after[0]: ` + elsewhere, `step "s": conditions[0]: ` + elsewhere,
		`step "u": wake_from: ` + elsewhere, `step "t": conditions[0]: ` + elsewhere,
	}, func(b *Builder[int], _ StepRef[int]) {
		Step1(b, "s", one, foreign, After(Maybe(foreign)), foreignThen)
		SleepUntil(b, "u", foreign, func(int) time.Time { return time.Time{} })
		Step0(b, "t", constant[int](1), SkipIf(foreign, yes))
	})
}

func TestEmptyRefs(t *testing.T) {
	t.Parallel()
	one := func(context.Context, int, int) (int, error) { return 1, nil }
	misuse(t, []string{
		`step "s": parents[0]: ` + emptyRef, `step "s": after[0]: ` + emptyRef, `step "s": conditions[0]: ` + emptyRef,
		`step "s": conditions[0]: ` + emptyRef, `step "t": conditions[0]: ` + emptyRef, `step "m": parents[0]: ` + emptyRef,
		`step "u": wake_from: ` + emptyRef,
	}, func(b *Builder[int], _ StepRef[int]) {
		then, _ := If(StepRef[int]{}, yes)
		Step1(b, "s", one, StepRef[int]{}, After(SleepRef{}), then, SkipIf[int](nil, yes))
		Step0(b, "t", constant[int](1), Switch(InputRef[int]{}, func(int) string { return "" }).Case("x"))
		Step1(b, "m", func(context.Context, int, Opt[int]) (int, error) { return 1, nil }, Maybe[int](nil))
		SleepUntil[int, int](b, "u", nil, nil)
	})
}

func TestNil(t *testing.T) {
	t.Parallel()
	misuse(t, []string{
		`step "s": function: the function is nil: pass the step's function`,
		`step "s": parents[0]: the ref is nil: pass what a declaration of this workflow returned`,
		`step "s": options[0]: the option is nil: leave it out`,
		`step "s": after[0]: the ref is nil: pass what a declaration of this workflow returned`,
		`step "n": function: the function is nil: return the step's function from declare`,
		`step "o": parents[0]: the ref is nil: pass what a declaration of this workflow returned`,
		`step "o": function: the function is nil: return the step's function from declare`,
		`step "z": options[0]: the option is nil: leave it out`,
		`step "on-failure": function: the function is nil: pass the step's function`,
		`step "on-failure": options[0]: the option is nil: leave it out`,
		`conditions: the function of If on the input is nil: pass a function`,
		`conditions: the function of SkipIf on "ok" is nil: pass a function`,
		`conditions: the function of Switch on "ok" is nil: pass a function`,
		`step "u": wake_from: the function is nil: pass a function that returns the instant`,
	}, func(b *Builder[int], ok StepRef[int]) {
		Step1[int, int, int](b, "s", nil, nil, nil, After(nil))
		StepN[int, int](b, "n", nil)
		StepN(b, "o", func(needs *Needs) func(context.Context, int, Values) (int, error) {
			Need[int](needs, nil)
			Need[int](nil, ok)
			return nil
		})
		Sleep(b, "z", time.Hour, nil)
		b.OnFailure(nil, nil)
		If[int](b.Input(), nil)
		SkipIf[int](ok, nil)
		Switch[int, string](ok, nil)
		SleepUntil[int, int](b, "u", ok, nil)
	})
}

func TestTwice(t *testing.T) {
	t.Parallel()
	misuse(t, []string{
		`switch: Switch on "ok" declares case "x" twice: declare it once and give the option to every step of the branch`,
		`switch: Switch on "ok" declares its default twice: declare it once and give the option to every step of the branch`,
		`step "on-failure": OnFailure is declared twice: declare one that does both`,
		`step "ok": name: another step has the same name: rename one of them`,
	}, func(b *Builder[int], ok StepRef[int]) {
		k := Switch(ok, func(int) string { return "" })
		Step0(b, "s", constant[int](1), k.Case("x"))
		Step0(b, "t", constant[int](1), k.Case("x"))
		Step0(b, "u", constant[int](1), k.Default())
		Step0(b, "v", constant[int](1), k.Default())
		Step0(b, "ok", constant[int](1))
		b.OnFailure(func(context.Context, int, []*StepError) error { return nil })
		b.OnFailure(func(context.Context, int, []*StepError) error { return nil })
	})
}

func TestZeroOptions(t *testing.T) {
	t.Parallel()
	misuse(t, []string{
		`step "s": attempt_timeout: 0s is not a limit: give a positive duration, or leave the option out`,
		`step "s": queue: the name is empty: name a queue, or leave the option out`,
		`step "s": retry.attempts: 0 attempts: say how many in all, as in Retry{Attempts: 3}`,
		`step "s": retry.first: -1ns is negative: use a positive duration, or zero for the default`,
		`step "s": heartbeat_timeout: -1ns is negative: use a positive duration, or zero for the default`,
		`step "z": sleep: 0s is not a positive duration: sleep for more than zero, or leave the step out`,
	}, func(b *Builder[int], _ StepRef[int]) {
		Step0(b, "s", constant[int](1), AttemptTimeout(0), HeartbeatTimeout(-1), Queue(""), Retry{First: -1})
		Sleep(b, "z", 0)
	})
}

func texts(t *testing.T, err error) []string {
	t.Helper()
	var broken *DefinitionError
	require.ErrorAs(t, err, &broken)
	require.NotEmpty(t, broken.Workflow)
	var list []string
	for _, p := range broken.Problems {
		require.ErrorIs(t, err, p)
		list = append(list, p.Error())
	}
	return list
}

func TestMisuseOfDefine(t *testing.T) {
	t.Parallel()
	nothing := func(*Builder[int]) StepRef[int] { return StepRef[int]{} }
	require.Equal(t, []string{
		`name: the name has ' ' at byte 1: use ASCII letters, digits and . _ - only, beginning with a letter or a digit`,
		`steps: the workflow has no steps: declare at least one`,
	}, texts(t, Define("a b", nothing).Validate()))
	require.Equal(t, []string{
		"options[0]: the option is nil: leave it out",
		"build: the function is nil: pass a function that declares the steps",
		"steps: the workflow has no steps: declare at least one",
	}, texts(t, Define[int, int]("w", nil, nil).Validate()))
	require.Equal(t, []string{"output: " + emptyRef}, texts(t, Define("w", func(b *Builder[int]) StepRef[int] {
		Step0(b, "s", constant[int](1))
		return StepRef[int]{}
	}, FailFast()).Validate()))
}

// TestBuilderEnds: a builder that outlived Define, or never had one, changes
// nothing.
func TestBuilderEnds(t *testing.T) {
	t.Parallel()
	var kept *Builder[int]
	var late *Branches[string]
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		kept = b
		s := Step0(b, "s", constant[int](1))
		late = Switch(s, func(int) string { return "" })
		return s
	})
	for _, b := range []*Builder[int]{kept, nil, {}} {
		s := Step0(b, "late", constant[int](1))
		then, _ := If(s, func(int) bool { return true })
		StepN(b, "n", func(*Needs) func(context.Context, int, Values) (int, error) { return nil })
		Sleep(b, "z", time.Hour, then)
		SleepUntil(b, "u", s, func(int) time.Time { return time.Time{} })
		b.OnFailure(nil)
		b.Input()
	}
	late.Case("x")
	late.Case("x")
	late.Default()
	If[int](StepRef[int]{at: place{plan: w.plan}}, nil)
	require.NoError(t, w.Validate())
	require.Len(t, w.plan.program.Definition.Steps, 1)
}

func TestDefinitionErrorHoldsProblems(t *testing.T) {
	t.Parallel()
	err := Define[int, int]("w", nil).Validate()
	var problem Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "build", problem.Field)
}
