package workflow

import (
	"fmt"
	"testing"
	"time"
)

// FuzzValidate builds a definition from bytes. Whatever it is, Validate and
// NewGraph agree, and what NewGraph returns holds together.
func FuzzValidate(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 0, 1, 0, 1, 0, 1})
	f.Add([]byte{9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte("\x05\x00\x01\x00\x00\x00\x01\x01\x00\x00\x00\x02\x01\x01\x01\x00"))
	f.Fuzz(func(t *testing.T, tape []byte) {
		d := definitionFrom(tape)
		g, err := NewGraph(d)
		if (d.Validate() == nil) != (err == nil) {
			t.Fatalf("Validate and NewGraph differ: %v", err)
		}
		if err != nil {
			if len(Problems(err)) == 0 || err.Error() == "" {
				t.Fatalf("no problems in %v", err)
			}
			return
		}
		checkGraph(t, g)
		again, err := NewGraph(d)
		if err != nil || again.Hash != g.Hash {
			t.Fatalf("hash is not stable: %v", err)
		}
	})
}

// checkGraph ends every step as soon as its parents have, and finds that all
// of them end.
func checkGraph(t *testing.T, g *Graph) {
	t.Helper()
	pending := make([]int32, len(g.Nodes))
	var ready []int32
	for i := range g.Nodes {
		if pending[i] = g.Nodes[i].Pending; pending[i] == 0 {
			ready = append(ready, int32(i))
		}
	}
	for next := 0; next < len(ready); next++ {
		previous := int32(-1)
		for _, child := range g.Nodes[ready[next]].Children {
			if child.Step <= previous {
				t.Fatalf("children of %d are not ascending", ready[next])
			}
			previous = child.Step
			if again, err := UnpackChild(child.Pack()); err != nil || again != child {
				t.Fatalf("pack %+v: %+v, %v", child, again, err)
			}
			if pending[child.Step]--; pending[child.Step] == 0 {
				ready = append(ready, child.Step)
			}
		}
	}
	if len(ready) != len(g.Nodes) {
		t.Fatalf("%d of %d steps end", len(ready), len(g.Nodes))
	}
}

// definitionFrom reads small numbers from tape; a tape that is over gives
// zeros.
func definitionFrom(tape []byte) *Definition {
	next := func(limit int) int {
		if len(tape) == 0 {
			return 0
		}
		n := int(tape[0]) % limit
		tape = tape[1:]
		return n
	}
	steps := next(24)
	d := &Definition{Name: "fuzz", Policy: FailurePolicy(next(4)), Output: next(24) - 1}
	for i := range steps {
		s := Step{
			Name: fmt.Sprintf("s%d", i-next(16)/15), Kind: StepKind(next(5)), Sleep: time.Duration(next(4) - 1),
			WakeFrom: next(steps+2) - 1, RunIfAllSkipped: next(2) == 1,
		}
		for range next(4) {
			s.Parents = append(s.Parents, Edge{next(steps+2) - 1, EdgeKind(next(4))})
		}
		for range next(3) {
			s.After = append(s.After, Edge{next(steps+2) - 1, EdgeKind(next(4))})
		}
		for range next(3) {
			s.Conditions = append(s.Conditions, Condition{
				Kind: ConditionKind(next(7)), Ref: next(steps+2) - 1, Decision: next(5) - 1, Case: "xy"[:next(3)],
			})
		}
		s.Options.Retry.Attempts = next(8) - 1
		d.Steps = append(d.Steps, s)
	}
	if next(4) == 1 {
		d.OnFailure = &Step{Name: fmt.Sprintf("s%d", next(30)), Kind: StepKind(next(3))}
	}
	return d
}
