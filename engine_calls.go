package troupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence"
)

// callMax is how long a call waits for the database, whatever the context of its caller
// says.
const callMax = 30 * time.Second

// errCallMax is the error of a call that the database did not answer in time.
var errCallMax = fmt.Errorf("%w: no answer in %v", ErrUnavailable, callMax)

// called makes one call of the embedder. It does nothing if the context has ended,
// ends after callMax, and returns an error that the embedder can act on.
func called[T any](ctx context.Context, do func(ctx context.Context) (T, error)) (T, error) {
	ctx = ofCaller(ctx)
	if ctx.Err() != nil {
		var none T
		return none, endOf(ctx)
	}
	limited, cancel := context.WithTimeoutCause(ctx, callMax, errCallMax)
	defer cancel()
	value, err := do(limited)
	return value, told(ctx, limited, err)
}

// endOf is the error of a context that has ended: its own, and the cause if that says
// more.
func endOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return ctx.Err()
	case errors.Is(cause, ctx.Err()):
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// told turns the error of a call into the embedder's. An error that followed from the
// end of the context is that end, not one of the database. Missing tables are no
// outage: they need a remedy.
func told(ctx, limited context.Context, err error) error {
	var refused *pgconn.PgError
	undecided := errors.Is(err, ErrUnavailable) || errors.Is(err, persistence.ErrConflict) || limited.Err() != nil &&
		(errors.Is(err, context.Cause(limited)) || errors.Is(err, limited.Err()))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, persistence.ErrSchema):
		text := fmt.Errorf("%w: its tables are missing, or are not those of this program: run `troupe migrate up` or migrations.Migrate", migrations.ErrBehind)
		if errors.As(err, &refused) {
			return fmt.Errorf("%w: %w", text, refused)
		}
		return text
	case undecided && ctx.Err() != nil:
		if errors.Is(err, ctx.Err()) && !errors.Is(err, ErrUnavailable) {
			return err
		}
		return endOf(ctx)
	case undecided && limited.Err() != nil && !errors.Is(err, errCallMax):
		return errCallMax
	}
	return err
}
