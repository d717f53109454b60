package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// written lists the tables that an engine writes to. Those of events and history are
// parts of some, and there may be others in the schema that are none of its own.
func written() []string {
	return []string{
		"archived_up_to", "claims", "dead_inputs", "dead_letters", "deaths", "definition_steps", "durable_timers", "frontiers",
		"handlers", "intake", "leader_epoch", "parked_tasks", "parked_timers", "pods", "queues", "ready_queue", "run_count_deltas", "run_counts", "run_counts_hourly",
		"run_history", "run_keys", "spans",
		"task_events", "task_events_kept", "task_progress", "tasks", "tenant_groups", "tenants", "workflow_definitions",
		"workflow_runs",
	}
}

// CheckRights returns which tables the role of an engine may not read and write, with
// the remedy, or nil. A program that only reads needs less. It changes nothing.
func CheckRights(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := withSession(ctx, pool, schema, func(s *session) error { return s.rights(ctx) }); err != nil {
		return fmt.Errorf("check schema %s: %w", schema, err)
	}
	return nil
}

// rights returns which of the tables the role may not read and write. A migration
// makes some, of which a role knows nothing that was granted all there were before.
func (s *session) rights(ctx context.Context) error {
	const query = `select coalesce(string_agg(c.relname, ', ' order by c.relname), ''), current_user::text
		from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where n.nspname = $1 and c.relname = any($2) and c.relkind in ('r', 'p')
			and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
				and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))`
	var without, role string
	if err := s.conn.QueryRow(ctx, query, s.schema, written()).Scan(&without, &role); err != nil {
		return err
	}
	if without == "" {
		return nil
	}
	return fmt.Errorf("%w: the role %s may not read and write %s: grant all on all tables in schema %s to it,"+
		" and have those to come granted by default (alter default privileges), or use the role that owns the schema",
		ErrRights, role, without, s.quoted)
}
