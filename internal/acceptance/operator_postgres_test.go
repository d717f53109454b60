package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// An operator without an engine cancels what a pod executes: its context ends, and the
// history names what asked for it.
func TestAnOperatorCancelsWhatAPodExecutes(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	pool := migratedPool(t, pgtest.Database(t), nil)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, single(func(ctx context.Context, _ string) (int, error) {
		close(begun)
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	operator, err := troupe.OpenOperator(t.Context(), pool, "", "night shift")
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Close() })

	run, err := handle.RunNoWait(t.Context(), "x")
	require.NoError(t, err)
	<-begun
	_, err = operator.Cancel(t.Context(), "other", run.ID(), troupe.CancelOptions{})
	require.ErrorIs(t, err, troupe.ErrRunNotFound)
	_, err = operator.Cancel(t.Context(), "", run.ID(), troupe.CancelOptions{Grace: -time.Second})
	require.ErrorContains(t, err, "Grace is -1s")
	outcome, err := operator.Cancel(t.Context(), "", run.ID(), troupe.CancelOptions{Reason: "wrong input"})
	require.NoError(t, err)
	require.False(t, outcome.Before)
	_, err = run.Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunCanceled)
	outcome, err = operator.Cancel(t.Context(), "", run.ID(), troupe.CancelOptions{})
	require.NoError(t, err)
	require.Equal(t, troupe.CancelOutcome{State: troupe.StateCanceled, Before: true}, outcome)
	reasons, err := run.Explain(t.Context())
	require.NoError(t, err)
	require.Equal(t, "night shift", reasons[0].By)
	require.Equal(t, "wrong input", reasons[0].CancelReason)
}

// greeted is a pod with two workflows, one of which has a condition on its input, and an
// operator beside it.
func greeted(t *testing.T) (*troupe.Engine, *troupe.Operator) {
	t.Helper()
	pool := migratedPool(t, pgtest.Database(t), nil)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	greet := func(_ context.Context, name string) (string, error) {
		if name == "" {
			return "", troupe.Terminal(errors.New("no name"))
		}
		return "hello " + name, nil
	}
	_, err = troupe.Register(engine, troupe.Define("greet", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "greet", greet)
	}))
	require.NoError(t, err)
	_, err = troupe.Register(engine, troupe.Define("picky", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		loud, _ := troupe.If(b.Input(), func(name string) bool { return name == "x" })
		return troupe.Step0(b, "greet", greet, loud)
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	operator, err := troupe.OpenOperator(t.Context(), pool, "", "cli")
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Close() })
	return engine, operator
}

// outputOf waits for the end of a run.
func outputOf(t *testing.T, operator *troupe.Operator, run troupe.RunID) (text string, err error) {
	t.Helper()
	require.Eventually(t, func() bool {
		payload, ended, found := operator.Output(t.Context(), "", run)
		text, err = string(payload), found
		return ended
	}, time.Minute, 10*time.Millisecond)
	return text, err
}

// An operator triggers what pods have registered, once for each key.
func TestAnOperatorTriggersStoredWorkflows(t *testing.T) {
	t.Parallel()
	engine, operator := greeted(t)
	first, err := operator.Trigger(t.Context(), "greet", "", []byte(`"anna"`), troupe.Key("k"), troupe.Tenant("acme"))
	require.NoError(t, err)
	require.False(t, first.Existing)
	text, err := outputOf(t, operator, first.Run)
	require.NoError(t, err)
	require.Equal(t, `"hello anna"`, text)
	status, err := engine.Status(t.Context(), "acme", first.Run)
	require.NoError(t, err)
	require.Equal(t, "cli", status.Origin)
	again, err := operator.Trigger(t.Context(), "greet", "", []byte(`"anna"`), troupe.Key("k"), troupe.Tenant("acme"))
	require.NoError(t, err)
	require.Equal(t, troupe.Triggered{Run: first.Run, Existing: true}, again)
	_, err = operator.Trigger(t.Context(), "greet", "", []byte(`"bert"`), troupe.Key("k"), troupe.Tenant("acme"))
	require.ErrorIs(t, err, troupe.ErrKeyConflict)
}

// What failed is requeued by the id of its run.
func TestAnOperatorRequeuesARun(t *testing.T) {
	t.Parallel()
	_, operator := greeted(t)
	failing, err := operator.Trigger(t.Context(), "greet", "", []byte(`""`))
	require.NoError(t, err)
	_, err = outputOf(t, operator, failing.Run)
	require.ErrorIs(t, err, troupe.ErrRunFailed)
	_, _, err = operator.Output(t.Context(), "acme", failing.Run)
	require.ErrorIs(t, err, troupe.ErrRunNotFound, "it is of the default tenant")
	requeued, err := operator.DeadLetters().RequeueRun(t.Context(), "default", failing.Run, troupe.RequeueOptions{})
	require.NoError(t, err)
	_, err = outputOf(t, operator, requeued.Run)
	require.ErrorIs(t, err, troupe.ErrRunFailed)
	completed, err := operator.Trigger(t.Context(), "greet", "", []byte(`"anna"`))
	require.NoError(t, err)
	_, err = outputOf(t, operator, completed.Run)
	require.NoError(t, err)
	_, err = operator.DeadLetters().RequeueRun(t.Context(), "", completed.Run, troupe.RequeueOptions{})
	require.ErrorIs(t, err, troupe.ErrDeadLetterNotFound)
}

// What only code can judge, or is not stored, is refused with the remedy.
func TestAnOperatorRefusesWhatItCannotTrigger(t *testing.T) {
	t.Parallel()
	_, operator := greeted(t)
	for want, trigger := range map[string][]string{
		`"nothing" is not stored`:                                {"nothing", ""},
		`no stored definition of "greet" begins with "00000000"`: {"greet", "00000000"},
		`conditions of workflow "picky" look at its input`:       {"picky", ""},
		"name the workflow":                                      {"", ""},
	} {
		_, err := operator.Trigger(t.Context(), trigger[0], trigger[1], []byte(`"x"`))
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, troupe.ErrRefused)
	}
	_, err := troupe.OpenOperator(t.Context(), nil, "", "")
	require.ErrorContains(t, err, "by is empty")
	_, err = troupe.OpenOperator(t.Context(), nil, "", "cli")
	require.ErrorContains(t, err, "the pool is nil")
}

// Of several versions an operator takes the one that living pods register, or the one that
// is named.
func TestAnOperatorChoosesAVersion(t *testing.T) {
	t.Parallel()
	pool := migratedPool(t, pgtest.Database(t), nil)
	pod := func(step string) *troupe.Engine {
		t.Helper()
		engine, err := troupe.New(pool, troupe.Config{})
		require.NoError(t, err)
		_, err = troupe.Register(engine, troupe.Define("greet", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			return troupe.Step0(b, step, func(_ context.Context, name string) (string, error) { return step + " " + name, nil })
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		t.Cleanup(func() { _ = engine.Stop(context.Background()) })
		return engine
	}
	operator, err := troupe.OpenOperator(t.Context(), pool, "", "cli")
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Close() })

	old := pod("hello")
	pod("goodbye")
	_, err = operator.Trigger(t.Context(), "greet", "", []byte(`"x"`))
	require.ErrorContains(t, err, `"greet" has 2 versions to choose from: name one of `)
	versions := strings.Split(err.Error()[strings.LastIndex(err.Error(), "one of ")+len("one of "):], ", ")
	require.Len(t, versions, 2)
	chosen, err := operator.Trigger(t.Context(), "greet", versions[0], []byte(`"x"`))
	require.NoError(t, err)
	require.False(t, chosen.Run.IsZero())

	require.NoError(t, old.Stop(t.Context()))
	served, err := operator.Trigger(t.Context(), "greet", "", []byte(`"x"`))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		output, _, err := operator.Output(t.Context(), "", served.Run)
		require.NoError(t, err)
		return string(output) == `"goodbye x"`
	}, time.Minute, 10*time.Millisecond)
}
