package features_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
	"github.com/troupe-dev/troupe/statemachine"
)

// tabV1 is what the first version of the machine below remembers: euros.
type tabV1 struct{ Euros int }

// tab is what the second one remembers.
type tab struct{ Cents, Drinks int }

// ordered is the signal that a guest has ordered a drink, for so many euros.
var ordered = troupe.NewSignal[int]("ordered")

// bill is what a machine gives when the bar closes, after four hours: how much it is in cents.
type bill struct{ Cents, Drinks int }

// tabsV1 sums what a guest orders.
func tabsV1() *statemachine.Machine[string, tabV1, bill] {
	type activation = statemachine.Activation[tabV1, bill]
	return statemachine.Define("tabs", func(m *statemachine.Builder[string, tabV1, bill]) {
		closing := m.Timer("closing")
		m.OnStart(func(a *activation, _ string) { closing.Start(a, 4*time.Hour) })
		statemachine.OnSignal(m, ordered, func(a *activation, euros int) { a.State.Euros += euros })
		m.OnTimer(closing, func(a *activation) { a.Complete(bill{Cents: 100 * a.State.Euros}) })
	})
}

// tabs sums cents, counts the drinks, and prints the bill. A state of version 1 becomes one of
// version 2 where its machine is activated next; from then on pods of version 1 leave it alone.
func tabs() *statemachine.Machine[string, tab, bill] {
	type activation = statemachine.Activation[tab, bill]
	return statemachine.Define("tabs", func(m *statemachine.Builder[string, tab, bill]) {
		m.Version(2, func(_ int, decode func(any) error) (tab, error) {
			var old tabV1
			err := decode(&old)
			return tab{Cents: 100 * old.Euros}, err
		})
		printing := statemachine.Activity(m, "print", func(_ context.Context, t tab) (bill, error) {
			return bill(t), nil
		}, troupe.Retry{Attempts: 50})
		closing := m.Timer("closing")
		m.OnStart(func(a *activation, _ string) { closing.Start(a, 4*time.Hour) })
		statemachine.OnSignal(m, ordered, func(a *activation, euros int) {
			a.State.Cents += 100 * euros
			a.State.Drinks++
		})
		m.OnTimer(closing, func(a *activation) { printing.Start(a, a.State) })
		statemachine.OnCompleted(m, printing, func(a *activation, b bill) { a.Complete(b) })
	})
}

// A machine that began with the first version ends with the second, on clusters that crash and in
// which pods of both live for a while. Some are rolled back, and deployed again: machines that had
// gone over wait for that. No drink is lost or counted twice.
func TestMachinesOfTwoVersionsUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		one := func() { simtest.Register(s, tabsV1()) }
		two := func() { simtest.Register(s, tabs()) }
		run := simtest.Register(s, tabsV1()).Start("ann")
		for range 3 {
			simtest.Send(run, ordered, 5)
		}
		s.Advance(time.Duration(s.Rand().IntN(3)) * time.Second)
		s.Deploy(two)
		simtest.Send(run, ordered, 5)
		s.Advance(time.Duration(s.Rand().IntN(30)) * time.Minute)
		if s.Rand().IntN(2) == 0 {
			s.Deploy(one)
			simtest.Send(run, ordered, 5)
			s.Advance(time.Duration(s.Rand().IntN(10)) * time.Minute)
			s.Deploy(two)
		} else {
			simtest.Send(run, ordered, 5)
		}
		got, err := run.Await()
		require.NoError(s, err)
		require.Equal(s, 2500, got.Cents)
		require.LessOrEqual(s, got.Drinks, 5)
		s.Sometimes("drinks were counted", got.Drinks > 0)
		s.Sometimes("the first version had counted none of them", got.Drinks < 5)
	})
}
