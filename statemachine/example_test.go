package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

type Order struct {
	ID     string
	Amount int
}

type Receipt struct {
	ID    string
	Notes []string
}

type OrderState struct {
	Order  Order
	Window string
	Notes  []string
}

var Note = troupe.NewSignal[string]("note")

func Charge(_ context.Context, order Order) (string, error) { return "receipt-" + order.ID, nil }

// Orders waits half an hour for a change of mind, and charges then.
var Orders = statemachine.Define("orders", func(m *statemachine.Builder[Order, OrderState, Receipt]) {
	type activation = statemachine.Activation[OrderState, Receipt]
	charge := statemachine.Activity(m, "charge", Charge, troupe.AttemptTimeout(time.Minute))
	window := m.Timer("window")

	m.OnStart(func(a *activation, order Order) {
		a.State = OrderState{Order: order, Window: window.Start(a, 30*time.Minute)}
	})
	m.OnTimer(window, func(a *activation) { charge.Start(a, a.State.Order) })
	statemachine.OnSignal(m, Note, func(a *activation, text string) { a.State.Notes = append(a.State.Notes, text) })
	statemachine.OnCompleted(m, charge, func(a *activation, id string) {
		a.Complete(Receipt{ID: id, Notes: a.State.Notes})
	})
	m.OnCancel(time.Hour, func(a *activation, reason string) {
		a.Cancel(a.State.Window)
		a.Fail(troupe.Class("withdrawn", errors.New(reason)))
	})
})

// A machine is registered and triggered as any workflow is.
func ExampleDefine() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	orders, err := troupe.Register(engine, Orders)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	run, err := orders.RunNoWait(ctx, Order{ID: "o-17", Amount: 30})
	check(err)
	check(Note.Send(ctx, run, "ring twice"))
	check(run.Cancel(ctx, "changed my mind"))
	_, err = run.Await(ctx)
	var failed *troupe.RunError
	fmt.Println(errors.As(err, &failed), failed.Class, failed.Text)
	// Output: true withdrawn changed my mind
}

// A test needs no engine: it says what happens, and looks at what the machine makes of it. No time
// passes but that of its own clock.
func ExampleMachine_Test() {
	t := Orders.Test(Order{ID: "o-17", Amount: 30})
	fmt.Println(t.Open()[0].ID)

	statemachine.SendTo(t, Note, "ring twice")
	t.Advance(29 * time.Minute)
	fmt.Println(t.State().Notes, len(t.Open()))

	t.Advance(time.Minute)
	charge := t.Started()[0]
	fmt.Println(charge.ID, charge.Input)

	t.Complete(charge.ID, "receipt-o-17")
	fmt.Println(t.Result())
	// Output:
	// window#1
	// [ring twice] 1
	// charge#2 {o-17 30}
	// {receipt-o-17 [ring twice]} <nil>
}

// Failures and cancels are events as all others.
func ExampleTest_Fail() {
	t := Orders.Test(Order{ID: "o-17"})
	t.Advance(30 * time.Minute)
	t.Fail("charge#2", troupe.Class("declined", errors.New("card declined")))
	fmt.Println(t.Err())

	t = Orders.Test(Order{ID: "o-18"})
	t.Cancel("changed my mind")
	fmt.Println(t.Err())
	fmt.Println(t.Canceled())
	// Output:
	// the machine ended failed (activity_failed): step "charge#2" failed (declined): card declined
	// the machine ended failed (withdrawn): changed my mind
	// [window#1]
}

// The entries that a run has handled give its state again. A test of a change of the machine reads
// what troupe runs replay has written of runs in production.
func ExampleMachine_Replay() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	orders, err := troupe.Register(engine, Orders)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	run, err := orders.RunNoWait(ctx, Order{ID: "o-17"})
	check(err)
	check(Note.Send(ctx, run, "ring twice"))
	for {
		state, err := Orders.State(ctx, run)
		if err == nil && len(state.Notes) == 1 {
			break
		}
	}
	fmt.Println(Orders.Replay(ctx, run))
	// Output: <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
