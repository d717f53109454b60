package contest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/bench/internal/cases"
	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// Options say what is compared.
type Options struct {
	Cases   []string // none: all
	Peers   []string // none: all
	Repeats int
	Quick   bool
	GOGC    int    // of every measuring process
	Profile string // folder for a CPU profile of each cell, of the last repeat; "": none
}

// Validate returns everything that is wrong, joined.
func (o Options) Validate(field []peer.Entry) error {
	var problems []error
	if o.Repeats < 1 {
		problems = append(problems, fmt.Errorf("--repeats is %d: use 1 or more", o.Repeats))
	}
	if o.GOGC < 1 {
		problems = append(problems, fmt.Errorf("--gogc is %d: use 1 or more", o.GOGC))
	}
	var known []string
	for _, c := range cases.All() {
		known = append(known, c.Name)
	}
	problems = append(problems, unknown("case", o.Cases, known)...)
	known = nil
	for _, e := range field {
		known = append(known, e.Name)
	}
	return errors.Join(append(problems, unknown("peer", o.Peers, known)...)...)
}

func unknown(what string, asked, known []string) []error {
	var problems []error
	for _, name := range asked {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Errorf("no %s is called %q: there are %s", what, name, strings.Join(known, ", ")))
		}
	}
	return problems
}

// cell is one case with one peer in one setting.
type cell struct {
	of      cases.Case
	entry   peer.Entry
	setting peer.Setting
}

// round is the cells of one case, which take turns.
type round struct {
	of    cases.Case
	cells []cell
}

// plan lists what is measured.
func plan(o Options, field []peer.Entry) []round {
	var rounds []round
	for _, c := range cases.All() {
		named := slices.Contains(o.Cases, c.Name)
		if len(o.Cases) > 0 && !named || c.Full && o.Quick && !named {
			continue
		}
		r := round{of: c}
		for _, e := range field {
			if len(o.Peers) > 0 && !slices.Contains(o.Peers, e.Name) {
				continue
			}
			for _, s := range settings(c, e, o) {
				r.cells = append(r.cells, cell{c, e, s})
			}
		}
		if len(r.cells) > 0 {
			rounds = append(rounds, r)
		}
	}
	return rounds
}

// settings are those that a peer is measured with. A quick comparison leaves out
// what is extra, unless the peer was asked for by name, and the defaults of peers
// that have something faster: that cannot make us look better than we are.
func settings(c cases.Case, e peer.Entry, o Options) []peer.Setting {
	named := slices.Contains(o.Peers, e.Name)
	var list []peer.Setting
	for _, s := range e.Settings {
		if c.Wants(e, s) && !(o.Quick && !named && s.IsExtra(c.Kind)) {
			list = append(list, s)
		}
	}
	fastest := e.Role == peer.Rival && c.Kind != peer.Idle || e.Role == peer.Ours && c.Brief
	if o.Quick && fastest && len(list) > 1 {
		list = slices.DeleteFunc(list, func(s peer.Setting) bool { return s.Name == peer.Default })
	}
	return list
}
