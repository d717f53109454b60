package pgerr

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// A statement that the server ended is tried again as after a conflict, and does not call
// itself one. Missing tables are waited for as an outage is, and are known apart.
func TestEndedStatementsAndMissingTablesAreKnownApart(t *testing.T) {
	t.Parallel()
	ended := Translate(&pgconn.PgError{Code: CodeQueryCanceled, Message: "canceling statement due to statement timeout"})
	require.ErrorIs(t, ended, persistence.ErrStatementTimeout)
	require.ErrorIs(t, ended, persistence.ErrConflict)
	require.NotContains(t, ended.Error(), "conflict")
	for _, code := range []string{CodeUndefinedTable, CodeUndefinedSchema, CodeUndefinedColumn} {
		missing := Translate(&pgconn.PgError{Code: code})
		require.ErrorIs(t, missing, persistence.ErrSchema, code)
		require.ErrorIs(t, missing, persistence.ErrUnavailable, code)
	}
	require.NotErrorIs(t, Translate(&pgconn.PgError{Code: "40001"}), persistence.ErrStatementTimeout)
}
