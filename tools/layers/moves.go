package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// fileLines is the limit of internal/archtest, which a move may not break.
const fileLines = 400

// tried is how many moves are judged by what the order of files becomes, at each
// step.
const tried = 60

// move is a group of declarations of one file that would be in another one, which
// may be new.
type move struct {
	names    []string
	from, to string
	gain     int

	declarations []int
	at           int
	order        []int // of the files, after it
}

func (m move) String() string {
	return strings.Join(m.names, " ") + " from " + m.from + " to " + m.to
}

// plan is a package with some declarations moved.
type plan struct {
	*pkg
	moved map[int]int
	lines []int
	names []string
	order []int
}

// best returns the moves that lower the count most, one after the other: each
// is judged with those before it done.
func (p *pkg) best(most int) []move {
	var done []move
	now := &plan{p, map[int]int{}, slices.Clone(p.lines), slices.Clone(p.files.names), p.files.order()}
	for len(done) < most {
		m, ok := now.next()
		if !ok {
			break
		}
		now.do(m)
		done = append(done, m)
	}
	return done
}

func (p *plan) do(m move) {
	if m.at == len(p.names) {
		p.names, p.lines = append(p.names, m.to), append(p.lines, 0)
	}
	for _, d := range m.declarations {
		p.lines[p.file(d)] -= p.declarations[d].lines
		p.lines[m.at] += p.declarations[d].lines
		p.moved[d] = m.at
	}
	p.order = m.order
}

func (p *plan) file(d int) int {
	if to, ok := p.moved[d]; ok {
		return to
	}
	return p.declarations[d].file
}

// next finds the best move. It judges all of them by the order that holds now,
// and the best of these by what that order becomes.
func (p *plan) next() (move, bool) {
	now := graph{p.names, p.between(p.moved)}
	up := now.up(p.order)
	candidates := p.candidates(up)
	for i := range candidates {
		m := &candidates[i]
		m.order = p.order
		if m.at == len(p.names) {
			m.order = append(slices.Clone(p.order), m.at)
		}
		m.gain = len(up) - len(p.with(*m).up(m.order))
	}
	byGain := func(a, b move) int {
		return cmp.Or(b.gain-a.gain, len(a.declarations)-len(b.declarations), slices.Compare(a.declarations, b.declarations), a.at-b.at)
	}
	slices.SortFunc(candidates, byGain)
	candidates = candidates[:min(len(candidates), tried)]
	for i := range candidates {
		m := &candidates[i]
		then := p.with(*m)
		out, _ := then.neighbours()
		m.order = settle(m.order, m.order, out)
		m.gain = len(up) - len(then.up(m.order))
	}
	slices.SortFunc(candidates, byGain)
	if len(candidates) == 0 || candidates[0].gain <= 0 {
		return move{}, false
	}
	return candidates[0], true
}

// candidates are moves of one declaration to a file that uses it or that it uses,
// and moves of all that an arrow refers to, with what these need from their file,
// to where the arrow comes from or to a new file.
func (p *plan) candidates(up []arrow) []move {
	var found []move
	add := func(at int, declarations ...int) {
		from := p.file(declarations[0])
		m := move{from: p.names[from], declarations: declarations, at: at}
		lines := 0
		for _, d := range declarations {
			m.names = append(m.names, p.declarations[d].name)
			lines += p.declarations[d].lines
		}
		if at == len(p.names) {
			m.to = strings.TrimSuffix(m.from, ".go") + "_new.go"
		} else if m.to = p.names[at]; lines+p.lines[at] > fileLines {
			return
		}
		found = append(found, m)
	}
	for d := range p.declarations {
		for _, at := range p.targets(d) {
			add(at, d)
		}
	}
	for _, a := range up {
		used := map[int]bool{}
		for u := range p.uses {
			if p.file(u.from) == a.from && p.file(u.to) == a.to {
				used[u.to] = true
			}
		}
		for _, group := range []map[int]bool{used, p.needs(used)} {
			declarations := slices.Sorted(maps.Keys(group))
			add(a.from, declarations...)
			add(len(p.names), declarations...)
		}
	}
	return found
}

// needs returns declarations with all that they use, directly or not, of their file.
func (p *plan) needs(declarations map[int]bool) map[int]bool {
	all := maps.Clone(declarations)
	for grown := true; grown; {
		grown = false
		for _, u := range p.within {
			if all[u.from] && !all[u.to] && p.file(u.from) == p.file(u.to) {
				all[u.to], grown = true, true
			}
		}
	}
	return all
}

// with returns the files as they would be after a move.
func (p *plan) with(m move) graph {
	then := maps.Clone(p.moved)
	for _, d := range m.declarations {
		then[d] = m.at
	}
	names := p.names
	if m.at == len(names) {
		names = append(slices.Clone(names), m.to)
	}
	return graph{names, p.between(then)}
}

// targets are the files that use a declaration or that it uses.
func (p *plan) targets(d int) []int {
	files := map[int]bool{}
	for a := range p.uses {
		if a.from == d {
			files[p.file(a.to)] = true
		}
		if a.to == d {
			files[p.file(a.from)] = true
		}
	}
	delete(files, p.file(d))
	return slices.Sorted(maps.Keys(files))
}
