package workflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ordering returns a definition of a machine with all that one may start and hear.
func ordering() *Definition {
	return &Definition{
		Name: "ordering", InputType: "I", Policy: FailFast,
		Steps: []Step{
			{Name: "machine", Kind: Machine, Type: "S", Version: 3, Sleep: time.Minute},
			{Name: "charge", Kind: Func, Type: "C", Spawned: true},
			{Name: "window", Kind: SleepUntil, WakeFrom: Input, Spawned: true},
			{Name: "sub", Kind: ChildRun, Type: "R", Spawned: true, Child: ChildSpec{Workflow: "sub", Output: OutputOf{Workflow: "sub", Step: "end"}}},
			{Name: "paid", Kind: Wait, Type: "P", Signal: "paid", Spawned: true},
			{Name: "noted", Kind: Wait, Type: "N", Signal: "noted", Spawned: true},
		},
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	d := ordering()
	require.True(t, d.IsMachine())
	require.False(t, mapping().IsMachine())
	require.False(t, (&Definition{}).IsMachine())
	g := graphOf(t, d)
	require.True(t, g.Known())
	require.True(t, g.IsMachine())
	require.False(t, graphOf(t, mapping()).IsMachine())
	require.False(t, (&Graph{}).IsMachine())
	require.EqualValues(t, MachineSteps, g.Steps(), "whatever it declares")
	require.EqualValues(t, 4, graphOf(t, mapping()).Steps())
	require.EqualValues(t, 1, g.Sinks(), "what it may start is not open")
	require.True(t, g.InputFree, "an instant of a timer comes from the machine")
	require.Equal(t, []int32{0}, g.WaitsFor("paid"), "the machine hears it")
	require.Empty(t, g.WaitsFor("absent"))
	require.Equal(t, []string{"noted", "paid"}, g.Signals())
	require.Equal(t, OutputOf{Workflow: "ordering", Step: "machine"}, g.Nodes[0].OutputOf("ordering"))
	for i, want := range []Traits{
		TraitMachine, TraitSpawned, TraitSpawned | TraitSleepUntil, TraitSpawned | TraitChild, TraitSpawned | TraitWaits, TraitSpawned | TraitWaits,
	} {
		require.Equal(t, want, g.Nodes[i].Traits, g.Nodes[i].Name)
		require.Empty(t, g.Nodes[i].Children)
		require.Zero(t, g.Nodes[i].Pending)
	}
	require.Equal(t, time.Minute, g.Nodes[0].Sleep)
}

// A version that does not know a kind, a trait or an edge leaves runs of the graph alone.
func TestGraphsOfLaterVersions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(g *Graph){
		"kind":   func(g *Graph) { g.Nodes[1].Kind = Machine + 1 },
		"trait":  func(g *Graph) { g.Nodes[1].Traits |= TraitSpawned << 1 },
		"policy": func(g *Graph) { g.Policy = 99 },
	} {
		g := graphOf(t, ordering())
		change(g)
		require.False(t, g.Known(), name)
	}
}

// A program executes activations of its own version of the state and of all before it, and none of
// a later one.
func TestVersionsOfMachines(t *testing.T) {
	t.Parallel()
	var before []Hash
	for version := int32(1); version <= 4; version++ {
		d := ordering()
		d.Steps[0].Version = version
		g := graphOf(t, d)
		require.Equal(t, before, g.Older, "version %d", version)
		require.NotContains(t, g.Older, g.Nodes[0].Fingerprint)
		before = append(before, g.Nodes[0].Fingerprint)
		require.Equal(t, graphOf(t, ordering()).Nodes[1].Fingerprint, g.Nodes[1].Fingerprint, "an activity knows no version")
	}
	require.Empty(t, graphOf(t, mapping()).Older)
}

// The fingerprint of an activity is its own: what else the machine declares, its state and its
// input say nothing about it.
func TestFingerprintsOfMachines(t *testing.T) {
	t.Parallel()
	before := graphOf(t, ordering())
	for name, c := range map[string]struct {
		change  func(d *Definition)
		differs []int
	}{
		"an activity is added":        {func(d *Definition) { d.Steps = append(d.Steps, Step{Name: "other", Kind: Func, Spawned: true}) }, nil},
		"a signal is gone":            {func(d *Definition) { d.Steps = d.Steps[:5] }, nil},
		"the cancel is not heard":     {func(d *Definition) { d.Steps[0].Sleep = 0 }, nil},
		"an option":                   {func(d *Definition) { d.Steps[1].Options.Queue = "gpu" }, nil},
		"the input of the machine":    {func(d *Definition) { d.InputType = "J" }, []int{0}},
		"the state":                   {func(d *Definition) { d.Steps[0].Type = "T" }, []int{0}},
		"the version of the state":    {func(d *Definition) { d.Steps[0].Version = 2 }, []int{0}},
		"the types of an activity":    {func(d *Definition) { d.Steps[1].Type = "D" }, []int{1}},
		"which run a child is":        {func(d *Definition) { d.Steps[3].Child.Workflow = "other" }, []int{3}},
		"the output of the child run": {func(d *Definition) { d.Steps[3].Child.Output.Step = "other" }, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ordering()
			c.change(d)
			after := graphOf(t, d)
			require.NotEqual(t, before.Hash, after.Hash)
			for i := range min(len(before.Nodes), len(after.Nodes)) {
				differs := before.Nodes[i].Fingerprint != after.Nodes[i].Fingerprint
				require.Equal(t, differs, contains(c.differs, i), before.Nodes[i].Name)
			}
		})
	}
	plain := Definition{Name: "ordering", InputType: "I", Policy: FailFast, Steps: []Step{{Name: "charge", Kind: Func, Type: "C"}}}
	require.NotEqual(t, before.Nodes[1].Fingerprint, graphOf(t, &plain).Nodes[0].Fingerprint, "a pod that knows no machines executes none of it")
}

func contains(list []int, n int) bool {
	for _, other := range list {
		if other == n {
			return true
		}
	}
	return false
}

func TestMistakesWithMachines(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(d *Definition){
		"kind: a machine beside other steps": func(d *Definition) {
			d.Steps = append(d.Steps, Step{Name: "second", Kind: Machine, Version: 1, Spawned: true})
		},
		"kind: a machine cannot start a map":                       func(d *Definition) { d.Steps[1].Kind = Map },
		"kind: a machine cannot start a sleep of a fixed duration": func(d *Definition) { d.Steps[1].Kind, d.Steps[1].Sleep = Sleep, time.Hour },
		`step "charge": spawned: the workflow is a machine`:        func(d *Definition) { d.Steps[1].Spawned = false },
		`step "charge": parents: what a machine starts`:            func(d *Definition) { d.Steps[1].Parents = []Edge{{0, Plain}} },
		`step "paid": parents: what a machine starts`:              func(d *Definition) { d.Steps[4].After = []Edge{{1, Plain}} },
		`step "sub": parents: what a machine starts`:               func(d *Definition) { d.Steps[3].RunIfAllSkipped = true },
		`step "window": parents: what a machine starts`:            func(d *Definition) { d.Steps[2].WakeFrom = 0 },
		`step "machine": parents: what a machine starts`: func(d *Definition) {
			d.Steps[0].Conditions = []Condition{{Kind: SkipIf, Ref: Input, Decision: 1}}
		},
		"name: the name of what a machine starts has 245 bytes: use at most 244": func(d *Definition) { d.Steps[1].Name = strings.Repeat("c", 245) },
		"in_tx: a machine has no transaction of its own":                         func(d *Definition) { d.Steps[0].Options.InTx = true },
		"version: the version is 0: use 1 to 1000":                               func(d *Definition) { d.Steps[0].Version = 0 },
		"version: the version is 1001: use 1 to 1000":                            func(d *Definition) { d.Steps[0].Version = VersionMax + 1 },
		"cancel: -1s is negative":                                                func(d *Definition) { d.Steps[0].Sleep = -time.Second },
		"on_failure: a machine has no failure handler":                           func(d *Definition) { d.OnFailure = &Step{Name: "rescue", Kind: Func} },
		"output: the output of a machine is its own":                             func(d *Definition) { d.Output = 1 },
		"steps: 1000 activities, timers, children and signals: use at most 999": func(d *Definition) {
			for i := len(d.Steps); i <= MachineSteps; i++ {
				d.Steps = append(d.Steps, Step{Name: fmt.Sprintf("a%d", i), Spawned: true, Kind: Func})
			}
		},
	} {
		d := ordering()
		change(d)
		_, err := NewGraph(d)
		require.ErrorContains(t, err, want)
	}
	d := mapping()
	d.Steps[2].Spawned = true
	require.ErrorContains(t, d.Validate(), `spawned: the workflow has no machine that starts it`)

	d = ordering()
	d.Steps[1].Name = strings.Repeat("c", 244)
	d.Steps[4].Name = strings.Repeat("p", NameMax)
	for i := len(d.Steps); i < MachineSteps; i++ {
		d.Steps = append(d.Steps, Step{Name: fmt.Sprintf("a%d", i), Spawned: true, Kind: Func})
	}
	d.Steps[0].Version = VersionMax
	require.NoError(t, d.Validate())
	d = ordering()
	d.Steps[1].Options.InTx = true
	require.NoError(t, d.Validate(), "an activity may complete in a transaction")
}
