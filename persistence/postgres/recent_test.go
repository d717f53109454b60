package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// pair is a step and its one child.
func pair() *registry.Definition {
	return &registry.Definition{
		Plain: true, Handlers: []int32{7, 8},
		Graph: &workflow.Graph{Name: "pair", Nodes: []workflow.Node{
			{Name: "first", Children: []workflow.Child{{Step: 1}}}, {Name: "second", Parents: []int32{0}},
		}},
	}
}

func taskOf(run byte, step int32) workflow.TaskID {
	return workflow.TaskID{Run: workflow.RunID{run}, Step: step}
}

func TestRecentGrantsWhatItKnows(t *testing.T) {
	t.Parallel()
	c := adaptive.NewRecent()
	first := &persistence.Transition{Task: taskOf(1, 0), Report: lifecycle.Succeeded, Output: []byte("out")}
	_, known := c.Grant(taskOf(1, 1), nil)
	require.False(t, known, "nothing was granted of this run")

	c.Granted(&persistence.Grant{Task: first.Task, Tenant: "a", Input: []byte("in")}, pair())
	_, known = c.Grant(taskOf(1, 1), nil)
	require.False(t, known, "the parent's output is not known")

	g, known := c.Grant(taskOf(1, 1), map[workflow.TaskID]*persistence.Transition{first.Task: first})
	require.True(t, known, "it is being recorded")
	require.Equal(t, persistence.Grant{
		Task: taskOf(1, 1), Attempt: 1, Handler: 8, Step: "second", Tenant: "a", Input: []byte("in"),
		Parents: []persistence.Outcome{{Index: 0, Step: "first", State: lifecycle.Completed, Output: []byte("out"), Size: 3}},
	}, g)
	_, known = c.Grant(taskOf(1, 1), nil)
	require.False(t, known, "and may be rolled back")

	c.Recorded(first)
	_, known = c.Grant(taskOf(1, 1), nil)
	require.True(t, known)
	c.Ended(taskOf(1, 0).Run)
	_, known = c.Grant(taskOf(1, 1), nil)
	require.False(t, known)
	require.Zero(t, c.Bytes)
}

func TestRecentKnowsSkippedSteps(t *testing.T) {
	t.Parallel()
	c := adaptive.NewRecent()
	c.Skipped(taskOf(1, 0)) // of a run that nothing was granted of
	c.Granted(&persistence.Grant{Task: taskOf(1, 0), Input: []byte("in")}, pair())
	_, known := c.Grant(taskOf(1, 1), nil)
	require.False(t, known)
	c.Skipped(taskOf(1, 0))
	g, known := c.Grant(taskOf(1, 1), nil)
	require.True(t, known)
	require.Equal(t, []persistence.Outcome{{Index: 0, Step: "first", State: lifecycle.Skipped}}, g.Parents)
}

func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	c := adaptive.NewRecent()
	input := bytes.Repeat([]byte("x"), adaptive.RecentMax/100)
	for run := range byte(200) {
		c.Granted(&persistence.Grant{Task: taskOf(run, 0), Input: input}, pair())
		c.Granted(&persistence.Grant{Task: taskOf(0, 0), Input: input}, pair()) // in use all the time
		require.LessOrEqual(t, c.Bytes, adaptive.RecentMax)
	}
	require.Contains(t, c.Runs, taskOf(0, 0).Run)
	require.NotContains(t, c.Runs, taskOf(1, 0).Run)
	require.Contains(t, c.Runs, taskOf(199, 0).Run)
	require.Equal(t, c.Order.Len(), len(c.Runs))
}

// Nothing is granted with the end of a run's only step.
func TestRecentRemembersNoRunOfOneStep(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Chain(1))
	k.join(time.Hour)
	k.start(storetest.Chain(1), "a", 3)
	require.Len(t, k.claim(1, 3), 3)
	require.Empty(t, k.store.recent.Runs)
}

// A run that failed is over, as one that completed is.
func TestRecentForgetsEndedRuns(t *testing.T) {
	t.Parallel()
	for _, report := range []lifecycle.ReportKind{lifecycle.Succeeded, lifecycle.Errored} {
		k := newFixture(schemas(t)(t), storetest.Chain(2))
		k.join(time.Hour)
		k.start(storetest.Chain(2), "a", 3)
		for grants := k.claim(1, 3); len(grants) > 0; grants = k.claim(1, 3) {
			require.Len(t, k.store.recent.Runs, 3)
			record := k.completion(1, grants...)
			for i := range record.Transitions {
				record.Transitions[i].Report = report
			}
			k.send(record)
		}
		require.Empty(t, k.store.recent.Runs)
	}
}
