package troupe

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
)

// A session that was ended says nothing about the database: another is asked.
func TestAnEndedSessionIsNoAnswer(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		answers []error
		want    error
	}{
		"one that is well":     {[]error{nil}, nil},
		"ended":                {[]error{&pgconn.PgError{Code: "57P01"}, nil}, nil},
		"ended by a crash":     {[]error{&pgconn.PgError{Code: "57P02"}, boom}, boom},
		"nobody there":         {[]error{boom}, boom},
		"a login that may not": {[]error{&pgconn.PgError{Code: "28000"}}, &pgconn.PgError{Code: "28000"}},
	} {
		asked := 0
		p := &probe{clock: clock.System{}, ping: func(context.Context) error {
			asked++
			return c.answers[asked-1]
		}}
		require.Equal(t, c.want, p.ask(t.Context()), name)
		require.Equal(t, c.want, p.ask(t.Context()), name)
		require.Len(t, c.answers, asked, name)
	}
}
