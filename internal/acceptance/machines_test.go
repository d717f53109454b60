package acceptance

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/statemachine"
)

// tally is the state of the machines of these tests.
type tally struct {
	Done   []string
	Failed []string
	Fired  []string
	Asked  string
}

type acting = statemachine.Activation[tally, []string]

var (
	goOn  = troupe.NewSignal[string]("go")
	enact = troupe.NewSignal[int]("enact")
)

// machineOf is a machine that build declares.
func machineOf(build func(m *statemachine.Builder[int, tally, []string])) *statemachine.Machine[int, tally, []string] {
	return statemachine.Define("tallies", build)
}

// startMachine runs a machine on an engine in memory until the test ends.
func startMachine(t *testing.T, m *statemachine.Machine[int, tally, []string], tune ...func(*troupe.Config)) (*troupe.Engine, *troupe.Handle[int, []string]) {
	t.Helper()
	config := calm()
	for _, change := range tune {
		change(&config)
	}
	engine, err := troupe.NewInMemory(config)
	require.NoError(t, err)
	handle, err := troupe.Register(engine, m)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	return engine, handle
}

// worker starts in activities when it begins, and as many as a signal says; it notes what ends.
func worker(work func(ctx context.Context, n int) (string, error), options ...troupe.FunctionOption) *statemachine.Machine[int, tally, []string] {
	return machineOf(func(m *statemachine.Builder[int, tally, []string]) {
		jobs := statemachine.Activity(m, "job", work, options...)
		alarm := m.Timer("alarm")
		m.OnStart(func(a *acting, in int) {
			for i := range in {
				jobs.Start(a, i)
			}
			alarm.Start(a, 100*24*time.Hour)
		})
		m.OnTimer(alarm, func(a *acting) { a.State.Fired = append(a.State.Fired, a.ID) })
		statemachine.OnCompleted(m, jobs, func(a *acting, out string) { a.State.Done = append(a.State.Done, out) })
		m.OnFailed(jobs, func(a *acting, why *troupe.StepError) {
			a.State.Failed = append(a.State.Failed, why.Class+": "+why.Text)
		})
		statemachine.OnSignal(m, enact, func(a *acting, n int) {
			for i := range n {
				jobs.Start(a, i)
			}
		})
		statemachine.OnSignal(m, goOn, func(a *acting, how string) { a.Complete(append(a.State.Done, a.State.Failed...)) })
		m.OnCancel(time.Hour, func(a *acting, reason string) { a.State.Asked = reason })
	})
}

// A status lists what a machine has open, and explain says what it waits for.
func TestAMachineSaysWhatItWaitsFor(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := worker(func(ctx context.Context, _ int) (string, error) {
			time.Sleep(time.Hour)
			return troupe.Task(ctx).Step, nil
		})
		engine, handle := startMachine(t, w, slots(2))
		run := begin(t, handle, 1)
		time.Sleep(4 * time.Second)
		text := "waits: job#1 runs on " + stepOf(t, run, "job#1").Pod + " (1), alarm#2 fires in 99 d 23 h, it hears enact and go; its last activation was 4 s ago"
		reasons, err := run.Explain(t.Context())
		require.NoError(t, err)
		require.Len(t, reasons, 1)
		require.Equal(t, []any{explain.CauseMachine, text}, []any{reasons[0].Cause, reasons[0].Text})
		step := stepOf(t, run, "machine")
		require.Equal(t, []any{troupe.StateWaiting, text, time.Time{}}, []any{step.State, step.Waiting, step.WakeAt})
		require.Equal(t, troupe.StateSleeping, stepOf(t, run, "alarm#2").State)

		require.NoError(t, run.Cancel(t.Context(), "closing"))
		synctest.Wait()
		status, err := run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, []any{troupe.StateRunning, false, "closing"}, []any{status.State, status.Canceling, status.CancelReason})
		require.Contains(t, status.Steps[0].Waiting, "; it was asked to stop and may go on, and is canceled in 1 h unless it ends")
		require.Zero(t, status.Steps[0].WakeAt)
		state, err := w.State(t.Context(), run)
		require.NoError(t, err)
		require.Equal(t, "closing", state.Asked)
		machine, err := engine.Reader().Machine(t.Context(), "", run.ID())
		require.NoError(t, err)
		require.Equal(t, []any{1, int64(1), int64(1), 2}, []any{machine.Version, machine.Handled, machine.Arrived, machine.Started})

		time.Sleep(time.Hour) // the time that it has
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)
	})
}

// Of what has ended a status has the last hundred, and counts the others.
func TestAStatusOfAMachineIsBounded(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := startMachine(t, worker(func(ctx context.Context, n int) (string, error) {
			if n == 0 {
				time.Sleep(time.Hour)
			}
			return troupe.Task(ctx).Step, nil
		}), slots(50))
		run := begin(t, handle, 350)
		time.Sleep(time.Minute)
		status, err := run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, 249, status.LeftOut)
		require.Len(t, status.Steps, 1+1+100+1)
		require.Equal(t, []string{"machine", "job#1", "job#251", "alarm#351"},
			[]string{status.Steps[0].Name, status.Steps[1].Name, status.Steps[2].Name, status.Steps[102].Name})
		require.NoError(t, goOn.Send(t.Context(), run, ""))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Len(t, out, 349)
		require.Contains(t, out, fmt.Sprintf("job#%d", 350))
	})
}
