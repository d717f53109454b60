package bench

import (
	"context"

	"github.com/troupe-dev/troupe"
)

// The workflows that are measured. Their steps do nothing, so that all that is
// left is the engine.

// single is one step; began is called when it starts.
func single(began func()) *troupe.Workflow[int, int] {
	return troupe.Define("single", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(b, "only", func(_ context.Context, n int) (int, error) {
			began()
			return n, nil
		})
	})
}

// diamond is four steps, a → b, c → d; joined is called when the last starts.
func diamond(joined func()) *troupe.Workflow[int, int] {
	return troupe.Define("diamond", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		pass := func(_ context.Context, _, got int) (int, error) { return got, nil }
		a := troupe.Step0(b, "a", func(_ context.Context, n int) (int, error) { return n, nil })
		left := troupe.Step1(b, "b", pass, a)
		right := troupe.Step1(b, "c", pass, a)
		return troupe.Step2(b, "d", func(_ context.Context, _, l, r int) (int, error) {
			joined()
			return l + r, nil
		}, left, right)
	})
}
