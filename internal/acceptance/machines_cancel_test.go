package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/statemachine"
)

// A machine that hears of a cancel continues, and so does the activity that it has open. The pod
// that executes it hears of the cancel by an event, which is the same for runs that do not
// continue: another run, which is canceled behind it, shows that the event has come.
func TestACancelLeavesTheActivitiesOfAMachine(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}, 10), make(chan struct{})
	patient := statemachine.Define("patient", func(m *statemachine.Builder[bool, bool, string]) {
		job := statemachine.Activity(m, "job", func(ctx context.Context, _ bool) (string, error) {
			begun <- struct{}{}
			select {
			case <-ctx.Done():
			case <-finish:
			}
			return "finished", context.Cause(ctx)
		})
		m.OnStart(func(a *statemachine.Activation[bool, string], in bool) { job.Start(a, in) })
		statemachine.OnCompleted(m, job, func(a *statemachine.Activation[bool, string], out string) { a.Complete(out) })
		m.OnCancel(24*time.Hour, func(a *statemachine.Activation[bool, string], _ string) { a.State = true })
	})
	pool := migratedPool(t, pgtest.Database(t), nil)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	machines, err := troupe.Register(engine, patient)
	require.NoError(t, err)
	others, err := troupe.Register(engine, single(func(ctx context.Context, _ string) (int, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, errors.Join(engine.Err(), engine.Stop(context.Background()))) })
	second, err := troupe.New(pool, troupe.Config{}) // a pod that is alone does not read the events
	require.NoError(t, err)
	join(t, second, gate())
	require.Eventually(t, func() bool { return engine.Stats().Mode == "stream" }, 30*time.Second, 50*time.Millisecond)
	operator, err := troupe.OpenOperator(t.Context(), pool, "", "night shift")
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Close() })

	run, err := machines.RunNoWait(t.Context(), true)
	require.NoError(t, err)
	other, err := others.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	<-begun
	<-begun
	_, err = operator.Cancel(t.Context(), "", run.ID(), troupe.CancelOptions{})
	require.NoError(t, err)
	_, err = operator.Cancel(t.Context(), "", other.ID(), troupe.CancelOptions{})
	require.NoError(t, err)
	_, err = other.Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunCanceled)
	close(finish)
	out, err := run.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "finished", out)
	asked, err := patient.State(t.Context(), run)
	require.NoError(t, err)
	require.True(t, asked, "it has heard of the cancel")
}
