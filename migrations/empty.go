package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// empty refuses a schema without a table of versions in which no tables may be made.
func (s *session) empty(ctx context.Context, tx pgx.Tx) error {
	if err := s.foreign(ctx, tx); err != nil {
		return err
	}
	return s.renamed(ctx, tx)
}

// foreign refuses a schema with foreign objects.
func (s *session) foreign(ctx context.Context, tx pgx.Tx) error {
	const query = `with here as (select oid from pg_namespace where nspname = $1)
		select name from (
			select relname, 1 from pg_class, here where relnamespace = here.oid and relkind in ('r', 'p', 'v', 'm', 'f', 'S', 'c')
			union all select typname, 2 from pg_type, here where typnamespace = here.oid and typtype in ('d', 'e', 'r')
			union all select proname, 3 from pg_proc, here where pronamespace = here.oid
		) objects (name, kind) order by kind, name limit 1`
	var name string
	switch err := tx.QueryRow(ctx, query, s.schema).Scan(&name); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return s.refuse(name)
}

// renamed refuses a schema whose publication carries the tables of another one: it was
// made with them, and follows them. New tables would hide all runs.
func (s *session) renamed(ctx context.Context, tx pgx.Tx) error {
	const query = `select n.nspname, quote_ident(n.nspname), quote_ident($2)
		from pg_publication p join pg_publication_rel r on r.prpubid = p.oid join pg_class c on c.oid = r.prrelid
		join pg_namespace n on n.oid = c.relnamespace
		where p.pubname = $1 and n.nspname <> $2 and c.relname = 'ready_queue'
			and exists (select from pg_class v where v.relnamespace = n.oid and v.relname = 'schema_version')`
	var other, from, to string
	switch err := tx.QueryRow(ctx, query, Publication(s.schema), s.schema).Scan(&other, &from, &to); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: there is nothing in %[2]s, and publication %[3]s carries the tables of %[4]s: rename it back (alter schema %[5]s rename to %[6]s);"+
		" to begin with new tables and leave the runs of %[4]s, drop the publication", ErrRenamed, s.schema, Publication(s.schema), other, from, to)
}
