package statemachine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

// shop is a machine with one of everything.
type shop struct {
	Log     []string
	Charge  string
	Window  string
	Ship    string
	Started time.Time
}

var (
	noted   = troupe.NewSignal[string]("noted")
	unheard = troupe.NewSignal[string]("unheard")

	errDeclined = troupe.Class("declined", errors.New("card declined"))
)

func charge(context.Context, int) (string, error) { return "", nil }

var labels = troupe.Define("labels", func(b *troupe.Builder[string]) troupe.StepRef[[]string] {
	return troupe.Step0(b, "print", func(context.Context, string) ([]string, error) { return nil, nil })
})

type activation = statemachine.Activation[shop, string]

func newShop() *statemachine.Machine[int, shop, string] {
	return statemachine.Define("shop", func(m *statemachine.Builder[int, shop, string]) {
		charges := statemachine.Activity(m, "charge", charge)
		window := m.Timer("window")
		label := statemachine.Child(m, "label", labels)
		note := func(a *activation, text string) { a.State.Log = append(a.State.Log, text) }
		m.OnStart(func(a *activation, in int) {
			a.State.Started, a.State.Charge, a.State.Window = a.Now(), charges.Start(a, in), window.Start(a, time.Hour)
		})
		statemachine.OnCompleted(m, charges, func(a *activation, out string) {
			note(a, a.ID+" gave "+out)
			a.State.Ship = label.Start(a, out)
		})
		m.OnFailed(charges, func(a *activation, why *troupe.StepError) {
			note(a, a.ID+" failed: "+why.Class+" "+why.Text)
			if why.Class == "declined" {
				a.Fail(errDeclined)
			}
		})
		statemachine.OnCompleted(m, label, func(a *activation, out []string) { a.Complete(out[0]) })
		m.OnTimer(window, func(a *activation) {
			note(a, a.ID+" fired")
			window.Start(a, time.Hour)
		})
		statemachine.OnSignal(m, noted, func(a *activation, text string) {
			note(a, text)
			switch text {
			case "cancel":
				a.Cancel(a.State.Charge)
				a.Cancel(a.State.Window)
			case "both":
				a.Cancel(window.Start(a, time.Second))
			case "many":
				for range 2_000 {
					window.Start(a, time.Second)
				}
			}
		})
		m.OnCancel(time.Minute, func(a *activation, reason string) { note(a, "asked: "+reason) })
	})
}

func TestTestDeliversEachKindOfEvent(t *testing.T) {
	t.Parallel()
	m := newShop().Test(7)
	require.Equal(t, []statemachine.Action{
		{ID: "charge#1", Step: "charge", Kind: "activity", Input: 7},
		{ID: "window#2", Step: "window", Kind: "timer", At: m.Now().Add(time.Hour)},
	}, m.Started())
	require.Equal(t, m.Started(), m.Open())
	require.Equal(t, m.Now(), m.State().Started)
	_, err := m.Result()
	require.ErrorIs(t, err, statemachine.ErrOpen)

	statemachine.SendTo(m, noted, "hello")
	require.Empty(t, m.Started())
	m.Advance(59 * time.Minute)
	require.Equal(t, []string{"hello"}, m.State().Log)
	m.Advance(2 * time.Hour)
	require.Equal(t, []string{"hello", "window#2 fired", "window#3 fired"}, m.State().Log)
	require.Len(t, m.Started(), 2)
	m.Fire("window#4")
	require.Equal(t, m.State().Started.Add(3*time.Hour), m.Now())

	m.Complete("charge#1", "r-1")
	require.Equal(t, []statemachine.Action{{ID: "label#6", Step: "label", Kind: "child", Input: "r-1"}}, m.Started())
	m.Cancel("closing")
	require.Equal(t, "asked: closing", m.State().Log[len(m.State().Log)-1])
	require.False(t, m.Ended())
	m.Complete("label#6", []string{"done"})
	out, err := m.Result()
	require.NoError(t, err)
	require.Equal(t, "done", out)
	require.True(t, m.Ended())
	require.Equal(t, []string{"window#5"}, m.Canceled())
	require.Empty(t, m.Open())
}

func TestTestOfWhatFails(t *testing.T) {
	t.Parallel()
	m := newShop().Test(1)
	m.Fail("charge#1", errors.New("away"))
	require.Equal(t, []string{"charge#1 failed:  away"}, m.State().Log)

	m = newShop().Test(1)
	m.Fail("charge#1", errDeclined)
	require.ErrorIs(t, m.Err(), errDeclined)
	require.ErrorIs(t, m.Err(), troupe.ErrRunFailed)
	require.EqualError(t, m.Err(), "the machine ended failed (declined): card declined")
	require.Empty(t, m.State().Log, "nothing of that activation is kept")
	require.Equal(t, []string{"window#2"}, m.Canceled())

	m = newShop().Test(1)
	m.Complete("charge#1", "r")
	m.Fail("label#3", errors.New("paper jam"))
	var end *statemachine.EndError
	require.ErrorAs(t, m.Err(), &end)
	require.Equal(t, "activity_failed", end.Class)
	require.ErrorContains(t, m.Err(), "paper jam")

	m = newShop().Test(1)
	statemachine.SendTo(m, noted, "many")
	require.ErrorAs(t, m.Err(), &end)
	require.Equal(t, "too_many_actions", end.Class)
}

func TestTestOfCancels(t *testing.T) {
	t.Parallel()
	m := newShop().Test(1)
	statemachine.SendTo(m, noted, "cancel")
	require.Equal(t, []string{"charge#1", "window#2"}, m.Canceled())
	require.Empty(t, m.Open())
	m.Advance(24 * time.Hour)
	require.Equal(t, []string{"cancel"}, m.State().Log, "a timer that was canceled does not fire")
	m.Complete("charge#1", "faster")
	require.Equal(t, "charge#1 gave faster", m.State().Log[1])

	m = newShop().Test(1)
	statemachine.SendTo(m, noted, "both")
	require.Equal(t, []string{"window#3"}, m.Canceled())
	require.Len(t, m.Open(), 2)

	m = newShop().Test(1)
	m.Cancel("first")
	m.Cancel("second")
	require.EqualError(t, m.Err(), "the machine ended canceled: second")
	require.ErrorIs(t, m.Err(), troupe.ErrRunCanceled)

	m = newShop().Test(1)
	m.Cancel("first")
	m.Advance(time.Hour)
	require.ErrorContains(t, m.Err(), "did not end within 1m0s of the cancel")
	require.Equal(t, []string{"asked: first"}, m.State().Log, "the window would have fired later")

	m2 := order(nil2).Test(1)
	m2.Cancel("at once")
	require.ErrorIs(t, m2.Err(), troupe.ErrRunCanceled)
}

// nil2 is an activity that is not called.
func nil2(context.Context, int) (string, error) { panic("a test calls no activity") }

func TestTestRefusesWhatATestGetsWrong(t *testing.T) {
	t.Parallel()
	for want, misuse := range map[string]func(m *statemachine.Test[shop, string]){
		`Complete("charge#9"): nothing is open under this id: open are charge#1, window#2`: func(m *statemachine.Test[shop, string]) { m.Complete("charge#9", "x") },
		`Complete("charge#1"): charge gives a value of type string, and the output is of type int`: func(m *statemachine.Test[shop, string]) {
			m.Complete("charge#1", 3)
		},
		`Complete("charge#1"): charge gives a value of type string, and the output is of type <nil>`: func(m *statemachine.Test[shop, string]) {
			m.Complete("charge#1", nil)
		},
		`Complete("window#2"): it is a timer: use Fire or Advance`:                             func(m *statemachine.Test[shop, string]) { m.Complete("window#2", nil) },
		`Fire("charge#1"): it is no timer: use Complete or Fail`:                               func(m *statemachine.Test[shop, string]) { m.Fire("charge#1") },
		`Fail("charge#1"): the error is nil`:                                                   func(m *statemachine.Test[shop, string]) { m.Fail("charge#1", nil) },
		`Advance(-1s): the clock does not go back`:                                             func(m *statemachine.Test[shop, string]) { m.Advance(-time.Second) },
		`SendTo of "unheard": the machine does not hear this signal: declare it with OnSignal`: func(m *statemachine.Test[shop, string]) { statemachine.SendTo(m, unheard, "x") },
		`SendTo of "noted": the machine hears values of type string, and this is one of type int`: func(m *statemachine.Test[shop, string]) {
			statemachine.SendTo(m, troupe.NewSignal[int]("noted"), 1)
		},
		`Complete("charge#1"): the machine has ended: the machine ended canceled: x`: func(m *statemachine.Test[shop, string]) {
			m.Cancel("")
			m.Cancel("x")
			m.Complete("charge#1", "late")
		},
	} {
		m := newShop().Test(1)
		require.PanicsWithValue(t, "statemachine: "+want, func() { misuse(m) }, want)
	}
	defer func() {
		require.Contains(t, recover(), `statemachine: step "machine": OnStart: the machine has no OnStart`)
	}()
	statemachine.Define("wrong", func(*statemachine.Builder[int, int, int]) {}).Test(1)
}

func TestTestFindsHandlersThatAreNotDeterministic(t *testing.T) {
	t.Parallel()
	calls := 0
	for want, handle := range map[string]func(a *activation, start func(a *activation)){
		"another state: .Log[0] is \"": func(a *activation, _ func(*activation)) {
			calls++
			a.State.Log = append(a.State.Log, time.Duration(calls).String())
		},
		"different things to start: [window] and []": func(a *activation, start func(*activation)) {
			if calls++; calls%2 == 1 {
				start(a)
			}
		},
		"an end, and none": func(a *activation, _ func(*activation)) {
			if calls++; calls%2 == 1 {
				a.Complete("x")
			}
		},
		"the errors": func(a *activation, _ func(*activation)) {
			calls++
			a.Fail(errors.New(time.Duration(calls).String()))
		},
	} {
		calls = 0
		m := statemachine.Define("moody", func(m *statemachine.Builder[int, shop, string]) {
			window := m.Timer("window")
			m.OnStart(func(*activation, int) {})
			m.OnTimer(window, func(*activation) {})
			statemachine.OnSignal(m, noted, func(a *activation, _ string) {
				handle(a, func(a *activation) { window.Start(a, time.Second) })
			})
		}).Test(1)
		func() {
			defer func() {
				text, _ := recover().(string)
				require.Contains(t, text, `statemachine: OnSignal of "noted" is not deterministic: called twice with the same, it gave `+want)
			}()
			statemachine.SendTo(m, noted, "go")
		}()
	}
}

func TestTestGivesTheSameRandomNumbers(t *testing.T) {
	t.Parallel()
	type activation = statemachine.Activation[[]uint64, int]
	machine := statemachine.Define("dice", func(m *statemachine.Builder[int, []uint64, int]) {
		m.OnStart(func(a *activation, _ int) { a.State = append(a.State, a.Rand().Uint64(), a.Rand().Uint64()) })
		statemachine.OnSignal(m, noted, func(a *activation, _ string) { a.State = append(a.State, a.Rand().Uint64()) })
	})
	one, two := machine.Test(1), machine.Test(1)
	statemachine.SendTo(one, noted, "")
	statemachine.SendTo(two, noted, "")
	require.Equal(t, one.State(), two.State())
	require.Len(t, one.State(), 3)
	require.NotEqual(t, one.State()[0], one.State()[1])
	require.NotEqual(t, one.State()[0], one.State()[2])
}

func TestTestEndsWhatStalls(t *testing.T) {
	t.Parallel()
	type activation = statemachine.Activation[int, int]
	m := statemachine.Define("deaf", func(m *statemachine.Builder[int, int, int]) {
		m.OnStart(func(*activation, int) {})
	}).Test(1)
	var end *statemachine.EndError
	require.ErrorAs(t, m.Err(), &end)
	require.Equal(t, "stalled", end.Class)
}
