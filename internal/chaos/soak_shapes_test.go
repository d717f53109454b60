package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe"
)

// canceledNap is the sleep of a run that is to be canceled. It ends by itself
// if the caller dies before it asks.
const canceledNap = 5 * time.Second

var errDeclined = errors.New("the card was declined")

// soakShapes are the workflows that only a soak has. Like all others they give
// their input back.
func (p *podProcess) soakShapes() []*troupe.Workflow[string, string] {
	return []*troupe.Workflow[string, string]{p.single(), p.orders(), p.bulk(), p.canceled()}
}

func (p *podProcess) single() *troupe.Workflow[string, string] {
	return troupe.Define("single", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", p.first)
	})
}

// orders has the shape of examples/orders: two branches that merge, a payment
// that may have to be tried again or is declined, a sleep, and a handler of
// failures.
func (p *podProcess) orders() *troupe.Workflow[string, string] {
	return troupe.Define("orders", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		validated := troupe.Step0(b, "validate", p.first)
		valid, invalid := troupe.If(validated, func(in string) bool { return field(in, 2) == string(fateFailed) || field(in, 4) != "0" })
		paid := troupe.Step1(b, "charge", p.charge, validated, valid, troupe.Retry{Attempts: 5, First: 100 * time.Millisecond})
		window := troupe.Sleep(b, "nap", napTime, troupe.After(paid))
		parcel := troupe.Step1(b, "prepare-shipment", p.next, paid)
		shipment := troupe.Step1(b, "ship", p.next, parcel, troupe.After(window))
		rejection := troupe.Step1(b, "reject", p.next, validated, invalid)
		b.OnFailure(func(ctx context.Context, _ string, _ []*troupe.StepError) error {
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), "handler")
			p.ledger.note("done", task.Run.String(), "handler")
			return nil
		})
		return troupe.Step2(b, "finalize", func(ctx context.Context, in string, shipped, rejected troupe.Opt[string]) (string, error) {
			if shipped.Or("") == rejected.Or("") {
				return "", errors.New("both branches were taken, or none")
			}
			return p.effect(ctx, in)
		}, troupe.Maybe(shipment), troupe.Maybe(rejection))
	})
}

// charge declines some cards for good, and some at the first attempt.
func (p *podProcess) charge(ctx context.Context, in, _ string) (string, error) {
	task := troupe.Task(ctx)
	if field(in, 2) == string(fateFailed) {
		return "", troupe.Terminal(errDeclined)
	}
	if task.Attempt == 1 && hashOf(task.IdempotencyKey)%4 == 0 {
		return "", errFlaky
	}
	return p.effect(ctx, in)
}

// bulk carries its payload through three steps.
func (p *podProcess) bulk() *troupe.Workflow[string, string] {
	return troupe.Define("bulk", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step1(b, "c", p.next, troupe.Step1(b, "b", p.next, troupe.Step0(b, "a", p.first)))
	})
}

// canceled is canceled by its caller somewhere between its first step and the
// end of its sleep.
func (p *podProcess) canceled() *troupe.Workflow[string, string] {
	return troupe.Define("canceled", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), task.Step)
			if err := pause(ctx, 150*time.Millisecond); err != nil {
				p.ledger.note("cut", task.Run.String(), task.Step)
				return "", err
			}
			p.ledger.note("done", task.Run.String(), task.Step)
			return in, nil
		})
		nap := troupe.Sleep(b, "nap", canceledNap, troupe.After(a))
		return troupe.Step1(b, "b", p.next, a, troupe.After(nap))
	})
}
