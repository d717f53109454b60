package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/migrations"
)

// codeNoRight is the SQLSTATE of a statement that the role may not make.
const codeNoRight = "42501"

// mended adds what mends it to an error about rights, or about tables that are not there.
// The rights are those on tables that the command needs, as in "select, delete".
func mended(ctx context.Context, pool *pgxpool.Pool, err error, schema, rights string) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == codeNoRight && rights != "":
		return fmt.Errorf("%w: %w: %s", migrations.ErrRights, pg, grantText(ctx, pool, schema, rights))
	case errors.Is(err, migrations.ErrBehind):
		if text := elsewhere(ctx, pool, schema); text != "" {
			return errors.New(text)
		}
	}
	return err
}

// grantText is the remedy for a role that lacks a right: the statements that give it no
// more than the command needs.
func grantText(ctx context.Context, pool *pgxpool.Pool, schema, rights string) string {
	brief, cancel := context.WithTimeout(ctx, schemaPatience)
	defer cancel()
	role := "the role"
	if err := pool.QueryRow(brief, "select current_user::text").Scan(&role); err == nil {
		role = pgx.Identifier{role}.Sanitize()
	}
	within := pgx.Identifier{schema}.Sanitize()
	return fmt.Sprintf("let the owner of the schema run: grant usage on schema %s to %s; grant %s on all tables in schema %s to %s",
		within, role, rights, within, role)
}

// schemasShown bounds how many schemas an error names.
const schemasShown = 5

// elsewhere says of a schema without the tables whether it exists, and which schemas of the
// database have them; "": it has the tables, or nothing could be read.
func elsewhere(ctx context.Context, pool *pgxpool.Pool, schema string) string {
	brief, cancel := context.WithTimeout(ctx, schemaPatience)
	defer cancel()
	const query = `select exists (select from pg_catalog.pg_namespace n where n.nspname = $1), array(
			select n.nspname::text
			from pg_catalog.pg_namespace n
				join pg_catalog.pg_class v on v.relnamespace = n.oid and v.relname = 'schema_version'
				join pg_catalog.pg_class r on r.relnamespace = n.oid and r.relname = 'workflow_runs'
			order by n.nspname <> $1, n.nspname
			limit $2
		)`
	var exists bool
	var with []string
	if err := pool.QueryRow(brief, query, schema, schemasShown).Scan(&exists, &with); err != nil {
		return ""
	}
	text, remedy := "does not exist in that database", "name another with --schema or TROUPE_SCHEMA, or run troupe migrate up, which makes it"
	switch {
	case len(with) > 0 && with[0] == schema:
		return ""
	case exists:
		text, remedy = "of that database has no tables of troupe", "run troupe migrate up, or name another with --schema or TROUPE_SCHEMA"
	}
	if len(with) > 0 {
		remedy = "the tables of troupe are in schema " + strings.Join(with, " and in ") + ", to be named with --schema or TROUPE_SCHEMA"
	}
	return "schema " + schema + " " + text + ": " + remedy
}
