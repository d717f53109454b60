package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// publicationTables is what the publication carries: inserts that a pod may wait for, and
// of each row no more than a reader needs. The kinds of events are
// cancel_requested and the ends of runs. Events are published as rows of their
// table, whichever span of it they are in.
const publicationTables = `
	{schema}.ready_queue (queue),
	{schema}.intake (id),
	{schema}.durable_timers (wake_at),
	{schema}.task_events (run_id, kind) where (kind in (34, 35, 36, 37))`

const publicationCarries = `select count(*) from pg_publication p join pg_publication_tables t using (pubname)
	where p.pubname = $1 and p.pubinsert and not (p.pubupdate or p.pubdelete) and p.pubviaroot and t.schemaname = $2
		and t.tablename in ('ready_queue', 'intake', 'durable_timers', 'task_events')`

const publicationTablesCount = 4

// Publication returns the name of the publication of a schema.
func Publication(schema string) string { return schema + "_wake" }

// publish creates the publication unless it is there, and returns why it
// cannot. The engine works without, so this is never an error.
func (s *session) publish(ctx context.Context) string {
	err := s.step(ctx, func(ctx context.Context, tx pgx.Tx) error {
		problem, err := s.published(ctx, tx)
		if err != nil || problem == "" {
			return err
		}
		var exists, foreign bool
		err = tx.QueryRow(ctx, `select exists (select from pg_publication where pubname = $1),
			exists (select from pg_publication_tables where pubname = $1 and schemaname <> $2)`,
			Publication(s.schema), s.schema).Scan(&exists, &foreign)
		if err != nil {
			return err
		}
		if foreign {
			return errors.New("it carries tables that are not troupe's (rename it)")
		}
		name := pgx.Identifier{Publication(s.schema)}.Sanitize()
		if exists {
			if _, err = tx.Exec(ctx, `alter publication `+name+` set (publish = 'insert', publish_via_partition_root = true)`); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `alter publication `+name+` set table `+s.fill(publicationTables))
			return err
		}
		_, err = tx.Exec(ctx, `create publication `+name+` for table `+s.fill(publicationTables)+
			` with (publish = 'insert', publish_via_partition_root = true)`)
		return err
	})
	switch {
	case hasCode(err, codeNoRight):
		return fmt.Sprintf("this role may not create the publication %s: grant create on the database to it and migrate again;"+
			" until then pods hear by notifications and sweeps", Publication(s.schema))
	case err != nil:
		return fmt.Sprintf("publication %s: %v: mend that and migrate again; until then pods hear by notifications and sweeps", Publication(s.schema), err)
	}
	return ""
}

// published returns "" if the publication carries all that it should.
func (s *session) published(ctx context.Context, tx pgx.Tx) (string, error) {
	var tables int
	err := tx.QueryRow(ctx, publicationCarries, Publication(s.schema), s.schema).Scan(&tables)
	if err != nil {
		return "", err
	}
	if tables != publicationTablesCount {
		return fmt.Sprintf("publication %s is missing, incomplete, or carries more than inserts: migrate with a role that has create on the database;"+
			" until then pods hear by notifications and sweeps", Publication(s.schema)), nil
	}
	return "", nil
}
