package main

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
)

// Order is what a caller sends.
type Order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"` // cents
}

// Orders charges an order, and ships it once it is paid.
var Orders = troupe.Define("orders", func(b *troupe.Builder[Order]) troupe.StepRef[string] {
	paid := troupe.Step0(b, "charge", charge, troupe.Retry{Attempts: 5, First: 100 * time.Millisecond})
	return troupe.Step1(b, "ship", ship, paid)
})

func charge(_ context.Context, order Order) (string, error) {
	if order.Amount <= 0 {
		return "", troupe.Terminal(troupe.Class("bad_amount", fmt.Errorf("the amount is %d: an order costs something", order.Amount)))
	}
	return "paid " + order.ID, nil
}

func ship(_ context.Context, _ Order, paid string) (string, error) { return paid + ", shipped", nil }
