package storetest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// seedFlag and worldsFlag replay one history or ask for more of them.
var (
	seedFlag   = flag.Uint64("storetest.seed", 0, "differential test: replay the world of this seed only")
	worldsFlag = flag.Int("storetest.worlds", 0, "differential test: number of worlds instead of the test's own")
)

// Differential is a test that sends the same random operations to two stores
// and compares every answer, and everything that the stores hold after each.
// The model says what is right.
//
// Clocks may differ: all durations are such that nothing is due by accident,
// and instants are compared by whether they are set. Numbers that a store
// gives out (pods, handlers) are compared by their order. Texts of a database's
// own errors are not compared.
//
// It passes only if everything that can happen has happened often enough, so
// that it cannot pass by exercising refusals.
type Differential struct {
	Model   Open
	Product Open
	// Worlds is the number of pairs of fresh stores, Operations the number of
	// operations in each. Least is how often each thing has to happen in all
	// worlds together.
	Worlds, Operations, Least int
	// FewTenants: the stores are opened with room for two tenants.
	FewTenants bool
}

// Run runs the worlds of the seeds 1, 2, … and checks the coverage.
func (d Differential) Run(t *testing.T) {
	t.Helper()
	if *seedFlag != 0 {
		_, err := d.World(t, *seedFlag)
		require.NoError(t, err)
		return
	}
	if *worldsFlag > 0 {
		d.Worlds = *worldsFlag
	}
	tallies := make([]Tally, d.Worlds)
	same := t.Run("worlds", func(t *testing.T) {
		for i := range tallies {
			seed := uint64(i + 1)
			t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
				t.Parallel()
				var err error
				tallies[i], err = d.World(t, seed)
				require.NoError(t, err, "replay with -storetest.seed=%d", seed)
			})
		}
	})
	if !same {
		return
	}
	total := Tally{}
	for _, tally := range tallies {
		for what, count := range tally {
			total[what] += count
		}
	}
	t.Logf("what happened:\n%s", total)
	require.Empty(t, total.rarerThan(d.Least), "happened less than %d times", d.Least)
}

// World drives one pair of fresh stores and returns what happened, and how the
// stores differ if they do.
func (d Differential) World(t *testing.T, seed uint64) (tally Tally, err error) {
	t.Helper()
	w := &differ{
		ctx: t.Context(), Rand: rand.New(rand.NewPCG(seed, 0)), tally: Tally{}, graphs: differGraphs(),
		model: newSide("model", d.Model(t)), product: newSide("product", d.Product(t)),
		limit: []int{0, 3}[seed%2], calm: seed%3 == 0, kin: seed%3 == 1, wide: seed%3 == 2 && seed%4 != 1, few: d.FewTenants, driven: seed%4 == 1,
	}
	defer func() {
		found := recover()
		if found == nil {
			return
		}
		w.abandon()
		told, ok := found.(divergence)
		if !ok {
			panic(found)
		}
		err = fmt.Errorf("seed %d, operation %d: %s\nthe last operations were:\n%s", seed, w.count, told, w.told())
	}()
	w.open()
	for w.count < d.Operations {
		w.count++
		w.step()
	}
	w.close()
	return w.tally, nil
}

// differ is one world of a differential test.
type differ struct {
	*rand.Rand
	ctx            context.Context
	model, product *side
	limit          int  // of running tasks of a tenant; 0: none
	few            bool // of three tenants only two fit
	calm           bool // one tenant, whose runs mostly succeed: the fast path of a store
	kin            bool // most runs begin child runs, and get further than elsewhere
	wide           bool // most runs have maps, and get further than elsewhere
	driven         bool // many runs are of machines, and get further than elsewhere
	tally          Tally
	count          int
	log            []func() string // of the last operations
	graphs         []*workflow.Graph
	state          snapshot.Tables // of the model, after the last operation
	ids            uint64          // given out to runs and claims
	past           []sent          // transitions sent before
	triggers       []trigger       // stored before
	inTx           []trigger       // in the open transaction
	found          []trigger       // of these, those whose key was in use
	txOpen         bool
	signals        []persistence.Signal // sent before
	sentInTx       []persistence.Signal // in the open transaction
}

// divergence is a difference between the stores. It ends the world.
type divergence string

func (w *differ) diverge(format string, args ...any) {
	panic(divergence(fmt.Sprintf(format, args...)))
}

// logMax is how many lines a difference is told with.
const logMax = 30

// note logs what is about to be done.
func (w *differ) note(format string, args ...any) {
	count := w.count
	w.log = append(w.log, func() string { return fmt.Sprintf("%4d  ", count) + fmt.Sprintf(format, args...) })
	if len(w.log) > 2*logMax {
		w.log = slices.Clone(w.log[logMax:])
	}
}

func (w *differ) told() string {
	var b strings.Builder
	for _, line := range w.log[max(0, len(w.log)-logMax):] {
		b.WriteString(line() + "\n")
	}
	return b.String()
}

// chance is true once in n times.
func (w *differ) chance(n int) bool { return w.IntN(n) == 0 }

func anyOf[E any](w *differ, list []E) E { return list[w.IntN(len(list))] }

// operation is something to do with both stores, as often as its weight says.
type operation struct {
	weight int
	run    func(w *differ)
}

func operations() []operation {
	return []operation{
		{14, (*differ).trigger},
		{4, (*differ).submit},
		{9, (*differ).signal},
		{3, (*differ).signalInTx},
		{3, (*differ).end},
		{8, (*differ).drain},
		{4, (*differ).wakeParents},
		{22, (*differ).claim},
		{30, (*differ).record},
		{5, (*differ).recordInTx},
		{5, (*differ).cancel},
		{6, (*differ).renew},
		{3, (*differ).join},
		{1, (*differ).leave},
		{6, (*differ).fire},
		{4, (*differ).expire},
		{7, (*differ).park},
		{1, (*differ).bump},
		{6, (*differ).archive},
		{1, (*differ).retire},
		{2, (*differ).register},
		{1, (*differ).define},
		{8, (*differ).read},
		{6, (*differ).situation},
		{4, (*differ).work},
		{4, (*differ).mourn},
		{6, (*differ).requeue},
		{2, (*differ).purge},
	}
}

// step does one operation and compares the states.
func (w *differ) step() {
	if w.kin && w.chance(3) {
		w.raise() // besides, or everything else would happen less often
		w.compareStates()
	}
	if w.wide && !w.chance(4) {
		w.widen()
		w.compareStates()
	}
	if w.driven && !w.chance(3) {
		w.impel()
		w.compareStates()
	}
	total := 0
	for _, o := range operations() {
		total += o.weight
	}
	at := w.IntN(total)
	for _, o := range operations() {
		if at < o.weight {
			o.run(w)
			w.compareStates()
			return
		}
		at -= o.weight
	}
}

// Tally counts what happened in a differential test.
type Tally map[string]int

// String lists everything with its count, one a line.
func (y Tally) String() string {
	var b strings.Builder
	for _, what := range happenings() {
		fmt.Fprintf(&b, "%6d  %s\n", y[what], what)
	}
	return b.String()
}

func (y Tally) rarerThan(least int) []string {
	var rare []string
	for _, what := range happenings() {
		if y[what] < least {
			rare = append(rare, fmt.Sprintf("%s: %d", what, y[what]))
		}
	}
	return rare
}

// saw counts something that happened. Only what happenings lists is counted.
func (w *differ) saw(what string) {
	if !slices.Contains(happenings(), what) {
		w.diverge("not listed as something that happens: %s", what)
	}
	w.tally[what]++
}

// sawAll counts something that happened n times.
func (w *differ) sawAll(n int, what string) {
	for range n {
		w.saw(what)
	}
}

// happenings lists what has to happen for a differential test to mean
// something.
func happenings() []string {
	return append(machineMoves(), []string{
		"activation recorded", "activation repeated", "activation refused", "activation starts something", "activation cancels something",
		"machine completed", "machine read", "page of entries read", "run that is no machine", "stop seen by a pod",
		"dead letter of a machine requeued", "requeue of a failure that a machine has handled",
		"run triggered", "run triggered again", "run found by its key", "key conflict", "key busy",
		"group refused", "workflow unknown", "queue unknown", "trigger refused as bad row", "run triggered for later",
		"condition on the input",
		"run submitted", "submission rolled back", "run drained",
		"signal sent", "signal repeated", "signal refused", "signal delivered", "signal dropped", "signal delivered before a deadline",
		"wait skipped at its deadline", "wait failed at its deadline", "run held back by an older pod",
		"child run begun", "child run taken back", "child run refused", "child run begun before", "child run canceled with its step",
		"step completed with its child run", "output of a child run to be judged", "step skipped with its child run",
		"step failed with its child run", "child run of a step was canceled", "child run of a step is gone", "parent woken by the leader",
		"child run listed", "dead letter of a parent requeued", "dead letter of a child run requeued",
		"map begun", "map begun before", "map refused", "map not begun in a run that stops", "window moved", "map gathers",
		"map gathers, some elements failed", "map broke", "map canceled", "map that takes over all elements", "element taken back",
		"element ended with a map that breaks", "element taken over", "page of elements read", "dead letter of a map requeued",
		"task claimed", "claim repeated", "row discarded", "suspect claimed", "dead pod refused",
		"task completed", "condition on a completion", "dynamic tasks made", "dynamic task claimed", "dynamic task read", "attempt failed", "retry", "timeout", "loss", "release",
		"task repeated in one batch", "transition already recorded", "transition stale", "bad row", "inline grant",
		"record repeated", "first task granted", "batch repeated", "completed in a transaction", "bad row in a transaction",
		"transaction given up",
		"run canceled", "cancel repeated", "cancel too late", "submission canceled", "cancel by another tenant",
		"lease renewed", "task found unheld", "task found lost", "cancel seen by a pod",
		"pod joined", "pod left",
		"timer fired", "pod expired", "task taken from a dead pod", "row parked", "row unparked", "leader deposed",
		"run archived", "span removed", "key removed", "events rotated",
		"workflow registered", "workflow registered again", "definition read", "definition unknown",
		"run read", "run not ended", "situation read", "run hidden from another tenant", "runs listed", "runs counted", "run read by its key", "payload read",
		"beginning of a payload read", "queue read", "parked work read", "unregistered step read",
		"dead letter listed", "dead letter requeued", "steps taken over", "dead letter requeued before", "requeue too early",
		"requeue too late", "requeue refused", "dead letter purged",
		"run completed", "run failed", "run canceled at its end", "failure handled by a step",
	}...)
}
