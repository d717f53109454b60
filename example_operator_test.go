package troupe_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
)

// A tool without an engine triggers a run of what pods have registered, and cancels it.
func ExampleOpenOperator() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("TROUPE_DATABASE_URL"))
	check(err)
	defer pool.Close()
	operator, err := troupe.OpenOperator(ctx, pool, "troupe", "night shift")
	check(err)
	defer func() { check(operator.Close()) }()

	triggered, err := operator.Trigger(ctx, "parcels", "", []byte(`"p-1"`), troupe.Tenant("acme"), troupe.Key("p-1"))
	check(err)
	outcome, err := operator.Cancel(ctx, "acme", triggered.Run, troupe.CancelOptions{Reason: "sent twice"})
	check(err)
	fmt.Println(outcome.State)
}
