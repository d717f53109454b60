package statemachine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

// state is that of a machine of a test.
type state struct {
	Charged []string
	Window  string
}

var paid = troupe.NewSignal[int]("paid")

// order charges twice, waits for a window and a signal, and gives what it has charged.
func order(charge func(ctx context.Context, amount int) (string, error)) *statemachine.Machine[int, state, []string] {
	type activation = statemachine.Activation[state, []string]
	return statemachine.Define("order", func(m *statemachine.Builder[int, state, []string]) {
		charges := statemachine.Activity(m, "charge", charge)
		window := m.Timer("window")
		m.OnStart(func(a *activation, in int) {
			charges.Start(a, in)
			charges.Start(a, in+1)
			a.State.Window = window.Start(a, time.Hour)
		})
		statemachine.OnCompleted(m, charges, func(a *activation, out string) {
			a.State.Charged = append(a.State.Charged, out)
		})
		m.OnTimer(window, func(a *activation) { a.Complete(a.State.Charged) })
		statemachine.OnSignal(m, paid, func(a *activation, value int) {
			a.Cancel(a.State.Window)
			charges.Start(a, value)
			window.Start(a, time.Minute)
		})
	})
}

func TestAMachineRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		machine := order(func(ctx context.Context, amount int) (string, error) {
			return troupe.Task(ctx).Step, nil
		})
		orders, err := troupe.Register(engine, machine)
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		run, err := orders.RunNoWait(t.Context(), 10)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, paid.Send(t.Context(), run, 30))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"charge#1", "charge#2", "charge#4"}, out)
		now, err := machine.State(t.Context(), run)
		require.NoError(t, err)
		require.Equal(t, "window#3", now.Window)
	})
}

func TestAMachineFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		attempts := 0
		orders, err := troupe.Register(engine, order(func(ctx context.Context, amount int) (string, error) {
			attempts++
			return "", errors.New("declined")
		}))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		_, err = orders.Run(t.Context(), 10)
		require.ErrorContains(t, err, `step "charge#`)
		require.ErrorContains(t, err, "declined")
		require.GreaterOrEqual(t, attempts, 5)
	})
}
