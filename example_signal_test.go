package troupe_test

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
)

type Approval struct{ By string }

var Approved = troupe.NewSignal[Approval]("approved")

var Refunds = troupe.Define("refunds", func(b *troupe.Builder[Order]) troupe.StepRef[string] {
	approval := troupe.WaitSignal(b, "approve", Approved, troupe.SkipAfter(72*time.Hour))
	return troupe.Step1(b, "refund", refund, troupe.Maybe(approval), troupe.RunIfAllSkipped())
})

func refund(_ context.Context, order Order, approval troupe.Opt[Approval]) (string, error) {
	if a, ok := approval.Value(); ok {
		return fmt.Sprintf("%s refunded, approved by %s", order.ID, a.By), nil
	}
	return order.ID + " escalated", nil
}

// Send reaches the run that was triggered with the key, from any process that has the workflow.
func approve(ctx context.Context, refunds *troupe.Handle[Order, string], orderID, by string) error {
	return Approved.Send(ctx, refunds.ByKey("", orderID), Approval{By: by})
}

// A step waits for a signal without a slot or a process, for days if need be.
func ExampleWaitSignal() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	refunds, err := troupe.Register(engine, Refunds)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	run, err := refunds.RunNoWait(ctx, Order{ID: "o-17"}, troupe.Key("o-17"))
	check(err)
	check(approve(ctx, refunds, "o-17", "ann"))
	result, err := run.Await(ctx)
	check(err)
	fmt.Println(result)
	// Output: o-17 refunded, approved by ann
}

// A signal that may come before its run brings the run with it: whichever is first begins it, and
// a delivery that is repeated changes nothing.
func ExampleHandle_TriggerWithSignal() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	refunds, err := troupe.Register(engine, Refunds)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	for range 2 { // a webhook that is delivered twice
		message := Approved.With(Approval{By: "ann"}, troupe.SignalID("delivery-9"))
		run, err := refunds.TriggerWithSignal(ctx, Order{ID: "o-18"}, message, troupe.Key("o-18"))
		check(err)
		result, err := run.Await(ctx)
		check(err)
		fmt.Println(result, run.Existing())
	}
	// Output:
	// o-18 refunded, approved by ann false
	// o-18 refunded, approved by ann true
}
