package workflow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waiting returns a definition with two waits, of which a condition looks at the second.
func waiting() *Definition {
	return &Definition{
		Name: "waiting", InputType: "I", Policy: FailFast, Output: 2,
		Steps: []Step{
			{Name: "remind", Kind: Wait, Type: "R", Signal: "reminded", Sleep: time.Hour, SkipLate: true},
			{Name: "approve", Kind: Wait, Type: "A", Signal: "approved", After: []Edge{{0, Maybe}}},
			{Name: "pay", Kind: Func, Type: "P", Parents: []Edge{{1, Plain}}, Conditions: []Condition{{Kind: Then, Ref: 1, Decision: 1}}},
		},
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	g := graphOf(t, waiting())
	require.True(t, g.Known())
	require.Equal(t, TraitWaits|TraitSkipsLate, g.Nodes[0].Traits)
	require.Equal(t, TraitWaits|TraitJudged, g.Nodes[1].Traits)
	require.True(t, g.Nodes[0].Traits.Unattended())
	require.False(t, g.Nodes[1].Traits.Unattended(), "a pod evaluates the condition")
	require.False(t, g.Nodes[2].Traits.Unattended())
	require.True(t, TraitSleep.Unattended())
	require.Equal(t, []string{"approved", "reminded"}, g.Signals())
	require.Equal(t, []int32{1}, g.WaitsFor("approved"))
	require.Empty(t, g.WaitsFor("other"))
	require.Empty(t, graphOf(t, rich()).Signals())

	until := waiting()
	until.Steps = append(until.Steps, Step{Name: "rest", Kind: SleepUntil, WakeFrom: 0})
	require.False(t, graphOf(t, until).Nodes[0].Traits.Unattended(), "a pod reads the instant")
}

// What a later version may add is not known.
func TestGraphsOfALaterVersionAreNotKnown(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Graph){
		"policy": func(g *Graph) { g.Policy = FinishSiblings + 1 },
		"kind":   func(g *Graph) { g.Nodes[0].Kind = Machine + 1 },
		"trait":  func(g *Graph) { g.Nodes[0].Traits |= TraitSpawned << 1 },
		"edge":   func(g *Graph) { g.Nodes[0].Children[0].Kind = Settled + 1 },
		"handler": func(g *Graph) {
			g.OnFailure.Kind = 0
		},
	} {
		g := graphOf(t, rich())
		require.True(t, g.Known())
		change(g)
		require.False(t, g.Known(), name)
	}
}

// A wait of another signal is another step, and so are those that take its output; the deadline
// is of the graph alone.
func TestFingerprintsOfWaits(t *testing.T) {
	t.Parallel()
	before := graphOf(t, waiting())
	require.Equal(t, before.Hash, graphOf(t, waiting()).Hash)

	other := waiting()
	other.Steps[1].Signal = "agreed"
	g := graphOf(t, other)
	require.NotEqual(t, before.Hash, g.Hash)
	require.Equal(t, before.Nodes[0].Fingerprint, g.Nodes[0].Fingerprint)
	require.NotEqual(t, before.Nodes[1].Fingerprint, g.Nodes[1].Fingerprint)
	require.NotEqual(t, before.Nodes[2].Fingerprint, g.Nodes[2].Fingerprint)

	late := waiting()
	late.Steps[0].Sleep++
	g = graphOf(t, late)
	require.NotEqual(t, before.Hash, g.Hash)
	require.Equal(t, before.Nodes[0].Fingerprint, g.Nodes[0].Fingerprint)

	without := waiting()
	without.Steps[0] = Step{Name: "remind", Kind: Sleep, Sleep: time.Hour}
	without.Steps[1] = Step{Name: "approve", Kind: Func, Type: "A", After: []Edge{{0, Maybe}}}
	require.NotEqual(t, before.Nodes[2].Fingerprint, graphOf(t, without).Nodes[2].Fingerprint,
		"pods that do not know waits execute no step beside one")
}

func TestWaitsThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*Step){
		`step "approve": signal: the name is empty`:                            func(s *Step) { s.Signal = "" },
		`step "approve": deadline: -1s is not a positive duration`:             func(s *Step) { s.Sleep = -time.Second },
		`step "approve": deadline: 876600h0m0.000000001s is over 100 years`:    func(s *Step) { s.Sleep = DurationMax + 1 },
		`step "approve": parents: a wait for a signal takes no parameters`:     func(s *Step) { s.Parents = []Edge{{0, Maybe}} },
		`step "approve": options: a wait for a signal has no attempts`:         func(s *Step) { s.Options.Retry.Attempts = 2 },
		`step "approve": options: a wait for a signal has no attempts or time`: func(s *Step) { s.Options.InTx = true },
	} {
		d := waiting()
		spoil(&d.Steps[1])
		_, err := NewGraph(d)
		require.ErrorContains(t, err, want)
	}
}
