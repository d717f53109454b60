package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// joined starts an engine with a workflow on a migrated pool.
func joined[I, O any](
	t *testing.T, pool *pgxpool.Pool, config troupe.Config, w troupe.Definition[I, O],
) (*troupe.Engine, *troupe.Handle[I, O]) {
	t.Helper()
	engine, err := troupe.New(pool, config)
	require.NoError(t, err)
	return engine, join(t, engine, w)
}

// An engine that only triggers and reads executes nothing and never leads; it triggers in
// transactions, waits for ends and cancels like any other.
func TestAClientTriggersAndReads(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	client, handle := joined(t, pool, troupe.Config{ClientOnly: true}, sleeper(10*time.Millisecond))
	run, err := handle.RunNoWait(t.Context(), "", troupe.Key("k"))
	require.NoError(t, err)
	health := client.Health(t.Context())
	require.True(t, health.Live && health.Ready && health.Client, "%+v", health)
	require.False(t, health.Leading)
	reasons, err := run.Explain(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, reasons)

	service, _ := joined(t, pool, troupe.Config{PodName: "service"}, sleeper(10*time.Millisecond))
	out, err := run.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, out)
	require.Equal(t, "service", stepOf(t, run, "step").Pod)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	inTx, err := handle.TriggerTx(t.Context(), tx, "", troupe.Key("tx"))
	require.NoError(t, err)
	_, err = handle.GetByKey(t.Context(), "", "tx")
	require.ErrorIs(t, err, troupe.ErrRunNotFound)
	require.NoError(t, tx.Commit(t.Context()))
	found, err := handle.GetByKey(t.Context(), "", "tx")
	require.NoError(t, err)
	require.Equal(t, inTx.ID(), found.ID())
	_, err = found.Await(t.Context())
	require.NoError(t, err)

	require.Zero(t, client.Stats().Attempts)
	require.Zero(t, client.Stats().Free+client.Stats().Running)
	require.False(t, client.Stats().Leading)
	require.True(t, service.Stats().Leading)

	require.NoError(t, service.Stop(context.Background()))
	late, err := handle.RunNoWait(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, late.Cancel(t.Context(), "no pod executes it"))
	_, err = late.Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunCanceled)
	waits, err := handle.RunNoWait(t.Context(), "", troupe.At(time.Now().Add(time.Hour)))
	require.NoError(t, err)
	status, err := waits.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, troupe.StatePending, status.State)
}

// A client is no pod that could execute a step.
func TestAClientIsNoLivingPodToExplain(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	_, handle := joined(t, pool, troupe.Config{ClientOnly: true}, single(number))
	run, err := handle.RunNoWait(t.Context(), "")
	require.NoError(t, err)
	reasons, err := run.Explain(t.Context())
	require.NoError(t, err)
	require.Equal(t, explain.CauseNoPod, reasons[0].Cause, "%v", reasons)
}

func TestAClientHasNothingToExecuteWith(t *testing.T) {
	t.Parallel()
	var refused *troupe.ConfigError
	_, err := troupe.NewInMemory(troupe.Config{ClientOnly: true})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "ClientOnly", refused.Field)
	for field, config := range map[string]troupe.Config{
		"Slots": {ClientOnly: true, Slots: 1}, "QueueSlots": {ClientOnly: true, QueueSlots: map[string]int{"gpu": 1}},
	} {
		require.ErrorAs(t, config.Validate(), &refused)
		require.Equal(t, field, refused.Field)
	}
	require.NoError(t, troupe.Config{ClientOnly: true}.Validate())
}

// On PostgreSQL a failure handler reads what has completed, as in memory.
func TestAFailureHandlerReadsWhatHasCompletedOnPostgreSQL(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	d := &diary{}
	_, handle := joined(t, pool, troupe.Config{}, ledgers(d, func(in string) (string, error) {
		if in == "" {
			return "", errors.New("declined")
		}
		return in, nil
	}))
	for _, in := range []string{"paid", ""} {
		_, err := handle.Run(t.Context(), in)
		require.ErrorIs(t, err, troupe.ErrRunFailed)
	}
	require.Equal(t, "ship fails, gives back 4 bytes", d.all()[0])
	require.Contains(t, d.all(), "nothing to give back: declined")
}
