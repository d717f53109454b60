package load

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/lifecycle"
)

// widthMax bounds N in chain-N and fan-N.
const widthMax = 1000

// Shapes describes the shapes, for help.
const Shapes = "single, chain-N, diamond, fan-N, orders, map-N, settled-N, machine-N"

// shape is a kind of workflow, and its size if it has one.
type shape struct {
	kind string
	n    int
}

func parseShape(text string) (shape, error) {
	kind, size, sized := strings.Cut(text, "-")
	switch kind {
	case "single", "diamond", "orders":
		if !sized {
			return shape{kind: kind}, nil
		}
	case "chain", "fan":
		if n, err := strconv.Atoi(size); err == nil && n >= 1 && n <= widthMax {
			return shape{kind, n}, nil
		}
		return shape{}, fmt.Errorf("--shape is %q: use %s-N with N from 1 to %d, as in %s-10", text, kind, widthMax, kind)
	case "map", "settled":
		return parseSize(text, kind, size, sized, elementsDefault, lifecycle.MapItemsMax)
	case machineKind:
		return parseSize(text, kind, size, sized, activitiesDefault, widthMax)
	}
	return shape{}, fmt.Errorf("--shape is %q: use one of %s", text, Shapes)
}

// parseSize reads the size of a shape that has one by default.
func parseSize(text, kind, size string, sized bool, usual, most int) (shape, error) {
	if !sized {
		return shape{kind, usual}, nil
	}
	if n, err := strconv.Atoi(size); err == nil && n >= 1 && n <= most {
		return shape{kind, n}, nil
	}
	return shape{}, fmt.Errorf("--shape is %q: use %s-N with N from 1 to %d, as in %s-%d, which %s alone is, too",
		text, kind, most, kind, usual, kind)
}

// steps says in words what one run executes.
func (s shape) steps() string {
	switch s.kind {
	case "single":
		return "1 step a run"
	case "chain":
		return output.Count(s.n, "step") + " a run, one after the other"
	case "fan":
		return fmt.Sprintf("%d steps a run, %d of them side by side", s.n+2, s.n)
	case "diamond":
		return "4 steps a run, two of them side by side"
	case "map", "settled":
		return fmt.Sprintf("2 steps and %s a run", plural(s.n, "element"))
	case machineKind:
		return fmt.Sprintf("a state machine with %s a run, one after the other", output.Several(s.n, "activity", "activities"))
	}
	return "3 or 6 steps a run, behind a branch"
}

// define declares the workflow. All functions are those of one worker; the
// last step is the one that ends the run, and there is one.
func (s shape) define(w *worker) troupe.Definition[order, result] {
	if s.kind == machineKind {
		return machine(w, s.n)
	}
	return troupe.Define("bench-"+s.kind, func(b *troupe.Builder[order]) troupe.StepRef[result] {
		switch s.kind {
		case "chain":
			return chain(b, w, s.n)
		case "fan":
			return fan(b, w, s.n)
		case "diamond":
			first := troupe.Step0(b, "a", w.step0(false), w.retry())
			left := troupe.Step1(b, "b", w.step1(1, false), first, w.retry())
			right := troupe.Step1(b, "c", w.step1(2, false), first, w.retry())
			return troupe.Step2(b, "d", w.step2(3), left, right, w.retry())
		case "orders":
			return orders(b, w)
		case "map", "settled":
			return overList(b, w, s)
		}
		return troupe.Step0(b, "only", w.step0(true), w.retry())
	})
}

func chain(b *troupe.Builder[order], w *worker, n int) troupe.StepRef[result] {
	at := troupe.Step0(b, "step-1", w.step0(n == 1), w.retry())
	for i := 1; i < n; i++ {
		at = troupe.Step1(b, fmt.Sprintf("step-%d", i+1), w.step1(i, i == n-1), at, w.retry())
	}
	return at
}

func fan(b *troupe.Builder[order], w *worker, n int) troupe.StepRef[result] {
	split := troupe.Step0(b, "split", w.step0(false), w.retry())
	parts := make([]troupe.StepRef[result], n)
	for i := range parts {
		parts[i] = troupe.Step1(b, fmt.Sprintf("part-%d", i+1), w.step1(i+1, false), split, w.retry())
	}
	return troupe.StepN(b, "join", func(needs *troupe.Needs) stepN {
		for _, part := range parts {
			troupe.Need(needs, part)
		}
		return w.stepN(n + 1)
	}, w.retry())
}

// rejectedShare of the orders are found to be invalid.
const rejectedShare = 0.2

// orders has a branch, of which one side is skipped, and a merge.
//
//	validate ─┬─ valid ── charge ─┬─ pack ───┐
//	          │                   └─ label ──┴─ ship ─┬─ close
//	          └─ invalid ── reject ───────────────────┘
func orders(b *troupe.Builder[order], w *worker) troupe.StepRef[result] {
	validated := troupe.Step0(b, "validate", w.step0(false), w.retry())
	valid, invalid := troupe.If(validated, func(r result) bool { return chance(r.N, 0, toReject) >= rejectedShare })
	charged := troupe.Step1(b, "charge", w.step1(1, false), validated, w.retry(), valid)
	packed := troupe.Step1(b, "pack", w.step1(2, false), charged, w.retry())
	labeled := troupe.Step1(b, "label", w.step1(3, false), charged, w.retry())
	shipped := troupe.Step2(b, "ship", w.pair(4), packed, labeled, w.retry())
	rejected := troupe.Step1(b, "reject", w.step1(5, false), validated, w.retry(), invalid)
	return troupe.Step2(b, "close", w.merge(6), troupe.Maybe(shipped), troupe.Maybe(rejected), w.retry())
}
