package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/statemachine"
)

// A machine that lives for long: what it keeps does not grow with its age, its state counts each
// end once, and its run is archived as others are.
func TestAMachineOfManyActivations(t *testing.T) {
	t.Parallel()
	pgtest.FullOnly(t, "200,000 activations, one after the other, take some minutes")
	const activations = 200_000
	machine := statemachine.Define("clock", func(m *statemachine.Builder[int, int, int]) {
		tick := statemachine.Activity(m, "tick", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		m.OnStart(func(a *statemachine.Activation[int, int], in int) { tick.Start(a, in) })
		statemachine.OnCompleted(m, tick, func(a *statemachine.Activation[int, int], n int) {
			if a.State++; a.State == activations {
				a.Complete(n)
				return
			}
			tick.Start(a, n)
		})
	})
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	_, handle := joined(t, pool, troupe.Config{}, machine)
	run, err := handle.RunNoWait(t.Context(), 0)
	require.NoError(t, err)
	began := time.Now()
	out, err := run.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, activations, out)
	t.Logf("%d activations took %v", activations, time.Since(began).Round(time.Second))

	var tasks, inputs, events int
	require.NoError(t, pool.QueryRow(t.Context(), `select (select count(*) from troupe.tasks), (select count(*) from troupe.map_items),
		(select count(*) from troupe.every_event where run_id = $1)`, run.ID()).Scan(&tasks, &inputs, &events))
	t.Logf("kept: %d tasks, %d inputs, %d events", tasks, inputs, events)
	require.LessOrEqual(t, tasks, persistence.MachineKeep+1000)
	require.LessOrEqual(t, inputs, persistence.MachineKeep+1000)
	require.LessOrEqual(t, events, 4*persistence.MachineKeep+5000)
	require.NoError(t, machine.Replay(t.Context(), run))

	whole := func() []any {
		status, err := run.Machine(t.Context())
		require.NoError(t, err)
		again, err := run.Await(t.Context())
		require.NoError(t, err)
		return []any{string(status.State), status.Handled, status.Arrived, status.Started, again}
	}
	before := whole()
	require.Equal(t, []any{"200000", int64(activations), int64(activations), activations, activations}, before)
	require.Eventually(t, func() bool {
		var archived bool
		err := pool.QueryRow(t.Context(), `select exists (select from troupe.run_history where id = $1)
			and not exists (select from troupe.workflow_runs where id = $1)`, run.ID()).Scan(&archived)
		return err == nil && archived
	}, 10*time.Minute, 100*time.Millisecond, "the run is archived")
	require.Equal(t, before, whole())
	require.NoError(t, machine.Replay(t.Context(), run))
}
