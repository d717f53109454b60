package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// TestVerdictTable has every cell for a task with one parent: the edge, whether
// a condition hangs on it, the traits of the task, and how the parent ended.
// A task holds a parent by Settled through this edge or through another one;
// without the trait a settled edge does not exist.
func TestVerdictTable(t *testing.T) {
	t.Parallel()
	const table = `
		edge    condition run-if-all-skipped holds-settled | completed skipped failed canceled
		plain   no        no                 no            | run       skip    cancel cancel
		plain   no        no                 yes           | run       skip    cancel cancel
		plain   no        yes                no            | run       skip    cancel cancel
		plain   no        yes                yes           | run       skip    cancel cancel
		plain   yes       no                 no            | run       skip    cancel cancel
		plain   yes       no                 yes           | run       skip    cancel cancel
		plain   yes       yes                no            | run       skip    cancel cancel
		plain   yes       yes                yes           | run       skip    cancel cancel
		maybe   no        no                 no            | run       skip    cancel cancel
		maybe   no        no                 yes           | run       run     cancel cancel
		maybe   no        yes                no            | run       run     cancel cancel
		maybe   no        yes                yes           | run       run     cancel cancel
		maybe   yes       no                 no            | run       skip    cancel cancel
		maybe   yes       no                 yes           | run       skip    cancel cancel
		maybe   yes       yes                no            | run       skip    cancel cancel
		maybe   yes       yes                yes           | run       skip    cancel cancel
		settled no        no                 yes           | run       run     run    run
		settled no        yes                yes           | run       run     run    run
		settled yes       no                 yes           | run       skip    skip   skip
		settled yes       yes                yes           | run       skip    skip   skip`
	cells := 0
	for line := range strings.Lines(strings.SplitN(strings.TrimSpace(table), "\n", 2)[1]) {
		cell := strings.Fields(strings.ReplaceAll(line, "|", ""))
		edge := workflow.Child{Kind: edgeNamed(t, cell[0]), Conditioned: cell[1] == "yes"}
		var traits workflow.Traits
		if cell[2] == "yes" {
			traits |= workflow.TraitRunIfAllSkipped
		}
		if cell[3] == "yes" {
			traits |= workflow.TraitHoldsSettled
		}
		for i, ending := range []State{Completed, Skipped, Failed, Canceled} {
			verdict := DecideVerdict(EdgeFlags(edge, ending), traits, 1)
			require.Equal(t, cell[4+i], verdictName(verdict), "%v parent %v", cell[:4], ending)
			cells++
		}
	}
	require.Equal(t, 80, cells)
}

func edgeNamed(t *testing.T, name string) workflow.EdgeKind {
	t.Helper()
	switch name {
	case "plain":
		return workflow.Plain
	case "maybe":
		return workflow.Maybe
	case "settled":
		return workflow.Settled
	}
	require.Fail(t, "no edge "+name)
	return 0
}

func verdictName(v Verdict) string {
	switch v {
	case VerdictCancel:
		return "cancel"
	case VerdictFail:
		return "fail"
	case VerdictSkip:
		return "skip"
	case VerdictRun:
		return "run"
	}
	return fmt.Sprint(uint8(v))
}

// TestVerdictOfTwoParents goes through every pair of edges and endings, with
// every result of a condition on the first, and compares with the oracle.
func TestVerdictOfTwoParents(t *testing.T) {
	t.Parallel()
	kinds := []workflow.EdgeKind{workflow.Plain, workflow.Maybe, workflow.Settled}
	endings := []State{Completed, Skipped, Failed, Canceled}
	forms := []planEdge{}
	for _, kind := range kinds {
		forms = append(forms, planEdge{kind: kind}, planEdge{kind: kind, conditioned: true})
	}
	wants := map[State]Verdict{
		Completed: VerdictRun, Skipped: VerdictSkip, Canceled: VerdictCancel, Failed: VerdictFail,
	}
	cells := 0
	for _, a := range forms {
		for _, b := range forms {
			a.parent, b.parent = 0, 1
			for _, endA := range endings {
				for _, endB := range endings {
					for _, traits := range []workflow.Traits{0, workflow.TraitRunIfAllSkipped} {
						for _, condition := range []Flags{0, FlagSkip, FlagFail} {
							step := planStep{edges: []planEdge{a, b}, traits: traits}
							want := wants[twoParents(step, endA, endB, condition)]
							require.Equal(t, verdictName(want), verdictName(decideTwo(step, endA, endB, condition)),
								"%+v %+v parents %v %v condition %b traits %b", a, b, endA, endB, condition, traits)
							cells++
						}
					}
				}
			}
		}
	}
	require.Equal(t, 6*6*4*4*2*3, cells)
}

func twoParents(step planStep, endA, endB State, condition Flags) State {
	f := fate{input: make([]Flags, 3), fails: make([]bool, 3), instants: make([]bool, 3)}
	if endA == Completed {
		f.conditions = map[[2]int32]Flags{{0, 2}: condition}
	}
	return oracleEnd(step, false, 2, f, []State{endA, endB})
}

func decideTwo(step planStep, endA, endB State, condition Flags) Verdict {
	traits := step.traits
	var flags Flags
	for i, ending := range []State{endA, endB} {
		e := step.edges[i]
		if e.kind == workflow.Settled {
			traits |= workflow.TraitHoldsSettled
		}
		flags |= EdgeFlags(workflow.Child{Kind: e.kind, Conditioned: e.conditioned}, ending)
	}
	if endA == Completed {
		flags |= condition
	}
	return DecideVerdict(flags, traits, 2)
}

func TestVerdictOfRoots(t *testing.T) {
	t.Parallel()
	for flags, want := range map[Flags]Verdict{
		0: VerdictRun, FlagSkip: VerdictSkip, FlagFail: VerdictFail, FlagFail | FlagSkip: VerdictFail,
		FlagCancel | FlagFail | FlagSkip: VerdictCancel,
	} {
		require.Equal(t, want, DecideVerdict(flags, 0, 0), "flags %b", flags)
	}
}

func TestHandled(t *testing.T) {
	t.Parallel()
	settled, plain, maybe := workflow.Child{Kind: workflow.Settled}, workflow.Child{Kind: workflow.Plain}, workflow.Child{Kind: workflow.Maybe}
	require.False(t, Handled(nil), "no child handles it")
	require.True(t, Handled([]workflow.Child{settled}))
	require.True(t, Handled([]workflow.Child{settled, settled}))
	require.False(t, Handled([]workflow.Child{settled, plain}))
	require.False(t, Handled([]workflow.Child{maybe}))
}
