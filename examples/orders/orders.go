package orders

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
)

// What flows between the steps.
type (
	// Order is the input of a run.
	Order struct {
		ID    string
		Cents int
	}
	// Verdict is what validating an order found.
	Verdict struct {
		Valid  bool
		Reason string
	}
	// Payment is a charge that went through.
	Payment struct{ ID string }
	// Parcel is packed and waits for its carrier.
	Parcel struct{ Label string }
	// Shipment is under way.
	Shipment struct{ Tracking string }
	// Rejection is what the customer was told instead.
	Rejection struct{ Reason string }
	// Receipt is the output of a run.
	Receipt struct{ Order, Text string }
)

// Shop is what the steps call: the outside world of the workflow.
type Shop interface {
	Charge(ctx context.Context, key string, cents int) (Payment, error)
	Pack(ctx context.Context, order string) (Parcel, error)
	Ship(ctx context.Context, parcel Parcel) (Shipment, error)
	TellAdmin(ctx context.Context, text string) error
}

// FraudWindow is how long a charged order waits before it is shipped.
const FraudWindow = 24 * time.Hour

// Workflow declares the order workflow of a shop.
func Workflow(shop Shop) *troupe.Workflow[Order, Receipt] {
	s := steps{shop}
	return troupe.Define("order-processing", func(b *troupe.Builder[Order]) troupe.StepRef[Receipt] {
		verdict := troupe.Step0(b, "validate", s.validate)
		valid, invalid := troupe.If(verdict, func(v Verdict) bool { return v.Valid })

		payment := troupe.Step1(b, "charge", s.charge, verdict, valid,
			troupe.Retry{Attempts: 5, First: 200 * time.Millisecond})
		window := troupe.Sleep(b, "fraud-window", FraudWindow, troupe.After(payment))
		parcel := troupe.Step1(b, "prepare-shipment", s.prepare, payment)
		shipment := troupe.Step1(b, "ship", s.ship, parcel, troupe.After(window))

		rejection := troupe.Step1(b, "reject", s.reject, verdict, invalid)

		b.OnFailure(s.alarm)
		return troupe.Step2(b, "finalize", s.finalize, troupe.Maybe(shipment), troupe.Maybe(rejection))
	})
}

// steps are the step functions; what they call is a field, not a global.
type steps struct{ shop Shop }

func (steps) validate(_ context.Context, order Order) (Verdict, error) {
	if order.Cents <= 0 {
		return Verdict{Reason: "nothing to pay"}, nil
	}
	return Verdict{Valid: true}, nil
}

// charge may be executed twice if its process dies. The key is the same both
// times, so the shop takes the money once.
func (s steps) charge(ctx context.Context, order Order, _ Verdict) (Payment, error) {
	return s.shop.Charge(ctx, troupe.Task(ctx).IdempotencyKey, order.Cents)
}

func (s steps) prepare(ctx context.Context, order Order, _ Payment) (Parcel, error) {
	return s.shop.Pack(ctx, order.ID)
}

func (s steps) ship(ctx context.Context, _ Order, parcel Parcel) (Shipment, error) {
	return s.shop.Ship(ctx, parcel)
}

func (steps) reject(_ context.Context, _ Order, verdict Verdict) (Rejection, error) {
	return Rejection{Reason: verdict.Reason}, nil
}

// finalize is where the branches merge: one of the two was skipped.
func (steps) finalize(_ context.Context, order Order, shipped troupe.Opt[Shipment], rejected troupe.Opt[Rejection]) (Receipt, error) {
	if shipment, ok := shipped.Value(); ok {
		return Receipt{order.ID, "shipped as " + shipment.Tracking}, nil
	}
	return Receipt{order.ID, "rejected: " + rejected.Or(Rejection{}).Reason}, nil
}

// alarm runs once a run has failed and everything else of it has ended.
func (s steps) alarm(ctx context.Context, order Order, failed []*troupe.StepError) error {
	return s.shop.TellAdmin(ctx, fmt.Sprintf("order %s: %v", order.ID, failed[0]))
}
