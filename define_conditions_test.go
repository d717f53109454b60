package troupe

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// skip and fail are what a decision says of a child that may not run.
func skip(child string) persistence.EdgeResult {
	return persistence.EdgeResult{Child: child, Flags: lifecycle.FlagSkip}
}

func fail(child, text string) persistence.EdgeResult {
	return persistence.EdgeResult{Child: child, Flags: lifecycle.FlagFail, Error: text}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	asked := 0
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		n := Step0(b, "n", func(_ context.Context, in int) (int, error) { return in, nil })
		small, large := If(n, func(n int) bool { asked++; return n < 10 })
		kind := Switch(n, func(n int) string { return map[int]string{1: "one", 2: "two"}[n] })
		odd := SkipIf(n, func(n int) bool { return n%2 == 1 })
		thirteen := SkipIf(n, func(n int) bool {
			if n == 13 {
				panic("unlucky")
			}
			return false
		})
		run := constant[int](0)
		Step0(b, "small", run, small)
		Sleep(b, "small-too", time.Hour, small)
		Step0(b, "large", run, large)
		Step0(b, "one", run, kind.Case("one"))
		Step0(b, "two", run, kind.Case("two"), odd)
		Step0(b, "many", run, kind.Default())
		Step0(b, "even", run, odd, thirteen)
		Step0(b, "lucky", run, thirteen)
		return n
	})
	require.NoError(t, w.Validate())
	n := functions(t, w)["n"]
	const unlucky = `SkipIf on "n": panic: unlucky`
	for in, want := range map[string][]persistence.EdgeResult{
		"1": {skip("large"), skip("two"), skip("many"), skip("even")},
		"2": {skip("large"), skip("one"), skip("many")},
		"4": {skip("large"), skip("one"), skip("two")},
		"12": {
			skip("small"), skip("small-too"), skip("one"), skip("two"),
		},
		"13": {
			skip("small"), skip("small-too"), skip("one"), skip("two"),
			{Child: "even", Flags: lifecycle.FlagSkip | lifecycle.FlagFail, Error: unlucky},
			fail("lucky", unlucky),
		},
	} {
		asked = 0
		out, err := n.Call(t.Context(), actors.Inputs{Input: []byte(in)})
		require.NoError(t, err, "a panic in a decision is not the step's failure")
		require.Equal(t, in, string(out.Payload))
		require.Equal(t, want, out.Edges, "input %s", in)
		require.Equal(t, 1, asked, "each decision is made once, whatever hangs on it")
	}
}

func TestDecisionsOnTheInput(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		yes, no := If(b.Input(), func(in int) bool { return 10/in > 1 })
		SleepUntil(b, "until", b.Input(), func(in int) time.Time { return time.Unix(int64(in), 0) })
		Step0(b, "no", constant[int](0), no)
		return Step0(b, "yes", constant[int](0), yes)
	})
	b, err := bind(w, Config{Codec: JSON{}}.binding(nil))
	require.NoError(t, err)
	until := func(in int64) persistence.EdgeResult {
		return persistence.EdgeResult{Child: "until", WakeAt: time.Unix(in, 0).UTC()}
	}
	for in, want := range map[int][]persistence.EdgeResult{
		1: {skip("no"), until(1)},
		9: {skip("yes"), until(9)},
		0: {
			fail("no", "If on the input: panic: runtime error: integer divide by zero"),
			fail("yes", "If on the input: panic: runtime error: integer divide by zero"), until(0),
		},
	} {
		got, err := b.Admit(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := b.AdmitPayload("", []byte("9"))
	require.NoError(t, err)
	require.Equal(t, []persistence.EdgeResult{skip("yes"), until(9)}, got)
	_, err = b.AdmitPayload("", []byte(`"x"`))
	require.ErrorContains(t, err, "decode the input into int")
}

func TestSleepUntil(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 3600)
	instants := []time.Time{
		time.Date(2040, 1, 2, 3, 4, 5, 6, zone),
		{},
		time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 30, 0, 0, time.FixedZone("west", -3600)),
		time.Date(10_000, 1, 1, 0, 30, 0, 0, zone),
	}
	w := Define("w", func(b *Builder[int]) StepRef[int] {
		n := Step0(b, "n", func(_ context.Context, in int) (int, error) { return in, nil })
		SleepUntil(b, "until", n, func(n int) time.Time { return instants[n] })
		return n
	})
	n := functions(t, w)["n"]
	for in, want := range map[string]persistence.EdgeResult{
		"0": {Child: "until", WakeAt: time.Date(2040, 1, 2, 2, 4, 5, 6, time.UTC)},
		"1": fail("until", `SleepUntil on "n": instant 0001-01-01 00:00:00 +0000 UTC is not in the years 1 to 9999`),
		"2": fail("until", `SleepUntil on "n": instant 10000-01-01 00:00:00 +0000 UTC is not in the years 1 to 9999`),
		"3": fail("until", `SleepUntil on "n": instant -0001-01-01 00:00:00 +0000 UTC is not in the years 1 to 9999`),
		"4": {Child: "until", WakeAt: instants[4]},
		"5": fail("until", `SleepUntil on "n": instant 10000-01-01 00:30:00 +0000 UTC is not in the years 1 to 9999`),
		"6": {Child: "until", WakeAt: time.Date(9999, 12, 31, 23, 30, 0, 0, time.UTC)},
		"7": fail("until", `SleepUntil on "n": panic: runtime error: index out of range [7] with length 7`),
	} {
		out, err := n.Call(t.Context(), actors.Inputs{Input: []byte(in)})
		require.NoError(t, err)
		require.Equal(t, []persistence.EdgeResult{want}, out.Edges)
	}
}

// TestDecisionOnAnInterface: a nil output reaches the function as nil.
func TestDecisionOnAnInterface(t *testing.T) {
	t.Parallel()
	w := Define("w", func(b *Builder[int]) StepRef[any] {
		n := Step0(b, "n", constant[int, any](nil))
		isNil, _ := If(n, func(v any) bool { return v == nil })
		other := Switch(n, func(v any) string { return "nothing" })
		Step0(b, "nil", constant[int](0), isNil, other.Case("nothing"))
		return n
	})
	out, err := functions(t, w)["n"].Call(t.Context(), actors.Inputs{Input: []byte("1")})
	require.NoError(t, err)
	require.Empty(t, out.Edges)
}
