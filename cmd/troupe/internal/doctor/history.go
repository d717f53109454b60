package doctor

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// history looks at the spans that events are written into.
func history(p *patient) error {
	gone, err := disjoint(p)
	if err != nil {
		return err
	}
	if err := dependents(p); err != nil {
		return err
	}
	if err := detached(p); err != nil || slices.Contains(gone, "task_events_default") {
		return err
	}
	const query = `select exists (select from {schema}.spans where class is null and not closed and since <= clock_timestamp() and until > clock_timestamp()),
		(select count(*) from (select from {schema}.task_events_default limit 100000) e),
		exists (select from {schema}.pods where not dead and expires_at > clock_timestamp())`
	var covered, alive bool
	var stray int
	if err := p.row(query, nil, &covered, &stray, &alive); err != nil {
		return err
	}
	if !covered && alive {
		p.warn("no table for the events of now was made: they go to task_events_default", "the leader makes it ahead of time: see the check pods, and the rights of its role")
	}
	if stray > 0 {
		p.warn("%s in task_events_default", "the leader made a table too late, or could not: it sorts them out when it can; see the check pods, and the rights of its role",
			output.Several(stray, "row is", "rows are"))
	}
	return nil
}

// disjoint looks for partitions of events and history that were detached or dropped, of those
// that migrations made. It returns the names of the dropped ones.
func disjoint(p *patient) (gone []string, err error) {
	const query = `select t.whole, t.part, t.bound, t.further, to_regclass($1||'.'||t.part) is not null
		from (
			select 'task_events' as whole, 'task_events_default' as part, 'default' as bound, '' as further
			union all
			select 'run_history', 'run_history_'||n, format('for values in (%s)', n), ' partition by range (finished_at)' from generate_series(0, 3) n
		) t
		where not exists (
			select from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class w on w.oid = i.inhparent
			where c.relnamespace = to_regnamespace($1) and c.relname = t.part and w.relnamespace = c.relnamespace and w.relname = t.whole
		)
		order by t.part`
	schema := pgx.Identifier{p.options.Schema}.Sanitize()
	var whole, part, bound, further string
	var there bool
	err = p.each(query, []any{schema}, []any{&whole, &part, &bound, &further, &there}, func() {
		if there {
			p.problem("%s was taken off %s: what is in it is not found", fmt.Sprintf("alter table %[1]s.%[2]s attach partition %[1]s.%[3]s %[4]s", schema, whole, part, bound), part, whole)
			return
		}
		gone = append(gone, part)
		p.problem("%s is gone, with all that was in it", fmt.Sprintf("restore it, or create table %[1]s.%[3]s partition of %[1]s.%[2]s %[4]s%[5]s", schema, whole, part, bound, further), part)
	})
	return gone, err
}

// dependents looks for views, foreign keys and the like that keep a table of a span from
// being dropped when its time is over.
func dependents(p *patient) error {
	const query = `select distinct c.relname::text, case
			when d.classid = 'pg_rewrite'::regclass then (select 'the view '||r.ev_class::regclass from pg_rewrite r where r.oid = d.objid)
			else pg_describe_object(d.classid, d.objid, d.objsubid) end
		from {schema}.spans s
		join pg_class c on c.relnamespace = to_regnamespace($1) and c.relname = case when s.class is null then 'task_events' else 'run_history_'||s.class end||'_'||s.span
		join pg_type t on t.oid = c.reltype
		join pg_depend d on d.deptype = 'n' and (
			d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
			or d.refclassid = 'pg_type'::regclass and d.refobjid in (t.oid, t.typarray))
		where not exists (select from pg_constraint k where d.classid = 'pg_constraint'::regclass and k.oid = d.objid and k.conrelid = c.oid)
		order by 1, 2 limit 10`
	var table, object string
	return p.each(query, []any{pgx.Identifier{p.options.Schema}.Sanitize()}, []any{&table, &object}, func() {
		p.problem("%[2]s depends on %[1]s, which is not dropped when its time is over", "drop it, or have it read run_history or task_events instead", table, object)
	})
}

// detached looks for spans whose table was detached or dropped.
func detached(p *patient) error {
	const query = `select t.whole, t.whole||'_'||s.span, s.span, s.class is null, s.since::text, s.until::text, to_regclass($1||'.'||t.whole||'_'||s.span) is not null
		from {schema}.spans s, lateral (select case when s.class is null then 'task_events' else 'run_history_'||s.class end as whole) t
		where not exists (
			select from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class w on w.oid = i.inhparent
			where c.relnamespace = to_regnamespace($1) and c.relname = t.whole||'_'||s.span and w.relnamespace = c.relnamespace and w.relname = t.whole
		)
		order by s.span limit 10`
	schema := pgx.Identifier{p.options.Schema}.Sanitize()
	var whole, table, since, until string
	var number int
	var events, there bool
	targets := []any{&whole, &table, &number, &events, &since, &until, &there}
	return p.each(query, []any{schema}, targets, func() {
		if !there {
			p.problem("%s is gone, with all that was in it", fmt.Sprintf("restore it, or delete from %s.spans where span = %d", schema, number), table)
			return
		}
		attach := fmt.Sprintf("alter table %[1]s.%[2]s attach partition %[1]s.%[3]s for values from ('%[4]s') to ('%[5]s')", schema, whole, table, since, until)
		if events { // meanwhile, and until then, they are written to the default partition
			attach = fmt.Sprintf("lock table %[1]s.task_events_default in access exclusive mode; with later as (delete from %[1]s.task_events_default where at >= '%[2]s' and at < '%[3]s' returning *) insert into %[1]s.%[4]s select * from later; ",
				schema, since, until, table) + attach
		}
		p.problem("%s was taken off %s: what is in it is not found", "in one transaction: "+attach, table, whole)
	})
}
