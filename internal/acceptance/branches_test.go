package acceptance

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// V7: conditions. They look at the input of these workflows.

type verdict struct{ Valid bool }

func (v verdict) valid() bool   { return v.Valid }
func (v verdict) invalid() bool { return !v.Valid }

func validate(_ context.Context, valid bool) (verdict, error) { return verdict{valid}, nil }

// does returns a step function of a branch.
func does(d *diary, name string) func(context.Context, bool, verdict) (string, error) {
	return func(context.Context, bool, verdict) (string, error) {
		d.note("%s", name)
		return name, nil
	}
}

func TestR21SkipIfSkipsAStep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("skip", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			v := troupe.Step0(b, "validate", validate)
			return troupe.Step1(b, "charge", does(d, "charge"), v, troupe.SkipIf(v, verdict.invalid))
		}))
		run := begin(t, handle, false)
		require.Equal(t, "completed validate=completed charge=skipped", states(t, run))
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrNoOutput, "a skipped step has no output")
		require.Nil(t, stepOf(t, run, "charge").Output)

		got, err := handle.Run(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, "charge", got)
		require.Equal(t, []string{"charge"}, d.all())
	})
}

func TestR21SkipCascadesToDescendants(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("cascade", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			v := troupe.Step0(b, "validate", validate)
			a := troupe.Step1(b, "a", does(d, "a"), v, troupe.SkipIf(v, verdict.invalid))
			return troupe.Step1(b, "c", passes[bool](d, "c"), troupe.Step1(b, "b", passes[bool](d, "b"), a))
		}))
		run := begin(t, handle, false)
		require.Equal(t, "completed validate=completed a=skipped b=skipped c=skipped", states(t, run))
		require.Empty(t, d.all())
	})
}

// fork declares the branch pattern of the specification: charge or reject, and
// a step where the branches merge.
func fork(d *diary, left, right func(troupe.StepRef[verdict]) troupe.EdgeOption) *troupe.Workflow[bool, string] {
	return troupe.Define("fork", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
		v := troupe.Step0(b, "validate", validate)
		charge := troupe.Step1(b, "charge", does(d, "charge"), v, left(v))
		ship := troupe.Step1(b, "ship", passes[bool](d, "ship"), charge)
		reject := troupe.Step1(b, "reject", does(d, "reject"), v, right(v))
		return troupe.Step2(b, "finalize", func(_ context.Context, _ bool, shipped, rejected troupe.Opt[string]) (string, error) {
			d.note("finalize")
			return shipped.Or("nothing") + ", " + rejected.Or("nothing"), nil
		}, troupe.Maybe(ship), troupe.Maybe(reject))
	})
}

func TestR23OnlyTheMatchingBranchRunsAndTheyMerge(t *testing.T) {
	forks := map[string]func(d *diary) *troupe.Workflow[bool, string]{
		"SkipIf": func(d *diary) *troupe.Workflow[bool, string] {
			return fork(d,
				func(v troupe.StepRef[verdict]) troupe.EdgeOption { return troupe.SkipIf(v, verdict.invalid) },
				func(v troupe.StepRef[verdict]) troupe.EdgeOption { return troupe.SkipIf(v, verdict.valid) })
		},
		"If": func(d *diary) *troupe.Workflow[bool, string] {
			return fork(d,
				func(v troupe.StepRef[verdict]) troupe.EdgeOption { then, _ := troupe.If(v, verdict.valid); return then },
				func(v troupe.StepRef[verdict]) troupe.EdgeOption {
					_, other := troupe.If(v, verdict.valid)
					return other
				})
		},
		"Switch": func(d *diary) *troupe.Workflow[bool, string] {
			word := func(v verdict) string { return map[bool]string{true: "good", false: "bad"}[v.Valid] }
			return fork(d,
				func(v troupe.StepRef[verdict]) troupe.EdgeOption { return troupe.Switch(v, word).Case("good") },
				func(v troupe.StepRef[verdict]) troupe.EdgeOption { return troupe.Switch(v, word).Case("bad") })
		},
	}
	t.Parallel()
	for name, declare := range forks {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				d := &diary{}
				_, handle := start(t, declare(d))
				run := begin(t, handle, true)
				require.Equal(t, "completed validate=completed charge=completed ship=completed reject=skipped finalize=completed", states(t, run))
				got, err := run.Await(t.Context())
				require.NoError(t, err)
				require.Equal(t, "charge→ship, nothing", got, "the output of a skipped parent is absent")

				run = begin(t, handle, false)
				require.Equal(t, "completed validate=completed charge=skipped ship=skipped reject=completed finalize=completed", states(t, run))
				got, err = run.Await(t.Context())
				require.NoError(t, err)
				require.Equal(t, "nothing, reject", got)
				require.Equal(t, []string{"charge", "ship", "finalize", "reject", "finalize"}, d.all())
			})
		})
	}
}

func TestR21AnyOfSeveralSkipIfSkips(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		is := func(letter byte) func(string) bool {
			return func(in string) bool { return len(in) > 0 && in[0] == letter }
		}
		_, handle := start(t, troupe.Define("several", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			echo := troupe.Step0(b, "echo", func(_ context.Context, in string) (string, error) { return in, nil })
			return troupe.Step1(b, "step", passes[string](d, "step"), echo,
				troupe.SkipIf(echo, is('x')), troupe.SkipIf(echo, is('y')), troupe.SkipIf(b.Input(), is('z')))
		}))
		for input, want := range map[string]troupe.State{
			"x": troupe.StateSkipped, "y": troupe.StateSkipped, "z": troupe.StateSkipped, "w": troupe.StateCompleted,
		} {
			require.Equal(t, want, stepOf(t, begin(t, handle, input), "step").State, input)
		}
	})
}

func TestR21ConditionsOnAStepThatIsNoParent(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("distant", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			v := troupe.Step0(b, "validate", validate)
			other := troupe.Step0(b, "other", gives[bool](d, "other", "other"))
			return troupe.Step1(b, "step", passes[bool](d, "step"), other, troupe.SkipIf(v, verdict.invalid))
		}))
		require.Equal(t, "completed validate=completed other=completed step=skipped", states(t, begin(t, handle, false)))
		require.Equal(t, "completed validate=completed other=completed step=completed", states(t, begin(t, handle, true)))
	})
}

func TestR23PanicOfAConditionFailsTheBranchNotTheParent(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("panics", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			v := troupe.Step0(b, "validate", validate)
			return troupe.Step1(b, "step", does(&diary{}, "step"), v, troupe.SkipIf(v, func(verdict) bool { panic("oops") }))
		}))
		run := begin(t, handle, true)
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.ErrorContains(t, err, "oops")
		require.Equal(t, "failed validate=completed step=failed", states(t, run))
	})
}
