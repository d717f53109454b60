package simtest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
	"github.com/troupe-dev/troupe/statemachine"
)

// dealing is the state of a machine that charges.
type dealing struct {
	Charged map[string]int
	Window  string
	Note    string
}

type dealt = statemachine.Activation[dealing, []string]

var paid = troupe.NewSignal[int]("paid")

// deal charges three times at once, and once for each payment. It completes when a window has passed
// without one. odd is called by its handlers.
func deal(service *simtest.Service[bank], odd func(handler string, a *dealt)) *statemachine.Machine[int, dealing, []string] {
	return statemachine.Define("deal", func(m *statemachine.Builder[int, dealing, []string]) {
		charge := statemachine.Activity(m, "charge", func(ctx context.Context, amount int) (int, error) {
			return amount, service.Do(ctx, func(b *bank) error {
				b.charges[troupe.Task(ctx).IdempotencyKey] = 1
				return nil
			})
		}, troupe.Retry{Attempts: 1000})
		window := m.Timer("window")
		m.OnStart(func(a *dealt, in int) {
			a.State.Charged = map[string]int{}
			for i := range 3 {
				charge.Start(a, in+i)
			}
			a.State.Window = window.Start(a, time.Hour)
			odd("start", a)
		})
		statemachine.OnCompleted(m, charge, func(a *dealt, amount int) {
			a.State.Charged[a.ID] += amount
			odd("completed", a)
		})
		statemachine.OnSignal(m, paid, func(a *dealt, amount int) {
			charge.Start(a, amount)
			a.Cancel(a.State.Window)
			a.State.Window = window.Start(a, time.Hour)
			odd("signal", a)
		})
		m.OnTimer(window, func(a *dealt) {
			if len(a.State.Charged) == 3 {
				a.Fail(errors.New("nothing was paid"))
				return
			}
			a.Complete(slices.Sorted(maps.Keys(a.State.Charged)))
		})
	})
}

func sane(string, *dealt) {}

// Wherever pods crash, also after an activation: each end is heard of once, and entries lead to the
// state that is stored.
func TestAMachineWhateverCrashes(t *testing.T) {
	t.Parallel()
	simtest.CrashEverywhere(t, simtest.Options{Seeds: 4, Most: 120}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		machine := simtest.Register(s, deal(service, sane))
		run := machine.Start(10)
		simtest.Send(run, paid, 50)
		out, err := run.Await()
		require.NoError(s, err)
		require.Len(s, out, 4)
		require.Len(s, bank.charges, 4)
	})
}

func TestAMachineAmongFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 40}, func(s *simtest.Sim) {
		service, bank := newBank(s)
		machine := simtest.Register(s, deal(service, sane))
		run := machine.Start(10)
		simtest.Send(run, paid, 50)
		out, err := run.Await()
		require.NoError(s, err)
		require.Len(s, out, 4)
		require.Len(s, bank.charges, 4)
	})
}

// An activity of a machine is stubbed by its name, and its stub reads the input.
func TestActivitiesAreStubbed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := simtest.New(t)
		service, bank := newBank(s)
		machine := simtest.Register(s, deal(service, sane))
		var inputs []int
		simtest.Stub(s, machine, "charge", func(_ context.Context, call simtest.Call[int, int]) (int, error) {
			amount, ok := simtest.Item[int](call)
			require.True(s, ok)
			inputs = append(inputs, amount)
			return amount, nil
		})
		run := machine.Start(10)
		simtest.Send(run, paid, 50)
		_, err := run.Await()
		require.NoError(s, err)
		require.ElementsMatch(s, []int{10, 11, 12, 50}, inputs)
		require.Empty(s, bank.charges)
	})
}

// A handler that is not deterministic is found, and named.
func TestHandlersThatAreNotDeterministicAreNamed(t *testing.T) {
	t.Parallel()
	calls := 0
	for name, c := range map[string]struct {
		odd   func(handler string, a *dealt)
		named string
	}{
		"the clock": {func(handler string, a *dealt) {
			if handler == "start" {
				time.Sleep(time.Nanosecond)
				a.State.Note = time.Now().String()
			}
		}, "OnStart of machine"},
		"a counter": {func(handler string, a *dealt) {
			if handler == "signal" {
				calls++
				a.State.Window += strings.Repeat(" ", calls)
			}
		}, `OnSignal of "paid" of machine`},
		"the order of a map": {func(handler string, a *dealt) {
			if handler != "completed" {
				return
			}
			letters := map[rune]bool{}
			for _, letter := range "abcdefghijklmnopqrstuvwxyz" {
				letters[letter] = true
			}
			a.State.Note = ""
			for letter := range letters {
				a.State.Note += string(letter)
			}
		}, `OnCompleted of "charge#`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := simtest.Find(t, simtest.Options{Seeds: 1, Faults: simtest.None()}, func(s *simtest.Sim) {
				service, _ := newBank(s)
				run := simtest.Register(s, deal(service, c.odd)).Start(10)
				simtest.Send(run, paid, 50)
				_, _ = run.Await()
			})
			require.NotNil(t, failure)
			require.Equal(t, "handlers are deterministic", failure.Promise)
			require.Contains(t, failure.Text, c.named)
		})
	}
}
