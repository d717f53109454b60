package workflow

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// nesting returns a definition with two child runs, of which a condition looks at the second.
func nesting() *Definition {
	of := func(workflow string) ChildSpec {
		return ChildSpec{Workflow: workflow, Output: OutputOf{Workflow: workflow, Step: "end"}}
	}
	left := of("left")
	left.Abandons = true
	return &Definition{
		Name: "nesting", InputType: "I", Policy: FailFast, Output: 3,
		Steps: []Step{
			{Name: "make", Kind: Func, Type: "M"},
			{Name: "left", Kind: ChildRun, Type: "L", Child: left, Parents: []Edge{{0, Plain}}},
			{Name: "right", Kind: ChildRun, Type: "R", Child: of("right"), Parents: []Edge{{0, Plain}}},
			{Name: "join", Kind: Func, Type: "J", Parents: []Edge{{1, Plain}, {2, Plain}}, Conditions: []Condition{{Kind: Then, Ref: 2, Decision: 1}}},
		},
	}
}

func TestChildRuns(t *testing.T) {
	t.Parallel()
	g := graphOf(t, nesting())
	require.True(t, g.Known())
	require.True(t, g.HasChildren())
	require.False(t, graphOf(t, rich()).HasChildren())
	require.Equal(t, TraitChild|TraitAbandons, g.Nodes[1].Traits)
	require.Equal(t, TraitChild|TraitJudged, g.Nodes[2].Traits)
	require.Equal(t, "right", g.Nodes[2].Child.Workflow)
	for _, n := range g.Nodes {
		require.False(t, n.Traits.Unattended(), "a pod begins the run")
	}
}

// What a step says about the child run is part of its fingerprint and of its readers', but
// whether it is abandoned is not.
func TestFingerprintsOfChildRuns(t *testing.T) {
	t.Parallel()
	before := graphOf(t, nesting())
	for name, change := range map[string]func(*ChildSpec){
		"workflow": func(c *ChildSpec) { c.Workflow = "other" },
		"output":   func(c *ChildSpec) { c.Output.Step = "last" },
		"of":       func(c *ChildSpec) { c.Output.Workflow = "other" },
		"signal":   func(c *ChildSpec) { c.Output.Signal = true },
	} {
		d := nesting()
		change(&d.Steps[1].Child)
		after := graphOf(t, d)
		require.NotEqual(t, before.Hash, after.Hash, name)
		require.NotEqual(t, before.Nodes[1].Fingerprint, after.Nodes[1].Fingerprint, name)
		require.NotEqual(t, before.Nodes[3].Fingerprint, after.Nodes[3].Fingerprint, name)
		require.Equal(t, before.Nodes[2].Fingerprint, after.Nodes[2].Fingerprint, name)
	}
	d := nesting()
	d.Steps[1].Child.Abandons = false
	after := graphOf(t, d)
	require.NotEqual(t, before.Hash, after.Hash)
	require.Equal(t, before.Nodes[1].Fingerprint, after.Nodes[1].Fingerprint)
}

func TestMistakesWithChildRuns(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Step){
		"workflow": func(s *Step) { s.Child.Workflow = "" },
		"input":    func(s *Step) { s.Parents = nil },
		"options":  func(s *Step) { s.Options.Retry.Attempts = 3 },
	} {
		d := nesting()
		change(&d.Steps[1])
		problems := Problems(d.Validate())
		require.Len(t, problems, 1, want)
		require.Equal(t, want, problems[0].Field)
		require.Equal(t, "left", problems[0].Step)
	}
}
