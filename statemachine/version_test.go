package statemachine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/statemachine"
	"github.com/troupe-dev/troupe/workflow"
)

// counting counts, with a state of some type and version.
func counting[S any](t *testing.T, version int) *workflow.Graph {
	t.Helper()
	type activation = statemachine.Activation[S, int]
	m := statemachine.Define("counting", func(m *statemachine.Builder[int, S, int]) {
		m.OnStart(func(a *activation, in int) { a.Complete(in) })
		m.Version(version, func(_ int, decode func(any) error) (state S, err error) { return state, decode(&state) })
	})
	require.NoError(t, m.Validate())
	d := m.Program(nil, nil).Definition
	graph, err := workflow.NewGraph(&d)
	require.NoError(t, err)
	return graph
}

// A newer version executes activations of an older one, also if the type of its state has another name.
func TestVersionsMayHaveStatesOfOtherTypes(t *testing.T) {
	t.Parallel()
	type counted struct{ N int }
	type countedTwice struct{ Once, Twice int }
	one, two := counting[counted](t, 1), counting[countedTwice](t, 2)
	require.Equal(t, []workflow.Hash{one.Nodes[0].Fingerprint}, two.Older)
	require.NotEqual(t, one.Nodes[0].Fingerprint, two.Nodes[0].Fingerprint)
}
