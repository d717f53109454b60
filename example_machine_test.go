package troupe_test

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

// Sale is what the machine of a sale remembers.
type Sale struct {
	Order    Order
	Charging bool
}

type activation = statemachine.Activation[Sale, string]

var Withdrawn = troupe.NewSignal[string]("withdrawn")

var Sales = statemachine.Define("sales", func(m *statemachine.Builder[Order, Sale, string]) {
	charging, window := statemachine.Activity(m, "charge", charge), m.Timer("window")
	m.OnStart(func(a *activation, in Order) { a.State.Order = in; window.Start(a, 30*time.Minute) })
	statemachine.OnSignal(m, Withdrawn, func(a *activation, why string) {
		if !a.State.Charging { // otherwise it is too late
			a.Complete("not sold: " + why)
		}
	})
	m.OnTimer(window, func(a *activation) { a.State.Charging = true; charging.Start(a, a.State.Order) })
	statemachine.OnCompleted(m, charging, func(a *activation, p Payment) { a.Complete(p.Reference) })
})

// A machine decides what to do when something happens: here when a timer fires, a signal comes, or
// an activity has ended.
func Example_machine() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	sales, err := troupe.Register(engine, Sales)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	run, err := sales.RunNoWait(ctx, Order{ID: "o-17", Amount: 4200}, troupe.Key("o-17"))
	check(err)
	check(Withdrawn.Send(ctx, sales.ByKey("", "o-17"), "found it cheaper"))
	result, err := run.Await(ctx)
	check(err)
	fmt.Println(result)
	// Output: not sold: found it cheaper
}
