package workflow

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func graphOf(t *testing.T, d *Definition) *Graph {
	t.Helper()
	g, err := NewGraph(d)
	require.NoError(t, err)
	require.False(t, g.Hash.IsZero())
	require.Len(t, g.Hash.String(), 64)
	return g
}

// rich returns a definition in which every field says something.
func rich() *Definition {
	return &Definition{
		Name: "rich", InputType: "I", Policy: FailFast, Output: 4,
		Steps: []Step{
			{Name: "a", Kind: Func, Type: "A"},
			{Name: "b", Kind: Func, Type: "B", Parents: []Edge{{0, Plain}}, Conditions: []Condition{{Kind: Case, Ref: 0, Case: "x"}}},
			{Name: "c", Kind: Sleep, Sleep: time.Hour, After: []Edge{{0, Plain}}, Conditions: []Condition{{Kind: Then, Ref: Input, Decision: 1}}},
			{Name: "d", Kind: SleepUntil, WakeFrom: 0},
			{
				Name: "e", Kind: Func, Type: "E", Parents: []Edge{{0, Maybe}, {1, Settled}}, After: []Edge{{2, Settled}, {3, Plain}},
				RunIfAllSkipped: true, Options: Options{Queue: "q", ScheduleToStart: time.Minute, Retry: RetryPolicy{Attempts: 3}},
			},
		},
		OnFailure: &Step{Name: "h", Kind: Func, Type: "H"},
	}
}

func fingerprints(g *Graph) map[string]Hash {
	byName := map[string]Hash{g.OnFailure.Name: g.OnFailure.Fingerprint}
	for i := range g.Nodes {
		byName[g.Nodes[i].Name] = g.Nodes[i].Fingerprint
	}
	return byName
}

// Hashes are stored, and compared with those of other versions of this module.
func TestHashesStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	g := graphOf(t, rich())
	require.Equal(t, "b45c230b26da1a8f5d0e89f3fe9dfb53c8688ce2f38c827ed5b1b3be07f67833", g.Hash.String())
	require.Equal(t, "b590447c651f7e086a83516bbcc90c01d62d5e61d2cf39449d1dd85e8f7a85b0", g.Nodes[4].Fingerprint.String())
}

// TestHashes changes one thing at a time, and says what must change with it:
// the hash of the graph ("graph"), or also the fingerprints of steps.
func TestHashes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Definition)
		want   []string
	}{
		"nothing":            {func(*Definition) {}, nil},
		"retry":              {func(d *Definition) { d.Steps[4].Options.Retry.Attempts = 9 }, nil},
		"attempt timeout":    {func(d *Definition) { d.Steps[4].Options.AttemptTimeout = 9 }, nil},
		"name":               {func(d *Definition) { d.Name = "other" }, []string{"graph"}},
		"policy":             {func(d *Definition) { d.Policy = FinishSiblings }, []string{"graph"}},
		"output":             {func(d *Definition) { d.Output = 0 }, []string{"graph"}},
		"queue":              {func(d *Definition) { d.Steps[4].Options.Queue = "r" }, []string{"graph"}},
		"schedule to start":  {func(d *Definition) { d.Steps[4].Options.ScheduleToStart = 9 }, []string{"graph"}},
		"sleep":              {func(d *Definition) { d.Steps[2].Sleep = 9 }, []string{"graph"}},
		"run if all skipped": {func(d *Definition) { d.Steps[4].RunIfAllSkipped = false }, []string{"graph"}},
		"after":              {func(d *Definition) { d.Steps[4].After = d.Steps[4].After[:1] }, []string{"graph"}},
		"kind of after":      {func(d *Definition) { d.Steps[4].After[0].Kind = Plain }, []string{"graph"}},
		"a step more":        {func(d *Definition) { d.Steps = append(d.Steps, Step{Name: "z", Kind: Func}) }, []string{"graph"}},
		"a child more": {func(d *Definition) {
			d.Steps = append(d.Steps, Step{Name: "z", Kind: Func, Parents: []Edge{{0, Plain}}})
		}, []string{"graph"}},
		"input type":          {func(d *Definition) { d.InputType = "J" }, []string{"a", "b", "c", "d", "e", "graph", "h"}},
		"type":                {func(d *Definition) { d.Steps[1].Type = "BB" }, []string{"b", "graph"}},
		"type of handler":     {func(d *Definition) { d.OnFailure.Type = "HH" }, []string{"graph", "h"}},
		"parent":              {func(d *Definition) { d.Steps[4].Parents = d.Steps[4].Parents[:1] }, []string{"e", "graph"}},
		"order of parents":    {func(d *Definition) { slices.Reverse(d.Steps[4].Parents) }, []string{"e", "graph"}},
		"kind of parent":      {func(d *Definition) { d.Steps[4].Parents[0].Kind = Settled }, []string{"e", "graph"}},
		"name of a parent":    {func(d *Definition) { d.Steps[1].Name = "bb" }, []string{"a", "bb", "e", "graph"}},
		"case":                {func(d *Definition) { d.Steps[1].Conditions[0].Case = "y" }, []string{"a", "b", "graph"}},
		"kind of condition":   {func(d *Definition) { d.Steps[1].Conditions[0] = Condition{Kind: Default} }, []string{"a", "b", "graph"}},
		"a condition more":    {func(d *Definition) { d.Steps[4].Conditions = []Condition{{Kind: SkipIf, Decision: 7}} }, []string{"a", "e", "graph"}},
		"a condition on none": {func(d *Definition) { d.Steps[2].Conditions = nil }, []string{"c", "graph"}},
		"source of instant":   {func(d *Definition) { d.Steps[3].WakeFrom = Input }, []string{"a", "d", "graph"}},
		"number of decision":  {func(d *Definition) { d.Steps[1].Conditions[0].Decision = 5 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, d := graphOf(t, rich()), rich()
			c.change(d)
			after := graphOf(t, d)
			var changed []string
			if before.Hash != after.Hash {
				changed = append(changed, "graph")
			}
			old := fingerprints(before)
			for step, fingerprint := range fingerprints(after) {
				if step != "z" && old[step] != fingerprint {
					changed = append(changed, step)
				}
			}
			slices.Sort(changed)
			slices.Sort(c.want)
			require.Equal(t, c.want, changed)
		})
	}
	d := rich()
	d.OnFailure = nil
	require.NotEqual(t, graphOf(t, rich()).Hash, graphOf(t, d).Hash)
}

// TestOrderOfDeclaration: tasks know their step by its number, so another order
// is another graph; but pods with either execute each other's tasks.
func TestOrderOfDeclaration(t *testing.T) {
	t.Parallel()
	d := rich()
	swapped := rich()
	swapped.Steps[1], swapped.Steps[2] = d.Steps[2], d.Steps[1]
	swapped.Steps[4].Parents = []Edge{{0, Maybe}, {2, Settled}}
	swapped.Steps[4].After = []Edge{{1, Settled}, {3, Plain}}
	one, two := graphOf(t, d), graphOf(t, swapped)
	require.Equal(t, fingerprints(one), fingerprints(two))
	require.NotEqual(t, one.Hash, two.Hash)
}

func TestNewGraphKeepsNothingOfTheDefinition(t *testing.T) {
	t.Parallel()
	d := rich()
	g := graphOf(t, d)
	d.Steps[4].Parents[0].Parent = 3
	d.Steps[4].Name = "changed"
	require.Equal(t, []int32{0, 1}, g.Nodes[4].Parents)
	require.Equal(t, "e", g.Nodes[4].Name)
	require.Equal(t, "q", g.Nodes[4].Queue)
	require.Equal(t, time.Minute, g.Nodes[4].StartTimeout)
	require.True(t, g.OnFailure.Traits.Has(TraitOnFailure))
}

func TestPackChild(t *testing.T) {
	t.Parallel()
	for _, child := range []Child{
		{0, Plain, false}, {0, Settled, true}, {StepsMax, Maybe, true}, {1<<31 - 1, Plain, true},
	} {
		got, err := UnpackChild(child.Pack())
		require.NoError(t, err)
		require.Equal(t, child, got)
	}
	require.EqualValues(t, 5<<3|1<<2|2, Child{5, Maybe, true}.Pack())
	for _, bad := range []int64{0, 8, 4, -1, 1 << 40} {
		_, err := UnpackChild(bad)
		require.ErrorContains(t, err, "is none")
	}
}

func TestRunID(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	id := NewRunID(at, [10]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	require.Equal(t, "018bcfe5-687b-7fff-bfff-ffffffffffff", id.String())
	again, err := ParseRunID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.False(t, id.IsZero())
	require.True(t, RunID{}.IsZero())
	require.Less(t, id.String(), NewRunID(at.Add(time.Millisecond), [10]byte{}).String())
	for _, bad := range []string{"", "x", "018bcfe5-687b-7fff-bfff-fffffffffffg", "018bcfe5x687b-7fff-bfff-ffffffffffff"} {
		_, err := ParseRunID(bad)
		require.Error(t, err, bad)
	}
}
