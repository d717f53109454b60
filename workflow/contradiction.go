package workflow

import (
	"fmt"
	"slices"
)

// branch is one way that a decision can go.
type branch struct {
	decision int
	ref      int
	kind     ConditionKind
	value    string
}

// branchesMax bounds the branches remembered for one step. Those beyond it are
// forgotten, which can only hide a contradiction.
const branchesMax = 64

// contradictions finds steps that no run can execute, because they need two
// branches of one decision: by their own conditions, or through plain edges
// from steps on different branches, which is what a merge after a branch looks
// like when its Maybe was forgotten.
func (r *report) contradictions(d *Definition, order []int) {
	needs := make([][]branch, len(d.Steps))
	for _, i := range order {
		s := &d.Steps[i]
		set := &branches{}
		for _, c := range s.Conditions {
			if f := c.Kind.family(); f == ifFamily || f == switchFamily {
				set.add(branch{c.Decision, c.Ref, c.Kind, c.Case})
			}
		}
		if set.clash != nil {
			r.check(s.Name, "conditions", "unreachable: it needs "+d.both(set.clash), "remove one of the conditions")
			continue // whatever depends on it is not reported again
		}
		d.inherit(i, needs, set)
		if set.clash != nil {
			r.check(s.Name, "parents", "unreachable: its parents need "+d.both(set.clash),
				"hold parents on different branches by Maybe or Settled")
			continue
		}
		needs[i] = set.list
	}
}

// inherit adds what the steps need that must complete before step i can run.
func (d *Definition) inherit(i int, needs [][]branch, set *branches) {
	s := &d.Steps[i]
	from := func(parent int) {
		if parent >= 0 && parent < len(needs) {
			for _, b := range needs[parent] {
				set.add(b)
			}
		}
	}
	for _, edges := range [][]Edge{s.Parents, s.After} {
		for _, edge := range edges {
			if edge.Kind == Plain {
				from(edge.Parent)
			}
		}
	}
	for _, c := range s.Conditions {
		// A branch of a ref that did not complete is skipped, whatever the edge;
		// a SkipIf only makes an edge of its own where there is none.
		if c.Kind != SkipIf || !s.holds(c.Ref) {
			from(c.Ref)
		}
	}
	if s.Kind == SleepUntil {
		from(s.WakeFrom)
	}
}

// branches is a set that remembers the first two that exclude each other.
type branches struct {
	list  []branch
	clash []branch
}

func (b *branches) add(next branch) {
	if slices.Contains(b.list, next) {
		return
	}
	for _, other := range b.list {
		if other.decision == next.decision && b.clash == nil {
			b.clash = []branch{other, next}
		}
	}
	if len(b.list) < branchesMax {
		b.list = append(b.list, next)
	}
}

// both names two branches of one decision.
func (d *Definition) both(clash []branch) string {
	on := "the input"
	if ref := clash[0].ref; ref >= 0 && ref < len(d.Steps) {
		on = quoted(d.Steps[ref].Name)
	}
	return fmt.Sprintf("both %s and %s of decision %d, on %s", clash[0].text(), clash[1].text(), clash[0].decision, on)
}

func (b branch) text() string {
	switch b.kind {
	case Then:
		return "then"
	case Otherwise:
		return "otherwise"
	case Default:
		return "default"
	case Case, SkipIf:
	}
	return "case " + quoted(b.value)
}
