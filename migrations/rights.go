package migrations

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// written lists the tables that an engine writes to. Those of events and history are
// parts of some, and there may be others in the schema that are none of its own.
func written() []string {
	return []string{
		"archived_up_to", "claims", "dead_inputs", "dead_letters", "deaths", "definition_steps", "durable_timers", "frontiers",
		"handlers", "inbox", "intake", "leader_epoch", "machines", "map_items", "maps", "parked_tasks", "parked_timers", "pod_names", "pods", "queues", "ready_queue", "run_count_deltas", "run_counts", "run_counts_hourly",
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

// RoleReader is who may read the views with names, and nothing else.
const RoleReader = "reader"

// listed are the views with names.
func listed() []string {
	return []string{"run_list", "step_list", "event_list", "dead_letter_list", "signal_list"}
}

// roleBytesMax is the longest name of a role in PostgreSQL.
const roleBytesMax = 63

// Grants returns the statements that make "to", a role of the database, what kind says
// on a schema. There is one kind, RoleReader.
func Grants(schema, kind, to string) ([]string, error) {
	text, _ := SchemaProblem(schema)
	switch {
	case text != "":
		return nil, fmt.Errorf("schema %s", text)
	case kind != RoleReader:
		return nil, fmt.Errorf("role %q: there is no such kind: use %s", kind, RoleReader)
	case to == "" || len(to) > roleBytesMax || strings.ContainsRune(to, 0):
		return nil, fmt.Errorf("to %.80q: it is no name of a role: use 1 to %d bytes without NUL", to, roleBytesMax)
	}
	within, role := pgx.Identifier{schema}.Sanitize(), pgx.Identifier{to}.Sanitize()
	views := make([]string, len(listed()))
	for i, name := range listed() {
		views[i] = within + "." + name
	}
	return []string{
		"grant usage on schema " + within + " to " + role,
		"grant select on " + strings.Join(views, ", ") + " to " + role,
	}, nil
}

// Grant makes the statements of Grants, all or none of them. The schema is up to date,
// and the role of the pool owns it.
func Grant(ctx context.Context, pool *pgxpool.Pool, schema, kind, to string) error {
	statements, err := Grants(schema, kind, to)
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	if err := Check(ctx, pool, schema); err != nil {
		return err
	}
	err = withSession(ctx, pool, schema, func(s *session) error {
		return s.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return s.granted(ctx, tx, to)
		})
	})
	if hasCode(err, codeNoRole) {
		err = fmt.Errorf("%w: create it first (create role … login)", err)
	}
	if err != nil {
		return fmt.Errorf("grant on schema %s: %w", schema, err)
	}
	return nil
}

// granted returns why a role is no reader. A grant of a role that may not give it is a
// warning where it has some other right.
func (s *session) granted(ctx context.Context, tx pgx.Tx, to string) error {
	const query = `select has_schema_privilege($2::name, $1, 'usage') and count(*) = cardinality($3::text[]), current_user::text
		from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = $1 and c.relname = any($3) and has_table_privilege($2::name, c.oid, 'select')`
	var all bool
	var role string
	if err := tx.QueryRow(ctx, query, s.schema, to, listed()).Scan(&all, &role); err != nil {
		return err
	}
	if !all {
		return fmt.Errorf("%w: the role %s may not give rights on schema %s: use the role that owns it", ErrRights, role, s.schema)
	}
	return nil
}
