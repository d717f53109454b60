package workflow

import (
	"fmt"
	"iter"
	"strings"
)

// ancestors yields every step that step i waits for, some more than once, and
// only those that exist and are not i itself. All edges count: parameters,
// order, the refs of conditions, the instant of a sleep.
func (d *Definition) ancestors(i int) iter.Seq[int] {
	s := &d.Steps[i]
	return func(yield func(int) bool) {
		visit := func(to int) bool {
			return to < 0 || to >= len(d.Steps) || to == i || yield(to)
		}
		for _, edge := range s.Parents {
			if !visit(edge.Parent) {
				return
			}
		}
		for _, edge := range s.After {
			if !visit(edge.Parent) {
				return
			}
		}
		for _, c := range s.Conditions {
			if !visit(c.Ref) {
				return
			}
		}
		if s.Kind == SleepUntil {
			visit(s.WakeFrom)
		}
	}
}

// cycles orders the steps so that parents come first (Kahn's algorithm) and
// returns that order. Steps that cannot be ordered are on a cycle, reported
// once with its path, or wait for one.
func (r *report) cycles(d *Definition) []int {
	order, waiting := d.sort()
	if len(order) == len(d.Steps) {
		return order
	}
	const (
		unseen = iota
		seen
		reported
	)
	state := make([]uint8, len(d.Steps))
	follows := make([]int, len(d.Steps)) // one ancestor of each step that waits, which waits too
	for i := range d.Steps {
		if waiting[i] == 0 {
			continue
		}
		for to := range d.ancestors(i) {
			if waiting[to] > 0 {
				follows[i] = to
				break
			}
		}
	}
	for i := range d.Steps {
		if waiting[i] == 0 || state[i] != unseen {
			continue
		}
		var path []int
		at := i
		for ; state[at] == unseen; at = follows[at] {
			state[at] = seen
			path = append(path, at)
		}
		start := 0
		for start < len(path) && path[start] != at {
			start++
		}
		if start == len(path) {
			continue // ran into a walk made before
		}
		for _, on := range path[start:] {
			state[on] = reported
		}
		r.check(d.Steps[at].Name, "parents", "cycle "+d.path(path[start:]), "remove one of its edges")
	}
	for i := range d.Steps {
		if waiting[i] > 0 && state[i] == seen {
			r.check(d.Steps[i].Name, "parents",
				fmt.Sprintf("unreachable: it waits for %s, which waits for a cycle", quoted(d.Steps[follows[i]].Name)),
				"break the cycle")
		}
	}
	return order
}

// sort returns the steps that can be ordered, parents first, and for each step
// the number of edges that hold it back.
func (d *Definition) sort() (order, waiting []int) {
	waiting = make([]int, len(d.Steps))
	start := make([]int, len(d.Steps)+1) // children of i: list[start[i]:start[i+1]]
	for i := range d.Steps {
		for to := range d.ancestors(i) {
			waiting[i]++
			start[to+1]++
		}
	}
	for i := range d.Steps {
		start[i+1] += start[i]
	}
	list := make([]int, start[len(d.Steps)])
	fill := make([]int, len(d.Steps))
	order = make([]int, 0, len(d.Steps))
	for i := range d.Steps {
		for to := range d.ancestors(i) {
			list[start[to]+fill[to]] = i
			fill[to]++
		}
		if waiting[i] == 0 {
			order = append(order, i)
		}
	}
	for next := 0; next < len(order); next++ {
		parent := order[next]
		for _, child := range list[start[parent]:start[parent+1]] {
			if waiting[child]--; waiting[child] == 0 {
				order = append(order, child)
			}
		}
	}
	return order, waiting
}

// pathMax bounds the steps of a cycle that a message lists.
const pathMax = 12

// path writes a cycle in the order in which its steps would run. steps lists
// it against that order.
func (d *Definition) path(steps []int) string {
	var line strings.Builder
	for n := range steps {
		if n == pathMax {
			fmt.Fprintf(&line, "… (%d more) → ", len(steps)-pathMax)
			break
		}
		line.WriteString(quoted(d.Steps[steps[(len(steps)-n)%len(steps)]].Name) + " → ")
	}
	return line.String() + quoted(d.Steps[steps[0]].Name)
}
