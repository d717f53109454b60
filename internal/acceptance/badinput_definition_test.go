package acceptance

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Bad definitions. The names of the tests begin with their row in the list of bad
// input, B01 to B44.

// number and plus are step functions of no interest.
func number(context.Context, string) (int, error)          { return 1, nil }
func plus(_ context.Context, _ string, n int) (int, error) { return n + 1, nil }

// refused checks that an engine refuses a workflow, for all of the given
// reasons, and that nothing is left of it.
func refused[I, O any](t *testing.T, w *troupe.Workflow[I, O], want ...string) {
	t.Helper()
	engine, err := troupe.NewInMemory(calm())
	require.NoError(t, err)
	_, err = troupe.Register(engine, w)
	var bad *troupe.DefinitionError
	require.ErrorAs(t, err, &bad)
	for _, text := range want {
		require.ErrorContains(t, err, text)
	}
	for _, problem := range bad.Problems {
		require.NotEmpty(t, problem.Remedy, "%v", problem)
	}
	require.Equal(t, w.Validate(), errors.Unwrap(err), "Validate says the same, without an engine")
}

func TestB01CyclesCannotBeDeclared(t *testing.T) {
	t.Parallel()
	// A ref exists once its step is declared, so an edge can only point back.
	// The nearest to a cycle is a ref that is still empty.
	refused(t, troupe.Define("cycle", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		var later troupe.StepRef[int]
		first := troupe.Step1(b, "first", plus, later)
		later = troupe.Step1(b, "later", plus, first)
		return later
	}), `step "first": parents[0]: the ref is empty`)
}

func TestB02AllProblemsOfAWorkflowAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	var foreign troupe.StepRef[int]
	troupe.Define("other", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		foreign = troupe.Step0(b, "foreign", number)
		return foreign
	})
	refused(t, troupe.Define("bad", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		a := troupe.Step0(b, "a", number)
		troupe.Step0(b, "a", number)
		troupe.Step0(b, "A", number)
		troupe.Step1(b, "stranger", plus, foreign)
		then, otherwise := troupe.If(a, func(int) bool { return true })
		left := troupe.Step0(b, "left", number, then)
		right := troupe.Step0(b, "right", number, otherwise)
		troupe.Step0(b, "never", number, troupe.After(left, right))
		troupe.Step0[string, int](b, "hollow", nil)
		return a
	}),
		`step "a": name: another step has the same name`,
		`step "A": name: differs from step "a" by case only`,
		`step "stranger": parents[0]: the ref belongs to another workflow, "other"`,
		`step "never": parents: unreachable`,
		`step "hollow": function: the function is nil`)
	refused(t, troupe.Define("empty", func(*troupe.Builder[string]) troupe.StepRef[int] { return troupe.StepRef[int]{} }),
		"the workflow has no steps")
	refused(t, troupe.Define[string, int]("hollow", nil), "the function is nil")
}

func TestB03NamesAreCheckedForCharactersAndLength(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", strings.Repeat("x", 256), strings.Repeat("x", 10_000), "a\x00b", "\u202egnp.exe", "../etc/passwd", "a b",
		"\U0001F600", "ä", "a/b", "-x", "\xff",
	} {
		refused(t, troupe.Define(name, func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step0(b, "ok", number)
		}), "name: ")
		refused(t, troupe.Define("ok", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step0(b, name, number)
		}), "name: ")
		if name != "" {
			refused(t, troupe.Define("ok", func(b *troupe.Builder[string]) troupe.StepRef[int] {
				return troupe.Step0(b, "ok", number, troupe.Queue(name))
			}), "queue: ")
		}
	}
	longest := troupe.Define(strings.Repeat("x", 255), func(b *troupe.Builder[string]) troupe.StepRef[int] {
		return troupe.Step0(b, "A.b_c-9", number)
	})
	require.NoError(t, longest.Validate())
}

func TestB12DurationsAreChecked(t *testing.T) {
	t.Parallel()
	bad := map[string]time.Duration{"negative": -time.Second, "300 years": math.MaxInt64}
	fields := map[string]func(time.Duration) troupe.StepOption{
		"attempt_timeout":           func(d time.Duration) troupe.StepOption { return troupe.AttemptTimeout(d) },
		"heartbeat_timeout":         func(d time.Duration) troupe.StepOption { return troupe.HeartbeatTimeout(d) },
		"schedule_to_start_timeout": func(d time.Duration) troupe.StepOption { return troupe.ScheduleToStartTimeout(d) },
		"retry.first":               func(d time.Duration) troupe.StepOption { return troupe.Retry{Attempts: 2, First: d} },
		"retry.cap":                 func(d time.Duration) troupe.StepOption { return troupe.Retry{Attempts: 2, Cap: d} },
	}
	for what, duration := range bad {
		for field, option := range fields {
			refused(t, single(number, option(duration)), field+": ")
		}
		refused(t, troupe.Define("sleeps", func(b *troupe.Builder[string]) troupe.StepRef[int] {
			return troupe.Step0(b, "after", number, troupe.After(troupe.Sleep(b, what[:3], duration)))
		}), "sleep: ")
	}
	refused(t, single(number, troupe.AttemptTimeout(0)), "attempt_timeout: 0s is not a limit")
	refused(t, troupe.Define("sleeps", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		return troupe.Step0(b, "after", number, troupe.After(troupe.Sleep(b, "sleep", 0)))
	}), "sleep: 0s is not a positive duration")
	refused(t, single(number, troupe.Retry{}), "retry.attempts: 0 attempts")
	refused(t, single(number, troupe.Retry{Attempts: -1}), "retry.attempts: -1 attempts")
	refused(t, single(number, troupe.Retry{Attempts: 2, Factor: math.NaN()}), "retry.factor: ")
	refused(t, single(number, troupe.Retry{Attempts: 2, Factor: 0.5}), "retry.factor: ")
	refused(t, single(number, troupe.Retry{Attempts: 2, Jitter: 2}), "retry.jitter: ")
}

func TestB12DurationsOfTheConfigurationAreChecked(t *testing.T) {
	t.Parallel()
	config := troupe.Config{
		Pulse: -time.Second, Sweep: math.MaxInt64, InTxTimeout: -1, StopGrace: -1, Lease: time.Nanosecond,
		Retry: troupe.Retry{Attempts: -3},
	}
	_, err := troupe.NewInMemory(config)
	for _, field := range []string{"Pulse", "Sweep", "InTxTimeout", "StopGrace", "Retry"} {
		require.ErrorContains(t, err, "config: "+field+" ")
	}
	_, err = troupe.New(nil, troupe.Config{})
	require.ErrorContains(t, err, "the pool is nil")
}

func TestB18ConditionsOnlyLookAtStepsOfTheirWorkflow(t *testing.T) {
	t.Parallel()
	var foreign troupe.StepRef[int]
	troupe.Define("other", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		foreign = troupe.Step0(b, "foreign", number)
		return foreign
	})
	yes := func(int) bool { return true }
	conditions := map[string]func(troupe.StepRef[int]) troupe.EdgeOption{
		"SkipIf": func(ref troupe.StepRef[int]) troupe.EdgeOption { return troupe.SkipIf(ref, yes) },
		"If":     func(ref troupe.StepRef[int]) troupe.EdgeOption { then, _ := troupe.If(ref, yes); return then },
		"Switch": func(ref troupe.StepRef[int]) troupe.EdgeOption {
			return troupe.Switch(ref, func(int) string { return "x" }).Case("x")
		},
	}
	for name, condition := range conditions {
		refused(t, single(number, condition(foreign)),
			`step "step": conditions[0]: the ref belongs to another workflow, "other"`)
		refused(t, single(number, condition(troupe.StepRef[int]{})), "conditions[0]: the ref is empty")
		require.NotEmpty(t, name)
	}
	refused(t, troupe.Define("twice", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		a := troupe.Step0(b, "a", number)
		branches := troupe.Switch(a, func(int) string { return "x" })
		troupe.Step1(b, "left", plus, a, branches.Case("x"))
		return troupe.Step1(b, "right", plus, a, branches.Case("x"))
	}), `declares case "x" twice`)
	refused(t, troupe.Define("nil", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		a := troupe.Step0(b, "a", number)
		return troupe.Step1(b, "b", plus, a, troupe.SkipIf[int](a, nil))
	}), "the function of SkipIf")
}
