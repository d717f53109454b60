package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// mapped is a plan with a map in a diamond.
func mapped() plan {
	return plan{policy: workflow.FinishSiblings, steps: []planStep{
		{name: "list"},
		{name: "each", traits: workflow.TraitMap, edges: []planEdge{{parent: 0, kind: workflow.Plain}}},
		{name: "beside", edges: []planEdge{{parent: 0, kind: workflow.Plain}}},
		{name: "join", edges: []planEdge{{parent: 1, kind: workflow.Plain}, {parent: 2, kind: workflow.Plain}}},
	}}
}

func TestNamesOfElements(t *testing.T) {
	t.Parallel()
	require.Equal(t, "files[17]", ElementName("files", 17))
	for name, item := range map[string]int32{
		"files[17]": 17, "files[0]": 0, "a[1][2]": 2, "files": -1, "files[]": -1, "files[-1]": -1, "files[1": -1, "files1]": -1,
		"files[x]": -1, "files[4294967296]": -1, "": -1,
	} {
		require.Equal(t, item, ElementOf(name), name)
	}
}

// A map that did not complete gets the same list again if what gave it is kept: the elements that
// did complete are taken over. They do not count as dynamic tasks whose owner has to make them
// again.
func TestElementsOfAMapThatRunsAgainAreTakenOver(t *testing.T) {
	t.Parallel()
	g := mapped().graph()
	element := func(state State) Task {
		return Task{Step: 5, State: state, Traits: workflow.TraitMap, Dynamic: &Dynamic{Declared: 1, Owner: 1, Name: "each[0]"}}
	}
	for name, c := range map[string]struct {
		states  []State
		element State
		dead    int32
		kept    []int32
		maps    []int32
	}{
		"the map failed":                {[]State{Completed, Failed, Completed, Canceled}, Failed, 1, []int32{0, 2}, []int32{1}},
		"the map was canceled":          {[]State{Completed, Canceled, Failed, Canceled}, Completed, 2, []int32{0}, []int32{1}},
		"what gave the list runs again": {[]State{Completed, Failed, Completed, Canceled}, Completed, 0, nil, nil},
		"the list did not come":         {[]State{Failed, Canceled, Canceled, Canceled}, Completed, 0, nil, nil},
		"the map tolerated failures":    {[]State{Completed, Completed, Completed, Failed}, Failed, 3, []int32{0, 1, 2}, nil},
		"the map completed and is named": {
			[]State{Completed, Completed, Completed, Completed}, Completed, 1, []int32{0, 2}, []int32{1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks := make([]Task, len(c.states), len(c.states)+1)
			for i, s := range c.states {
				tasks[i] = Task{Step: int32(i), State: s}
			}
			kept, maps := Resume(g, append(tasks, element(c.element)), c.dead)
			require.Equal(t, c.kept, kept)
			require.Equal(t, c.maps, maps)
		})
	}
}

// spreadOut returns a run of mapped whose map has begun its elements.
func spreadOut(t *testing.T, items, window, allowed int32) *world {
	t.Helper()
	w := running(t, mapped())
	w.apply(w.report(0, TaskReported{Kind: Succeeded}))
	w.claim(1, 1)
	w.apply(w.report(1, TaskReported{Kind: Yielded, Map: w.spreading(1, items, window, allowed)}))
	return w
}

// The end of an element needs the row of its map, how far that has come, and what is stopped if it
// breaks.
func TestAnElementAsksForItsMap(t *testing.T) {
	t.Parallel()
	w := spreadOut(t, 4, 2, 0)
	w.claim(5, 1)
	ok := w.report(5, TaskReported{Kind: Succeeded})
	require.Equal(t, []int32{1}, w.decide(false, ok, 5).Missing)
	d := w.decide(false, ok, 1, 5)
	require.Empty(t, d.Missing)
	require.Equal(t, []int32{1}, d.MissingMaps)
	require.False(t, d.MissingAll)

	rows := Rows{Tasks: []Task{*w.task(1), *w.task(5)}, Maps: []Map{w.mapOf(1)}}
	d = Decide(w.run, rows, []Fact{ok}, w.now)
	require.Empty(t, d.MissingMaps)
	require.Equal(t, "each[2]", d.Created[0].Dynamic.Name)

	rows.Maps[0].Next = nil
	require.Equal(t, []int32{1}, Decide(w.run, rows, []Fact{ok}, w.now).MissingMaps, "without the numbers that come next")

	failed := w.report(5, TaskReported{Kind: Errored})
	rows.Maps = []Map{w.mapOf(1)}
	require.True(t, Decide(w.run, rows, []Fact{failed}, w.now).MissingAll, "a map that breaks looks for what it stops")

	again := w.report(5, TaskReported{Kind: Errored, Retry: true})
	require.Equal(t, []int32{1}, w.decide(false, again, 5).Missing, "it is tried again unless the map breaks")
	require.Empty(t, w.decide(false, again, 1, 5).MissingMaps)
}

// Elements end by Decide alone; a map that gathers completes as any step, in a run that is slow.
func TestTheFastPathKnowsNoElements(t *testing.T) {
	t.Parallel()
	g := mapped().graph()
	require.False(t, NeedsSlowPath(g), "before elements begin")
	w := spreadOut(t, 2, 2, 0)
	require.True(t, w.run.Slow)
	child := func(step int32) Task { return *w.task(step) }
	require.False(t, TakesFastPath(w.run, *w.task(5), child))
	require.True(t, TakesFastPath(w.run, *w.task(2), child))

	limited := mapped()
	limited.steps[1].startTimeout = time.Second
	require.True(t, NeedsSlowPath(limited.graph()))
}

// Facts of one transaction are decided on one after the other: the window moves between them.
func TestElementsThatEndTogether(t *testing.T) {
	t.Parallel()
	w := spreadOut(t, 5, 2, 1)
	w.claim(5, 1)
	w.claim(6, 1)
	d := w.apply(w.report(5, TaskReported{Kind: Errored}), w.report(6, TaskReported{Kind: Succeeded}))
	require.Len(t, d.Created, 2)
	require.Equal(t, []Map{{Step: 1, Name: "each", Window: 2, Allowed: 1, Items: 5, Left: 1, From: 4, Open: 2, Failed: 1, Next: d.Maps[0].Next}}, d.Maps)

	w.claim(7, 1)
	w.claim(8, 1)
	d = w.apply(w.report(7, TaskReported{Kind: Errored}), w.report(8, TaskReported{Kind: Errored}))
	require.Empty(t, d.Created)
	require.Equal(t, Failed, w.task(1).State)
	require.Equal(t, "2 of 5 elements failed, where 1 may: the last is element 2", w.task(1).Error[:58])
	require.Equal(t, []Death{{Step: 1, Reason: NonRetryable}}, d.Dead)
}
