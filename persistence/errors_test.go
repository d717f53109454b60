package persistence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// What a server says is an answer, whatever it says; what a proxy says in its
// place is none.
func TestAnswered(t *testing.T) {
	t.Parallel()
	away := func(err error) error { return fmt.Errorf("call: %w: %w", persistence.ErrUnavailable, err) }
	state := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"carried out":                 {nil, true},
		"a newer leader":              {persistence.ErrDeposed, true},
		"a lock":                      {fmt.Errorf("%w: %w", persistence.ErrConflict, state("55P03")), true},
		"no room on the disk":         {persistence.ErrDiskFull, true},
		"no right":                    {away(state("42501")), true},
		"a panic of the adapter":      {errors.New("panic"), true},
		"nothing came back":           {away(context.DeadlineExceeded), false},
		"no connection":               {away(errors.New("refused")), false},
		"a proxy without a server":    {away(state("08P01")), false},
		"the server stops":            {away(state("57P01")), false},
		"the server does not run yet": {away(state("57P03")), false},
	} {
		require.Equal(t, c.want, persistence.Answered(c.err), name)
	}
}
