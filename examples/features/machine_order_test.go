package features_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
	"github.com/troupe-dev/troupe/statemachine"
)

// purchase is what a customer orders.
type purchase struct {
	ID    string
	Cents int
}

// phase is how far an order has come.
type phase string

const (
	phaseCharging  phase = "charging"
	phaseWindow    phase = "in the fraud window"
	phaseShipping  phase = "shipping"
	phaseRefunding phase = "refunding"
)

// sale is what the machine of an order remembers.
type sale struct {
	Purchase purchase
	Phase    phase
	Payment  string // what the payment service calls it
	Window   string // the timer of the fraud window
	Canceled bool   // while it was charged
}

// shop does what takes time. Each of its methods honours the key of the activity.
type shop interface {
	charge(ctx context.Context, p purchase) (payment string, err error)
	refund(ctx context.Context, payment string) error
	ship(ctx context.Context, p purchase) error
}

// regret is the signal with which a customer cancels an order, and says why.
var regret = troupe.NewSignal[string]("regret")

// sales charges an order and ships it half an hour later. Until then the customer may cancel it,
// and has the money back; after that it is too late.
func sales(shop shop) *statemachine.Machine[purchase, sale, string] {
	type activation = statemachine.Activation[sale, string]
	return statemachine.Define("sales", func(m *statemachine.Builder[purchase, sale, string]) {
		charge := statemachine.Activity(m, "charge", shop.charge, troupe.Retry{Attempts: 50, Never: []string{"declined"}})
		refund := statemachine.Activity(m, "refund", done(shop.refund), troupe.Retry{Attempts: 50})
		ship := statemachine.Activity(m, "ship", done(shop.ship), troupe.Retry{Attempts: 50})
		window := m.Timer("window")

		giveBack := func(a *activation) {
			a.State.Phase = phaseRefunding
			refund.Start(a, a.State.Payment)
		}

		m.OnStart(func(a *activation, in purchase) {
			a.State = sale{Purchase: in, Phase: phaseCharging}
			charge.Start(a, in)
		})
		statemachine.OnCompleted(m, charge, func(a *activation, payment string) {
			a.State.Payment = payment
			if a.State.Canceled {
				giveBack(a)
				return
			}
			a.State.Phase = phaseWindow
			a.State.Window = window.Start(a, 30*time.Minute)
		})
		m.OnTimer(window, func(a *activation) {
			a.State.Phase = phaseShipping
			ship.Start(a, a.State.Purchase)
		})

		cancel := func(a *activation, _ string) {
			switch a.State.Phase {
			case phaseCharging:
				a.State.Canceled = true
			case phaseWindow:
				a.Cancel(a.State.Window) // it is not heard of any more, even if it has just fired
				giveBack(a)
			case phaseShipping, phaseRefunding: // too late, or done already
			}
		}
		statemachine.OnSignal(m, regret, cancel)
		m.OnCancel(24*time.Hour, cancel) // of the run, by an operator

		m.OnFailed(charge, func(a *activation, _ *troupe.StepError) { a.Complete("not paid") })
		m.OnFailed(ship, func(a *activation, _ *troupe.StepError) { giveBack(a) })
		statemachine.OnCompleted(m, ship, func(a *activation, _ nothing) { a.Complete("shipped") })
		statemachine.OnCompleted(m, refund, func(a *activation, _ nothing) { a.Complete("refunded") })
	})
}

// nothing is the result of an activity that has none.
type nothing struct{}

// done makes an activity of a function that returns nothing but an error.
func done[In any](fn func(ctx context.Context, in In) error) func(context.Context, In) (nothing, error) {
	return func(ctx context.Context, in In) (nothing, error) { return nothing{}, fn(ctx, in) }
}

// counterShop notes what it does.
type counterShop struct {
	ledger[string]
	soldOut  bool
	declines bool
}

func (s *counterShop) charge(_ context.Context, p purchase) (string, error) {
	if s.declines {
		return "", troupe.Class("declined", errors.New("no funds"))
	}
	s.add("charged " + p.ID)
	time.Sleep(time.Second)
	return "payment of " + p.ID, nil
}

func (s *counterShop) refund(_ context.Context, payment string) error {
	s.add("refunded " + payment)
	return nil
}

func (s *counterShop) ship(_ context.Context, p purchase) error {
	if s.soldOut {
		return troupe.Terminal(errors.New("sold out"))
	}
	time.Sleep(time.Minute)
	s.add("shipped " + p.ID)
	return nil
}

// An order is shipped when the fraud window is over, unless the customer cancels it before.
func TestAnOrderMachine(t *testing.T) {
	for name, test := range map[string]struct {
		shop   *counterShop
		cancel time.Duration // after this time; 0: never
		ends   string
		did    []string
	}{
		"not canceled":                {&counterShop{}, 0, "shipped", []string{"charged o-1", "shipped o-1"}},
		"canceled while it is paid":   {&counterShop{}, time.Second / 2, "refunded", []string{"charged o-1", "refunded payment of o-1"}},
		"canceled inside the window":  {&counterShop{}, 29 * time.Minute, "refunded", []string{"charged o-1", "refunded payment of o-1"}},
		"canceled outside the window": {&counterShop{}, 31 * time.Minute, "shipped", []string{"charged o-1", "shipped o-1"}},
		"sold out":                    {&counterShop{soldOut: true}, 0, "refunded", []string{"charged o-1", "refunded payment of o-1"}},
		"declined":                    {&counterShop{declines: true}, 0, "not paid", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, troupe.Config{}, sales(test.shop), func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[purchase, string]) {
				run, err := handle.RunNoWait(t.Context(), purchase{"o-1", 4200}, troupe.Key("o-1"))
				require.NoError(t, err)
				if test.cancel > 0 {
					time.Sleep(test.cancel)
					require.NoError(t, regret.Send(t.Context(), handle.ByKey("", "o-1"), "found it cheaper"))
				}
				ends, err := run.Await(t.Context())
				require.NoError(t, err)
				require.Equal(t, test.ends, ends)
				require.Equal(t, test.did, test.shop.all())
			})
		})
	}
}

// The state says how far an order has come. A cancel of the run, such as an operator's, is heard by
// the machine, too: the money goes back before the run ends.
func TestAnOrderMachineThatAnOperatorCancels(t *testing.T) {
	shop := &counterShop{}
	machine := sales(shop)
	inMemory(t, troupe.Config{}, machine, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[purchase, string]) {
		run, err := handle.RunNoWait(t.Context(), purchase{"o-1", 4200})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		now, err := machine.State(t.Context(), run)
		require.NoError(t, err)
		require.Equal(t, phaseWindow, now.Phase)
		require.Equal(t, "payment of o-1", now.Payment)

		require.NoError(t, run.Cancel(t.Context(), "looks like fraud"))
		ends, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "refunded", ends)
		require.Equal(t, []string{"charged o-1", "refunded payment of o-1"}, shop.all())
	})
}

// A machine is tested without an engine: the test delivers what happens, in any order that it likes.
func TestAnOrderMachineWithoutAnEngine(t *testing.T) {
	t.Parallel()
	paid := func() *statemachine.Test[sale, string] {
		test := sales(&counterShop{}).Test(purchase{"o-1", 4200})
		require.Equal(t, "charge#1", test.Open()[0].ID)
		test.Complete("charge#1", "p-1")
		require.Equal(t, test.Now().Add(30*time.Minute), test.Open()[0].At)
		return test
	}

	inTime := paid()
	inTime.Advance(29 * time.Minute)
	statemachine.SendTo(inTime, regret, "found it cheaper")
	require.Equal(t, []string{"window#2"}, inTime.Canceled())
	require.Equal(t, "p-1", inTime.Started()[0].Input)
	inTime.Complete("refund#3", nothing{})
	ends, err := inTime.Result()
	require.NoError(t, err)
	require.Equal(t, "refunded", ends)

	late := paid()
	late.Advance(30 * time.Minute)
	statemachine.SendTo(late, regret, "found it cheaper")
	require.Empty(t, late.Canceled())
	require.Equal(t, phaseShipping, late.State().Phase)
	late.Fail("ship#3", errors.New("sold out"))
	require.Equal(t, "refund", late.Started()[0].Step)
}

// books are what the shop of a simulation has done, under the keys of its activities.
type books struct{ charged, refunded, shipped map[string]string }

// simShop is a shop behind a network that loses answers. It honours keys.
type simShop struct{ service *simtest.Service[books] }

func (s simShop) note(ctx context.Context, what string, in func(*books) map[string]string) error {
	key := troupe.Task(ctx).IdempotencyKey
	return s.service.Do(ctx, func(b *books) error {
		in(b)[key] = what
		return nil
	})
}

func (s simShop) charge(ctx context.Context, p purchase) (string, error) {
	return "payment of " + p.ID, s.note(ctx, p.ID, func(b *books) map[string]string { return b.charged })
}

func (s simShop) refund(ctx context.Context, payment string) error {
	return s.note(ctx, payment, func(b *books) map[string]string { return b.refunded })
}

func (s simShop) ship(ctx context.Context, p purchase) error {
	return s.note(ctx, p.ID, func(b *books) map[string]string { return b.shipped })
}

// The same on clusters that crash. The customer cancels at any time, often in the very instant in
// which the window ends. Whatever happens, no order is both shipped and refunded.
func TestAnOrderMachineUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		state := &books{map[string]string{}, map[string]string{}, map[string]string{}}
		w := simtest.Register(s, sales(simShop{simtest.NewService(s, state)}))
		run := w.Start(purchase{"o-1", 4200})
		minutes := []int{0, 10, 30, 30, 30, 50}[s.Rand().IntN(6)]
		s.Advance(time.Duration(minutes) * time.Minute)
		if err := simtest.TrySend(run, regret, "found it cheaper"); err != nil {
			require.ErrorIs(s, err, troupe.ErrRunEnded)
		}
		ends, err := run.Await()
		require.NoError(s, err)
		require.Len(s, state.charged, 1)
		require.Len(s, state.shipped, map[string]int{"shipped": 1}[ends])
		require.Len(s, state.refunded, map[string]int{"refunded": 1}[ends])
		s.Sometimes("it was in time", ends == "refunded")
		s.Sometimes("it was too late", ends == "shipped")
	})
}
