// Command layers counts the references between the files of a package that run
// against its layers, for the packages of some folders and below.
//
//	go run -C tools ./layers ../actors ../persistence/postgres
//	go run -C tools ./layers -moves 10 ../actors
//
// No table says which file belongs to which layer. An arrow leads from file A
// to file B if A uses an identifier that B declares: a function, a method, a
// type, a field, a variable or a constant. Test files do not count. Files that
// reach each other on arrows form a circle; outside of circles every arrow runs
// down, by definition. Inside a circle the files are put into the order that
// lets the fewest arrows run up: the heuristic of Eades, Lin and Smyth, then
// each file moves to its best place until no move helps; the best of as many
// tries as there are files, each with another file first among equals. The
// arrows that still run up are the count. It depends on nothing but the
// references, so it falls only if there are fewer circles.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	moves := flag.Int("moves", 0, "also print the moves of declarations that lower the count most, at most `n`")
	arrows := flag.Bool("arrows", false, "also print the arrows that run up")
	flag.Parse()
	for _, dir := range flag.Args() {
		if err := report(os.Stdout, dir, *arrows, *moves); err != nil {
			fmt.Fprintf(os.Stderr, "layers: %s: %v\n", dir, err)
			os.Exit(1)
		}
	}
}

// report prints one line for each package, which internal/archtest reads, and
// what was asked for in addition.
func report(to io.Writer, dir string, arrows bool, moves int) error {
	packages, err := load(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, p := range packages {
		order := p.files.order()
		up := p.files.up(order)
		fmt.Fprintf(&text, "%s: %d files, %d arrows, %d up\n", p.path, len(p.files.names), len(p.files.uses), len(up))
		if arrows {
			p.list(&text, up)
		}
		for _, m := range p.best(moves) {
			fmt.Fprintf(&text, "\t%d fewer: %v\n", m.gain, m)
		}
	}
	_, err = io.WriteString(to, text.String())
	return err
}

// list prints arrows, those of the fewest references first, and what they
// refer to.
func (p *pkg) list(text *strings.Builder, arrows []arrow) {
	slices.SortStableFunc(arrows, func(a, b arrow) int { return p.files.uses[a] - p.files.uses[b] })
	for _, a := range arrows {
		var used []string
		for d := range p.uses {
			name := p.declarations[d.to].name
			if p.declarations[d.from].file == a.from && p.declarations[d.to].file == a.to && !slices.Contains(used, name) {
				used = append(used, name)
			}
		}
		slices.Sort(used)
		fmt.Fprintf(text, "\t%s → %s, %d references: %s\n", p.files.names[a.from], p.files.names[a.to], p.files.uses[a], strings.Join(used, " "))
	}
}
