package workflow

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mapping returns a definition with a map in a diamond.
func mapping() *Definition {
	return &Definition{
		Name: "mapping", InputType: "I", Policy: FailFast, Output: 3,
		Steps: []Step{
			{Name: "list", Kind: Func, Type: "L"},
			{Name: "each", Kind: Map, Type: "E", Parents: []Edge{{0, Plain}}},
			{Name: "beside", Kind: Func, Type: "B", Parents: []Edge{{0, Plain}}},
			{Name: "join", Kind: Func, Type: "J", Parents: []Edge{{1, Plain}, {2, Plain}}},
		},
	}
}

func TestMaps(t *testing.T) {
	t.Parallel()
	g := graphOf(t, mapping())
	require.True(t, g.Known())
	require.True(t, g.HasMaps())
	require.False(t, graphOf(t, rich()).HasMaps())
	require.Equal(t, TraitMap, g.Nodes[1].Traits)
	require.False(t, g.Nodes[1].Traits.Unattended(), "a pod reads the list")
	for _, i := range []int{0, 2, 3} {
		require.Zero(t, g.Nodes[i].Traits)
	}
}

// Steps beside a map have fingerprints of another form than without it, also where other steps
// wait: pods that do not know maps execute none of them.
func TestFingerprintsOfMaps(t *testing.T) {
	t.Parallel()
	before := graphOf(t, mapping())
	require.Equal(t, before.Hash, graphOf(t, mapping()).Hash)

	plain := mapping()
	plain.Steps[1].Kind = Func
	after := graphOf(t, plain)
	require.NotEqual(t, before.Hash, after.Hash)
	for i := range before.Nodes {
		require.NotEqual(t, before.Nodes[i].Fingerprint, after.Nodes[i].Fingerprint, before.Nodes[i].Name)
	}

	waits := mapping()
	waits.Steps = append(waits.Steps, Step{Name: "wait", Kind: Wait, Type: "S", Signal: "s"})
	plain = mapping()
	plain.Steps = append(plain.Steps, waits.Steps[4])
	plain.Steps[1].Kind = Func
	require.NotEqual(t, graphOf(t, waits).Nodes[2].Fingerprint, graphOf(t, plain).Nodes[2].Fingerprint)
	require.Equal(t, before.Nodes[2].Fingerprint, graphOf(t, waits).Nodes[2].Fingerprint, "of one form")
}

func TestMistakesWithMaps(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Step){
		`items: a map has one list of items: the step has 0 parents`: func(s *Step) { s.Parents = nil },
		`items: a map has one list of items: the step has 2 parents`: func(s *Step) { s.Parents = append(s.Parents, Edge{2, Plain}) },
		`in_tx: the elements of a map have no transactions`:          func(s *Step) { s.Options.InTx = true },
		`name: the name of a map has 249 bytes: use at most 248`:     func(s *Step) { s.Name = strings.Repeat("e", 249) },
	} {
		d := mapping()
		change(&d.Steps[1])
		_, err := NewGraph(d)
		require.ErrorContains(t, err, want)
	}
	d := mapping()
	d.Steps[1].Name = strings.Repeat("e", 248)
	require.NoError(t, d.Validate())
}
