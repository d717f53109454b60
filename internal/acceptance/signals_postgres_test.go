package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// A signal of a transaction is there if that commits, also for a run of the same transaction.
func TestASignalOfATransaction(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	_, handle := joined(t, pool, troupe.Config{}, contract())
	ctx, ok := t.Context(), approval{"ann", true}
	run, err := handle.RunNoWait(ctx, "deal")
	require.NoError(t, err)
	undone := errors.New("undone")
	require.ErrorIs(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		require.NoError(t, approved.SendTx(ctx, tx, run, approval{"eve", true}, troupe.SignalID("1")))
		return undone
	}), undone)
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		require.NoError(t, approved.SendTx(ctx, tx, run, ok, troupe.SignalID("1")), "the first does not exist")
		return approved.SendTx(ctx, tx, run, approval{"eve", true}, troupe.SignalID("1"))
	}))
	out, err := run.Await(ctx)
	require.NoError(t, err)
	require.Equal(t, "deal drafted, signed by ann", out)

	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		run, err = handle.TriggerTx(ctx, tx, "lease", troupe.Key("l"))
		require.NoError(t, err)
		require.ErrorIs(t, approved.Send(ctx, run, ok), troupe.ErrRunNotFound, "no other transaction sees the run")
		require.ErrorIs(t, troupe.NewSignal[int]("no").SendTx(ctx, tx, run, 1), troupe.ErrUnknownSignal)
		return approved.SendTx(ctx, tx, handle.ByKey("", "l"), ok)
	}))
	out, err = run.Await(ctx)
	require.NoError(t, err)
	require.Equal(t, "lease drafted, signed by ann", out)

	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, approved.SendTx(ctx, tx, run, ok), troupe.ErrRunEnded)
	require.NoError(t, tx.Commit(ctx))
	require.ErrorIs(t, approved.SendTx(ctx, tx, run, ok), troupe.ErrTxRefused)
}

// A client, and a tool without an engine, send signals to the runs of a service, which hears of
// them at once.
func TestAClientAndAToolSendSignals(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	slow := troupe.Config{Sweep: time.Hour, SweepDegraded: time.Hour}
	joined(t, pool, slow, contract())
	config := slow
	config.ClientOnly = true
	_, handle := joined(t, pool, config, contract())
	run, err := handle.RunNoWait(t.Context(), "deal", troupe.Key("d-1"), troupe.Tenant("acme"))
	require.NoError(t, err)
	waits(t, run)
	require.NoError(t, approved.Send(t.Context(), handle.ByKey("acme", "d-1"), approval{"ann", true}))
	out, err := run.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "deal drafted, signed by ann", out)

	operator, err := troupe.OpenOperator(t.Context(), pool, migrations.DefaultSchema, "test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, operator.Close()) })
	run, err = handle.RunNoWait(t.Context(), "lease", troupe.Key("d-2"))
	require.NoError(t, err)
	waits(t, run)
	to := troupe.SignalTo{Workflow: "contract", Key: "d-2"}
	_, err = operator.Signal(t.Context(), to, "no", nil)
	require.ErrorIs(t, err, troupe.ErrUnknownSignal)
	_, err = operator.Signal(t.Context(), troupe.SignalTo{}, "approved", nil)
	require.ErrorIs(t, err, troupe.ErrRefused)
	_, err = operator.Signal(t.Context(), troupe.SignalTo{Run: run.ID(), Tenant: "other"}, "approved", nil)
	require.ErrorIs(t, err, troupe.ErrRunNotFound)
	_, err = operator.Signal(t.Context(), to, "approved", nil, nil)
	require.ErrorIs(t, err, troupe.ErrRefused)
	sent, err := operator.Signal(t.Context(), to, "approved", []byte(`{"By": "bob", "OK": true}`), troupe.SignalID("1"))
	require.NoError(t, err)
	require.Equal(t, troupe.Signaled{Run: run.ID()}, sent)
	out, err = run.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "lease drafted, signed by bob", out)
	sent, err = operator.Signal(t.Context(), troupe.SignalTo{Run: run.ID()}, "approved", nil, troupe.SignalID("1"))
	require.NoError(t, err)
	require.Equal(t, troupe.Signaled{Run: run.ID(), Repeated: true}, sent)
}

// waits waits until a step of a run waits for its signal, and until the status says so.
func waits(t *testing.T, run *troupe.Run[string]) {
	t.Helper()
	require.Eventually(t, func() bool {
		step := stepsOf(t, run)["approve"]
		return step.State == troupe.StateWaiting && step.Waiting != ""
	}, time.Minute, time.Millisecond)
	require.Contains(t, stepsOf(t, run)["approve"].Waiting, `waits for the signal "approved" since `)
}

// stepsOf returns the steps of a run that has begun, by name.
func stepsOf(t *testing.T, run *troupe.Run[string]) map[string]troupe.StepStatus {
	t.Helper()
	status, err := run.Status(t.Context())
	require.NoError(t, err)
	steps := map[string]troupe.StepStatus{}
	for _, step := range status.Steps {
		steps[step.Name] = step
	}
	return steps
}

// A run whose workflow an older pod does not know begins when that has left, and says so.
func TestARunWaitsUntilOlderPodsHaveLeft(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	older := olderPod(t, pool)
	_, handle := joined(t, pool, troupe.Config{Sweep: time.Second}, contract())
	run, err := handle.TriggerWithSignal(t.Context(), "deal", approved.With(approval{"ann", true}), troupe.Key("k"))
	require.NoError(t, err)
	require.EventuallyWithT(t, func(t *assert.CollectT) { // now and then a pod looks at the run, and holds it
		reasons, err := run.Explain(context.Background())
		require.NoError(t, err)
		require.Len(t, reasons, 1)
		require.Equal(t, explain.CauseOlderPods, reasons[0].Cause, "%v", reasons[0])
		require.Contains(t, reasons[0].Text, "older-pod")
	}, time.Minute, 20*time.Millisecond)
	_, err = pool.Exec(context.Background(), "delete from troupe.pods where id = $1", older)
	require.NoError(t, err)
	out, err := run.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "deal drafted, signed by ann", out)
}

// olderPod adds the row of a pod that speaks the protocol before signals.
func olderPod(t *testing.T, pool *pgxpool.Pool) (id int64) {
	t.Helper()
	engine, _ := joined(t, pool, troupe.Config{PodName: "older-pod", ClientOnly: true}, single(number))
	id = engine.Stats().Pod
	_, err := pool.Exec(t.Context(), "update troupe.pods set protocol = 2 where id = $1", id)
	require.NoError(t, err)
	return id
}
