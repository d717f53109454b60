package main

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/migrations"
)

// codeNoRight is the SQLSTATE of a statement that the role may not make.
const codeNoRight = "42501"

// granted adds what mends it to an error about rights: those on tables that the
// command needs, as in "select, delete".
func granted(err error, schema, rights string) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != codeNoRight || errors.Is(err, migrations.ErrRights) {
		return err
	}
	return fmt.Errorf("%w: %w: use the role that owns the schema, or grant usage on schema %s and %s on all tables in schema %s to this one",
		migrations.ErrRights, err, schema, rights, schema)
}
