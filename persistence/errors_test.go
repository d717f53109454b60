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

// What a server says of a session, and a driver of an address, is not for probes.
func TestShown(t *testing.T) {
	t.Parallel()
	state := func(code string) error {
		return fmt.Errorf("call: %w: connect app@10.0.0.1/shop: %w", persistence.ErrUnavailable, &pgconn.PgError{Code: code, Message: "of app"})
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a login":       {state("28P01"), "the server does not let the engine's role in (SQLSTATE 28P01)"},
		"a database":    {state("3D000"), "the server has no such database, or does not open it (SQLSTATE 3D000)"},
		"a right":       {state("42501"), "the role lacks a right: troupe doctor says which (SQLSTATE 42501)"},
		"connections":   {state("53300"), "the server lacks memory, room, locks or connections (SQLSTATE 53300)"},
		"a start":       {state("57P03"), "the server ends, or begins (SQLSTATE 57P03)"},
		"a setting":     {state("22023"), "the server refuses it, and the log says why (SQLSTATE 22023)"},
		"an address":    {fmt.Errorf("%w: dial 10.0.0.1", persistence.ErrUnavailable), "the database does not answer"},
		"a closed pool": {fmt.Errorf("%w: closed", persistence.ErrTxNotBegun), "the pool is closed, reaches no server, or has no connection to give"},
		"a busy pool":   {fmt.Errorf("begin: %w", persistence.Plain(fmt.Errorf("%w: busy", persistence.ErrTxNotBegun))), persistence.ErrTxNotBegun.Error() + ": busy"},
		"one of ours":   {persistence.ErrNumbersChanged, persistence.ErrNumbersChanged.Error()},
		"of a table":    {fmt.Errorf("claim: %w", &pgconn.PgError{Severity: "ERROR", Code: "42P01", Message: "no table"}), "claim: ERROR: no table (SQLSTATE 42P01)"},
	} {
		require.Equal(t, c.want, persistence.Shown(c.err), name)
	}
}
