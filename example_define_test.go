package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
)

// What flows through the order workflow.
type (
	OrderInput struct{ ID, Customer string }
	Verdict    struct{ Valid bool }
	Receipt    struct{ Receipt string }
	Parcel     struct{ Label string }
	Shipment   struct{ Tracking string }
	Refusal    struct{ Reason string }
	Summary    struct{ Text string }
)

// IsValid decides which branch an order takes.
func (v Verdict) IsValid() bool { return v.Valid }

// OrderWorkflow charges a valid order, ships it once the 24 hours are over in which
// fraud is usually noticed, and rejects the others. Either way it is
// finalized.
func OrderWorkflow() *troupe.Workflow[OrderInput, Summary] {
	return troupe.Define("order-processing", func(b *troupe.Builder[OrderInput]) troupe.StepRef[Summary] {
		b.OnFailure(notifyAdmin, troupe.Retry{Attempts: 10})

		verdict := troupe.Step0(b, "validate", validateOrder)
		valid, invalid := troupe.If(verdict, Verdict.IsValid)

		payment := troupe.Step1(b, "charge", chargeCard, verdict, valid, troupe.Retry{Attempts: 5})
		refusal := troupe.Step1(b, "reject", rejectOrder, verdict, invalid)

		fraudWindow := troupe.Sleep(b, "fraud-window", 24*time.Hour, troupe.After(payment))
		parcel := troupe.Step1(b, "prepare-shipment", prepareShipment, payment)
		shipment := troupe.Step2(b, "ship", shipOrder, payment, parcel, troupe.After(fraudWindow))

		return troupe.Step2(b, "finalize", finalizeOrder, troupe.Maybe(shipment), troupe.Maybe(refusal))
	})
}

func validateOrder(_ context.Context, o OrderInput) (Verdict, error) {
	return Verdict{Valid: o.Customer != ""}, nil
}

func chargeCard(ctx context.Context, o OrderInput, _ Verdict) (Receipt, error) {
	if o.Customer == "insolvent" {
		return Receipt{}, troupe.Terminal(errors.New("card declined"))
	}
	return Receipt{Receipt: troupe.Task(ctx).IdempotencyKey}, nil
}

func rejectOrder(_ context.Context, o OrderInput, _ Verdict) (Refusal, error) {
	return Refusal{Reason: "order " + o.ID + " names no customer"}, nil
}

func prepareShipment(_ context.Context, o OrderInput, _ Receipt) (Parcel, error) {
	return Parcel{Label: "to " + o.Customer}, nil
}

func shipOrder(_ context.Context, _ OrderInput, _ Receipt, parcel Parcel) (Shipment, error) {
	return Shipment{Tracking: "tracking " + parcel.Label}, nil
}

func finalizeOrder(_ context.Context, _ OrderInput, sent troupe.Opt[Shipment], refused troupe.Opt[Refusal]) (Summary, error) {
	if shipment, ok := sent.Value(); ok {
		return Summary{Text: shipment.Tracking}, nil
	}
	return Summary{Text: refused.Or(Refusal{Reason: "unknown"}).Reason}, nil
}

func notifyAdmin(_ context.Context, _ OrderInput, failed []*troupe.StepError) error {
	if len(failed) == 0 {
		return errors.New("a failed order without a failed step")
	}
	return nil
}

// The order-processing workflow: a branch, a durable wait beside a step, a
// merge, and a handler for failures.
func ExampleDefine() {
	fmt.Println(OrderWorkflow().Name(), OrderWorkflow().Validate())
	// Output: order-processing <nil>
}

// A merge after a branch must expect that one of its parents was skipped. If
// it does not, no run could ever execute it, and Validate says so.
func ExampleWorkflow_Validate() {
	w := troupe.Define("orders", func(b *troupe.Builder[OrderInput]) troupe.StepRef[Receipt] {
		verdict := troupe.Step0(b, "validate", validateOrder)
		valid, invalid := troupe.If(verdict, Verdict.IsValid)
		payment := troupe.Step1(b, "charge", chargeCard, verdict, valid, troupe.Retry{})
		refusal := troupe.Step1(b, "reject", rejectOrder, verdict, invalid)
		return troupe.Step1(b, "finalize", chargeCard, verdict, troupe.After(payment, refusal))
	})
	fmt.Println(w.Validate())
	// Output:
	// 2 problems
	// 	step "charge": retry.attempts: 0 attempts: say how many in all, as in Retry{Attempts: 3}
	// 	step "finalize": parents: unreachable: its parents need both then and otherwise of decision 0, on "validate": hold parents on different branches by Maybe or Settled
}

// A Switch gives each branch an option; steps of one branch share it.
func ExampleSwitch() {
	type Channel string
	w := troupe.Define("notify", func(b *troupe.Builder[OrderInput]) troupe.StepRef[Summary] {
		channel := troupe.Switch(b.Input(), func(o OrderInput) Channel { return Channel(o.Customer) })
		send := func(_ context.Context, o OrderInput) (Summary, error) { return Summary{Text: o.ID}, nil }
		mail := troupe.Step0(b, "mail", send, channel.Case("mail"))
		text := troupe.Step0(b, "text", send, channel.Case("text"))
		letter := troupe.Step0(b, "letter", send, channel.Default())
		return troupe.Step3(b, "sent", firstOf, troupe.Maybe(mail), troupe.Maybe(text), troupe.Maybe(letter))
	})
	fmt.Println(w.Validate())
	// Output: <nil>
}

func firstOf(_ context.Context, _ OrderInput, mail, text, letter troupe.Opt[Summary]) (Summary, error) {
	for _, s := range []troupe.Opt[Summary]{mail, text, letter} {
		if summary, ok := s.Value(); ok {
			return summary, nil
		}
	}
	return Summary{}, nil
}

// StepN takes any number of parents.
func ExampleStepN() {
	w := troupe.Define("basket", func(b *troupe.Builder[[]int]) troupe.StepRef[int] {
		var prices []troupe.StepRef[int]
		for i := range 10 {
			prices = append(prices, troupe.Step0(b, fmt.Sprintf("price-%d", i), func(_ context.Context, basket []int) (int, error) {
				return basket[i], nil
			}))
		}
		return troupe.StepN(b, "total", func(needs *troupe.Needs) func(context.Context, []int, troupe.Values) (int, error) {
			var price []func(troupe.Values) int
			for _, ref := range prices {
				price = append(price, troupe.Need(needs, ref))
			}
			return func(_ context.Context, _ []int, values troupe.Values) (int, error) {
				total := 0
				for _, of := range price {
					total += of(values)
				}
				return total, nil
			}
		})
	})
	fmt.Println(w.Validate())
	// Output: <nil>
}

// Heartbeat stores how far a long step has come, and Progress gives it to the
// next attempt.
func ExampleHeartbeat() {
	copyAll := func(ctx context.Context, files []string) (int, error) {
		done, _ := troupe.Progress[int](ctx)
		for ; done < len(files); done++ {
			if err := troupe.Heartbeat(ctx, done); err != nil {
				return done, err
			}
		}
		return done, nil
	}
	fmt.Println(copyAll(context.Background(), []string{"a", "b"}))
	// Output: 2 <nil>
}

// A step function is a plain function: test it with plain values.
func ExampleSome() {
	fmt.Println(finalizeOrder(context.Background(), OrderInput{}, troupe.Some(Shipment{Tracking: "T1"}), troupe.None[Refusal]()))
	fmt.Println(finalizeOrder(context.Background(), OrderInput{}, troupe.None[Shipment](), troupe.Some(Refusal{Reason: "no"})))
	// Output:
	// {T1} <nil>
	// {no} <nil>
}
