package postgres

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// buryMany archives a run with n dead letters and an input of a size.
func (a *annals) buryMany(n, size int) []workflow.TaskID {
	a.t.Helper()
	d := workflow.Definition{Name: "wide", Policy: workflow.FinishSiblings}
	for i := range n {
		d.Steps = append(d.Steps, workflow.Step{Name: fmt.Sprintf("s%d", i)})
	}
	g := storetest.Graph(d)
	a.fixture = newFixture(a.database, g)
	draft := a.draft(g, "tenant", 1)
	draft[0].Input = make([]byte, size)
	_, _ = rand.Read(draft[0].Input)
	require.Equal(a.t, persistence.Triggered, a.ask(draft...)[0].Result)
	pod := a.join(time.Hour)
	var tasks []workflow.TaskID
	for grants := a.claim(pod, n); len(grants) > 0; grants = a.claim(pod, n) {
		record := a.completion(pod, grants...)
		for i := range record.Transitions {
			t := &record.Transitions[i]
			t.Report, t.Output, t.Class, t.Error = lifecycle.Errored, nil, "wide", "broke"
			tasks = append(tasks, t.Task)
		}
		a.send(record)
	}
	require.Len(a.t, tasks, n)
	a.pass(2 * time.Minute)
	require.Equal(a.t, 1, a.archive())
	return tasks
}

func (a *annals) inputs() int {
	return value[int](a.database, "select count(*)::int from {schema}.dead_inputs")
}

// However many letters a run leaves, its input is kept once, until the last of
// them goes.
func TestLettersOfARunShareItsInput(t *testing.T) {
	t.Parallel()
	a, _ := newAnnals(t)
	const input = 512 << 10
	tasks := a.buryMany(40, input)
	require.Less(t, value[int](a.database,
		"select (pg_total_relation_size('{schema}.dead_letters') + pg_total_relation_size('{schema}.dead_inputs'))::int"), 2*input)
	for _, task := range tasks {
		d, err := a.store.DeadLetter(a.ctx, "", task)
		require.NoError(t, err)
		require.Len(t, d.Input, input)
	}
	for _, want := range []struct{ limit, purged, inputs int }{{39, 39, 1}, {10, 1, 0}, {10, 0, 0}} {
		count, err := a.store.PurgeDeadLetters(a.ctx, persistence.DeadFilter{Limit: want.limit})
		require.NoError(t, err)
		require.Equal(t, want.purged, count)
		require.Equal(t, want.inputs, a.inputs())
	}
}

// Two who purge letters of one run leave nothing behind.
func TestPurgesOfOneRunLeaveNoInput(t *testing.T) {
	t.Parallel()
	a, _ := newAnnals(t)
	for range 10 {
		a.buryMany(8, 10)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 4 {
					_, _ = a.store.PurgeDeadLetters(a.ctx, persistence.DeadFilter{Limit: 2})
				}
			})
		}
		all.Wait()
		_, err := a.store.PurgeDeadLetters(a.ctx, persistence.DeadFilter{})
		require.NoError(t, err)
		require.Zero(t, a.inputs())
	}
}
