package orders

import (
	"context"
	"log/slog"

	example "github.com/troupe-dev/troupe/examples/orders"
)

// clerk is the world around the orders: it says what would be done. References
// follow from what they are for, so that doing something twice gives the same.
type clerk struct{ log *slog.Logger }

var _ example.Shop = clerk{}

// Charge implements the example's Shop.
func (c clerk) Charge(ctx context.Context, key string, cents int) (example.Payment, error) {
	c.log.InfoContext(ctx, "charge", slog.String("key", key), slog.Int("cents", cents))
	return example.Payment{ID: "payment-" + key}, nil
}

// Pack implements the example's Shop.
func (c clerk) Pack(ctx context.Context, order string) (example.Parcel, error) {
	c.log.InfoContext(ctx, "pack", slog.String("order", order))
	return example.Parcel{Label: "parcel-" + order}, nil
}

// Ship implements the example's Shop.
func (c clerk) Ship(ctx context.Context, parcel example.Parcel) (example.Shipment, error) {
	c.log.InfoContext(ctx, "ship", slog.String("label", parcel.Label))
	return example.Shipment{Tracking: "track-" + parcel.Label}, nil
}

// TellAdmin implements the example's Shop.
func (c clerk) TellAdmin(ctx context.Context, text string) error {
	c.log.WarnContext(ctx, "an order has failed", slog.String("text", text))
	return nil
}
