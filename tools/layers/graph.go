package main

import (
	"cmp"
	"slices"
)

// arrow leads from what uses to what is used.
type arrow struct{ from, to int }

// graph is files, in the order of their names, and how often each uses another.
type graph struct {
	names []string
	uses  map[arrow]int
}

// up returns the arrows that run against an order of files, which are given
// from the top to the bottom.
func (g graph) up(order []int) []arrow {
	place := make([]int, len(order))
	for i, file := range order {
		place[file] = i
	}
	var found []arrow
	for a := range g.uses {
		if place[a.from] > place[a.to] {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b arrow) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	return found
}

// order returns the files from the top to the bottom.
func (g graph) order() []int {
	out, in := g.neighbours()
	var order []int
	for _, circle := range circles(out) {
		order = append(order, g.orderCircle(circle, out, in)...)
	}
	return order
}

// orderCircle returns the best order that is found with each file in turn as
// the first among equals, so that names hardly matter.
func (g graph) orderCircle(circle []int, out, in [][]int) []int {
	var best []int
	fewest := len(g.uses) + 1
	for range circle {
		circle = append(circle[1:], circle[0])
		order := settle(circle, greedy(circle, out, in), out)
		if up := countUp(order, out); up < fewest {
			best, fewest = order, up
		}
	}
	return best
}

func countUp(order []int, out [][]int) (n int) {
	above := map[int]bool{}
	for _, v := range order {
		for _, w := range out[v] {
			if above[w] {
				n++
			}
		}
		above[v] = true
	}
	return n
}

func (g graph) neighbours() (out, in [][]int) {
	out, in = make([][]int, len(g.names)), make([][]int, len(g.names))
	for a := range g.uses {
		out[a.from] = append(out[a.from], a.to)
		in[a.to] = append(in[a.to], a.from)
	}
	for i := range g.names {
		slices.Sort(out[i])
		slices.Sort(in[i])
	}
	return out, in
}

// circles returns the strongly connected components (Tarjan), users before what
// they use.
func circles(out [][]int) [][]int {
	index, low := make([]int, len(out)), make([]int, len(out))
	onStack := make([]bool, len(out))
	var stack []int
	var found [][]int
	next := 1
	var visit func(v int)
	visit = func(v int) {
		index[v], low[v] = next, next
		next++
		stack, onStack[v] = append(stack, v), true
		for _, w := range out[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		begin := slices.Index(stack, v)
		circle := slices.Clone(stack[begin:])
		for _, w := range circle {
			onStack[w] = false
		}
		stack = stack[:begin]
		slices.Sort(circle)
		found = append(found, circle)
	}
	for v := range out {
		if index[v] == 0 {
			visit(v)
		}
	}
	slices.Reverse(found)
	return found
}

// greedy orders a circle (Eades, Lin and Smyth): what uses nothing that is left
// goes to the bottom, what nothing uses to the top, else the file that uses most
// beyond what uses it to the top.
func greedy(circle []int, out, in [][]int) []int {
	left := map[int]bool{}
	for _, v := range circle {
		left[v] = true
	}
	degree := func(list []int) (n int) {
		for _, w := range list {
			if left[w] {
				n++
			}
		}
		return n
	}
	var top, bottom []int
	for len(left) > 0 {
		best, surplus, sink := -1, 0, false
		for _, v := range circle {
			if !left[v] {
				continue
			}
			uses, used := degree(out[v]), degree(in[v])
			if uses == 0 {
				best, sink = v, true
				break
			}
			if used == 0 {
				uses = len(out) // a source is taken before any other file
			}
			if best < 0 || uses-used > surplus {
				best, surplus = v, uses-used
			}
		}
		if sink {
			bottom = append(bottom, best)
		} else {
			top = append(top, best)
		}
		delete(left, best)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// settle moves each file of an order to its best place, turn after turn, until
// no move helps.
func settle(turn, order []int, out [][]int) []int {
	uses := map[arrow]bool{}
	for _, v := range order {
		for _, w := range out[v] {
			uses[arrow{v, w}] = true
		}
	}
	one := func(used bool) int {
		if used {
			return 1
		}
		return 0
	}
	for moved := true; moved; {
		moved = false
		for _, v := range turn {
			at := slices.Index(order, v)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			// cost is relative to the top: passing w downward costs the arrow to w,
			// and saves the arrow from it.
			cost, best, place, here := 0, 0, 0, 0
			for i, w := range rest {
				cost += one(uses[arrow{v, w}]) - one(uses[arrow{w, v}])
				if i+1 == at {
					here = cost
				}
				if cost < best {
					best, place = cost, i+1
				}
			}
			if best < here {
				order, moved = slices.Insert(rest, place, v), true
			}
		}
	}
	return order
}
