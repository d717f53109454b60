package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// pair is a step and its one child.
func pair() *definition {
	return &definition{
		plain: true, handlers: []int32{7, 8},
		graph: &workflow.Graph{Name: "pair", Nodes: []workflow.Node{
			{Name: "first", Children: []workflow.Child{{Step: 1}}}, {Name: "second", Parents: []int32{0}},
		}},
	}
}

func taskOf(run byte, step int32) workflow.TaskID {
	return workflow.TaskID{Run: workflow.RunID{run}, Step: step}
}

func TestRecentGrantsWhatItKnows(t *testing.T) {
	t.Parallel()
	c := newRecent()
	first := &persistence.Transition{Task: taskOf(1, 0), Report: lifecycle.Succeeded, Output: []byte("out")}
	_, known := c.grant(taskOf(1, 1), nil)
	require.False(t, known, "nothing was granted of this run")

	c.granted(&persistence.Grant{Task: first.Task, Tenant: "a", Input: []byte("in")}, pair())
	_, known = c.grant(taskOf(1, 1), nil)
	require.False(t, known, "the parent's output is not known")

	g, known := c.grant(taskOf(1, 1), map[workflow.TaskID]*persistence.Transition{first.Task: first})
	require.True(t, known, "it is being recorded")
	require.Equal(t, persistence.Grant{
		Task: taskOf(1, 1), Attempt: 1, Handler: 8, Step: "second", Tenant: "a", Input: []byte("in"),
		Parents: []persistence.Outcome{{Index: 0, Step: "first", State: lifecycle.Completed, Output: []byte("out"), Size: 3}},
	}, g)
	_, known = c.grant(taskOf(1, 1), nil)
	require.False(t, known, "and may be rolled back")

	c.recorded(first)
	_, known = c.grant(taskOf(1, 1), nil)
	require.True(t, known)
	c.ended(taskOf(1, 0).Run)
	_, known = c.grant(taskOf(1, 1), nil)
	require.False(t, known)
	require.Zero(t, c.bytes)
}

func TestRecentKnowsSkippedSteps(t *testing.T) {
	t.Parallel()
	c := newRecent()
	c.skipped(taskOf(1, 0)) // of a run that nothing was granted of
	c.granted(&persistence.Grant{Task: taskOf(1, 0), Input: []byte("in")}, pair())
	_, known := c.grant(taskOf(1, 1), nil)
	require.False(t, known)
	c.skipped(taskOf(1, 0))
	g, known := c.grant(taskOf(1, 1), nil)
	require.True(t, known)
	require.Equal(t, []persistence.Outcome{{Index: 0, Step: "first", State: lifecycle.Skipped}}, g.Parents)
}

func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	c := newRecent()
	input := bytes.Repeat([]byte("x"), recentMax/100)
	for run := range byte(200) {
		c.granted(&persistence.Grant{Task: taskOf(run, 0), Input: input}, pair())
		c.granted(&persistence.Grant{Task: taskOf(0, 0), Input: input}, pair()) // in use all the time
		require.LessOrEqual(t, c.bytes, recentMax)
	}
	require.Contains(t, c.runs, taskOf(0, 0).Run)
	require.NotContains(t, c.runs, taskOf(1, 0).Run)
	require.Contains(t, c.runs, taskOf(199, 0).Run)
	require.Equal(t, c.order.Len(), len(c.runs))
}

// A run that failed is over, as one that completed is.
func TestRecentForgetsEndedRuns(t *testing.T) {
	t.Parallel()
	for _, report := range []lifecycle.ReportKind{lifecycle.Succeeded, lifecycle.Errored} {
		k := newKit(schemas(t)(t), storetest.Chain(1))
		k.join(time.Hour)
		k.start(storetest.Chain(1), "a", 3)
		grants := k.claim(1, 3)
		require.Len(t, k.store.recent.runs, 3)
		record := k.completion(1, grants...)
		for i := range record.Transitions {
			record.Transitions[i].Report = report
		}
		k.send(record)
		require.Empty(t, k.store.recent.runs)
	}
}
