package troupe_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/troupe-dev/troupe"
)

type Order struct {
	ID     string
	Amount int
}

type Payment struct{ Reference string }

func charge(ctx context.Context, order Order) (Payment, error) {
	// The key is the same for every attempt, so that the payment service can tell
	// a repetition from a second payment.
	key := troupe.Task(ctx).IdempotencyKey
	return Payment{Reference: "paid " + order.ID}, pay(ctx, key, order.Amount)
}

func ship(_ context.Context, order Order, payment Payment) (string, error) {
	return fmt.Sprintf("%s, shipped", payment.Reference), nil
}

var Orders = troupe.Define("orders", func(b *troupe.Builder[Order]) troupe.StepRef[string] {
	paid := troupe.Step0(b, "charge", charge, troupe.Retry{Attempts: 5})
	cooled := troupe.Sleep(b, "cool-off", 50*time.Millisecond, troupe.After(paid))
	return troupe.Step1(b, "ship", ship, paid, troupe.After(cooled))
})

// The quick start of the README: on PostgreSQL, New(pool, …) takes the place
// of NewInMemory(…), after Migrate(ctx, pool, …).
func Example_quickstart() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	orders, err := troupe.Register(engine, Orders)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	result, err := orders.Run(ctx, Order{ID: "o-17", Amount: 4200}, troupe.Tenant("acme"))
	check(err)
	fmt.Println(result)
	// Output: paid o-17, shipped
}

func pay(context.Context, string, int) error { return nil }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
