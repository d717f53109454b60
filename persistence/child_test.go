package persistence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Keys of child runs are those of what step functions have called before: their value never changes.
func TestChildKeys(t *testing.T) {
	t.Parallel()
	one := workflow.RunID{0x01, 0x9b, 0x76, 0xda, 0xa8, 0x00, 0x70, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01}
	other := one
	other[15]++
	seen := map[workflow.RunID]string{}
	for name, keys := range map[string]workflow.RunID{
		"a step":                       persistence.ChildKeys(one, "child"),
		"another step":                 persistence.ChildKeys(one, "other"),
		"a step whose name begins so":  persistence.ChildKeys(one, "children"),
		"no name":                      persistence.ChildKeys(one, ""),
		"another run":                  persistence.ChildKeys(other, "child"),
		"the child run of a child run": persistence.ChildKeys(persistence.ChildKeys(one, "child"), "child"),
	} {
		require.Empty(t, seen[keys], "%s has the same keys", name)
		seen[keys] = name
		require.EqualValues(t, 8, keys[6]>>4, "the version of %s", name)
		require.EqualValues(t, 0b10, keys[8]>>6, "the variant of %s", name)
	}
	require.Equal(t, persistence.ChildKeys(one, "child"), persistence.ChildKeys(one, "child"))
	require.Equal(t, "22acd1a4-d8e7-8d85-bab6-82c86f3d8fdc", persistence.ChildKeys(one, "child").String())
}

func TestCheckChild(t *testing.T) {
	t.Parallel()
	graph, err := workflow.NewGraph(&workflow.Definition{Name: "parent", Policy: workflow.FailFast, Steps: []workflow.Step{
		{Name: "make", Kind: workflow.Func},
		{Name: "child", Kind: workflow.ChildRun, Parents: []workflow.Edge{{Kind: workflow.Plain}}, Child: workflow.ChildSpec{Workflow: "single"}},
	}})
	require.NoError(t, err)
	known := func(hash workflow.Hash) bool { return hash == workflow.Hash{1} }
	nodeOf := func(step int32) *workflow.Node {
		if int(step) >= len(graph.Nodes) {
			return nil
		}
		return &graph.Nodes[step]
	}
	for want, change := range map[string]func(*persistence.Transition){
		"":                           func(*persistence.Transition) {},
		"only a step":                func(t *persistence.Transition) { t.Task.Step = 0 },
		"waits for one":              func(t *persistence.Transition) { t.Task.Step = 2 },
		"with a child run":           func(t *persistence.Transition) { t.Child = nil },
		`is of workflow "single"`:    func(t *persistence.Transition) { t.Child.Workflow = "other" },
		`"single" is not registered`: func(t *persistence.Transition) { t.Child.Definition = workflow.Hash{2} },
	} {
		transition := persistence.Transition{
			Task: workflow.TaskID{Step: 1}, Report: lifecycle.Yielded, Child: &persistence.Child{Workflow: "single", Definition: workflow.Hash{1}},
		}
		change(&transition)
		err := transition.CheckChild(nodeOf(transition.Task.Step), known)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, persistence.ErrBadRow)
		require.ErrorContains(t, err, want)
		transition.Report = lifecycle.Released
		require.NoError(t, transition.CheckChild(nodeOf(transition.Task.Step), known), "another report begins no run")
	}
}
