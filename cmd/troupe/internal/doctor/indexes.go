package doctor

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// index is one that the engine's statements need: without it they read whole tables, or
// store twice what may be there once.
type index struct {
	table, columns string
	kind           indexKind
}

type indexKind string

const (
	primary indexKind = "primary key"
	unique  indexKind = "unique"
	plain   indexKind = "index"
)

// indexes are those that migrations make, but those of the parts of history.
func indexes() []index {
	return []index{
		{"archived_up_to", "one", primary},
		{"claims", "pod, claim", primary},
		{"dead_inputs", "run_id", primary},
		{"dead_letters", "run_id, step", primary},
		{"dead_letters", "tenant, run_id, step", plain},
		{"deaths", "pod", primary},
		{"definition_steps", "definition, step", primary},
		{"definition_steps", "handler", plain},
		{"durable_timers", "run_id, step, kind, key", primary},
		{"durable_timers", "wake_at", plain},
		{"frontiers", "queue, band", primary},
		{"handlers", "handler", primary},
		{"handlers", "workflow, step, fingerprint", unique},
		{"inbox", "run_id, id", primary},
		{"inbox", "run_id, n", plain},
		{"intake", "id", primary},
		{"leader_epoch", "one", primary},
		{"machines", "run_id", primary},
		{"map_items", "run_id, step, item", primary},
		{"maps", "run_id, step", primary},
		{"parked_tasks", "handler, fair_id", plain},
		{"parked_tasks", "run_id, step", primary},
		{"parked_timers", "run_id, step, kind, key", primary},
		{"pod_names", "pod", primary},
		{"pod_names", "since", plain},
		{"pods", "id", primary},
		{"queues", "name", unique},
		{"queues", "queue", primary},
		{"ready_queue", "queue, band, fair_id", primary},
		{"run_counts", "span", plain},
		{"run_counts", "tenant, day, definition, state, span", primary},
		{"run_counts_hourly", "tenant, hour, definition, state, span", primary},
		{"run_keys", "tenant, workflow, key", primary},
		{"schema_version", "version", primary},
		{"spans", "span", primary},
		{"task_events_kept", "run_id", plain},
		{"task_progress", "run_id, step", primary},
		{"tasks", "run_id, step", primary},
		{"tenant_groups", "queue, group_id, lane", primary},
		{"tenants", "group_id", unique},
		{"tenants", "tenant", primary},
		{"workflow_definitions", "definition", primary},
		{"workflow_definitions", "hash", unique},
		{"workflow_runs", "id", primary},
		{"workflow_runs", "tenant, uuid_send(id)", plain},
	}
}

// indexesThere lists the indexes that are there, by table, columns, and whether they are
// those of a primary key, or unique. It asks the catalog alone: pg_get_indexdef waits for
// a lock on the table. The only expressions are functions of an id, whose names the
// catalog gives to their columns.
const indexesThere = `select c.relname::text, s.columns, case when x.indisprimary then 'primary key' when x.indisunique then 'unique' else 'index' end
	from pg_index x join pg_class c on c.oid = x.indrelid,
		lateral (select string_agg(a.attname || case x.indkey[a.attnum - 1] when 0 then '(id)' else '' end, ', ' order by a.attnum) as columns
			from pg_attribute a where a.attrelid = x.indexrelid and a.attnum <= x.indnkeyatts) s
	where c.relnamespace = to_regnamespace($1) and not c.relispartition and x.indisvalid
		and (x.indisunique or x.indpred is null)
	order by 1, 2, 3`

// indexed looks for indexes that were removed.
func indexed(p *patient) error {
	var i index
	there := map[index]bool{}
	if err := p.each(indexesThere, []any{pgx.Identifier{p.options.Schema}.Sanitize()}, []any{&i.table, &i.columns, (*string)(&i.kind)}, func() { there[i] = true }); err != nil {
		return err
	}
	for _, i := range indexes() {
		if there[i] {
			continue
		}
		add := fmt.Sprintf("alter table %s.%s add %s (%s)", p.options.Schema, i.table, i.kind, i.columns)
		if i.kind == plain {
			add = fmt.Sprintf("create index concurrently on %s.%s (%s)", p.options.Schema, i.table, i.columns)
		}
		p.problem("%s lacks its %s (%s): what needs it reads the whole table, or is refused", add, i.table, i.name(), i.columns)
	}
	return nil
}

// name is what it is called where one is missing.
func (i index) name() string {
	if i.kind == unique {
		return "unique constraint"
	}
	return string(i.kind)
}
