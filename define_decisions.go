package troupe

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// decision is one If, Switch, SkipIf or SleepUntil: the embedder's function
// and the steps that hang on what it says.
type decision struct {
	label string // for error texts
	ref   int    // whose output it looks at, or workflow.Input
	judge func(value any) (ruling, error)
	cases map[string]bool // of a Switch
	hangs []hang
}

// ruling is what a decision said; which field counts depends on its kind.
type ruling struct {
	holds    bool
	selected string
	wakeAt   time.Time
}

// hang is one step that hangs on a decision.
type hang struct {
	child     string
	condition workflow.Condition // zero: a SleepUntil
}

// decide adds a decision and returns its number. Without a plan, or after the
// declaration, it adds none; a step that uses the option reports the mistake.
func (p *plan) decide(what string, at place, judge func(any) (ruling, error)) int {
	if p == nil || p.finished {
		return 0
	}
	p.decisions = append(p.decisions, &decision{
		label: what + " on " + p.nameOf(at.step), ref: at.step, judge: judge, cases: map[string]bool{},
	})
	return len(p.decisions) - 1
}

func (d *decision) hang(child string, c workflow.Condition) {
	d.hangs = append(d.hangs, hang{child, c})
}

// rule makes each decision once and returns one result per child about which
// any of them says something, in the order of the decisions.
func rule(decisions []*decision, value any) []persistence.EdgeResult {
	var results []persistence.EdgeResult
	index := map[string]int{}
	for _, d := range decisions {
		ruled, err := d.safely(value)
		for _, h := range d.hangs {
			said := d.edge(h, ruled, err)
			if said.Flags == 0 && said.WakeAt.IsZero() {
				continue
			}
			i, known := index[h.child]
			if !known {
				i = len(results)
				index[h.child] = i
				results = append(results, persistence.EdgeResult{Child: h.child})
			}
			merge(&results[i], said)
		}
	}
	return results
}

func merge(into *persistence.EdgeResult, said persistence.EdgeResult) {
	into.Flags |= said.Flags
	if into.Error == "" {
		into.Error = said.Error
	}
	if !said.WakeAt.IsZero() {
		into.WakeAt = said.WakeAt
	}
}

// safely keeps a panic of the embedder's function from failing the step whose
// output it looks at: that one has succeeded.
func (d *decision) safely(value any) (ruled ruling, err error) {
	err = program.Contain(func() (err error) {
		ruled, err = d.judge(value)
		return err
	})
	return ruled, err
}

// edge returns what a ruling means for one child.
func (d *decision) edge(h hang, ruled ruling, err error) persistence.EdgeResult {
	var allowed bool
	switch {
	case err != nil:
		return persistence.EdgeResult{Flags: lifecycle.FlagFail, Error: d.label + ": " + err.Error()}
	case h.condition.Kind == 0:
		return persistence.EdgeResult{WakeAt: ruled.wakeAt}
	}
	switch h.condition.Kind {
	case workflow.Then:
		allowed = ruled.holds
	case workflow.Otherwise, workflow.SkipIf:
		allowed = !ruled.holds
	case workflow.Case:
		allowed = ruled.selected == h.condition.Case
	case workflow.Default:
		allowed = !d.cases[ruled.selected]
	default:
		err = fmt.Errorf("unknown condition kind %d", h.condition.Kind)
		return persistence.EdgeResult{Flags: lifecycle.FlagFail, Error: d.label + ": " + err.Error()}
	}
	if allowed {
		return persistence.EdgeResult{}
	}
	return persistence.EdgeResult{Flags: lifecycle.FlagSkip}
}
