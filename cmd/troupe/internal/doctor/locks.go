package doctor

import (
	"time"

	"github.com/troupe-dev/troupe/explain"
)

// locks looks for transactions that keep others waiting, or that may.
func locks(p *patient) error {
	const query = `select a.pid, coalesce(a.query, ''), coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8, count(*)
		from pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) b (pid), pg_stat_activity a
		where w.wait_event_type = 'Lock' and w.datname = current_database() and a.pid = b.pid
			and coalesce(clock_timestamp() - a.xact_start > interval '5 seconds', true)
		group by 1, 2, 3 order by 4 desc limit 5`
	var pid, waiting int
	var text string
	var age float64
	err := p.each(query, nil, []any{&pid, &text, &age, &waiting}, func() {
		p.problem("pid %d holds locks for %s that %s for: %s", "let it finish, or end it with pg_terminate_backend",
			pid, explain.Span(time.Duration(age*float64(time.Second))), several(waiting, "session waits", "sessions wait"), explain.Statement(text))
	})
	if err != nil {
		return err
	}
	return touched(p)
}

// touched looks for transactions that may hold rows for which nobody waits, since what
// somebody holds is passed over.
func touched(p *patient) error {
	const query = `with touched as (
			select l.pid, l.virtualtransaction, string_agg(distinct c.relname::text, ', ') as tables
			from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
			where l.locktype = 'relation' and l.granted and n.nspname = $1 and l.mode in ('RowShareLock', 'RowExclusiveLock')
				and l.database = (select d.oid from pg_database d where d.datname = current_database())
				and c.relname in ('ready_queue', 'durable_timers', 'pods', 'claims', 'leader_epoch')
			group by 1, 2
		)
		select a.pid, '', coalesce(a.query, ''), extract(epoch from clock_timestamp() - a.xact_start)::float8, t.tables
		from touched t join pg_stat_activity a on a.pid = t.pid
		where a.pid <> pg_backend_pid() and clock_timestamp() - a.xact_start > $2 and a.application_name not like 'troupe %'
		union all
		select 0, p.gid, '', extract(epoch from clock_timestamp() - p.prepared)::float8, t.tables
		from touched t join pg_locks l on l.virtualtransaction = t.virtualtransaction and l.locktype = 'transactionid' and l.pid is null
			join pg_prepared_xacts p on p.transaction = l.transactionid
		where t.pid is null and clock_timestamp() - p.prepared > $2
		order by 4 desc limit 5`
	var pid int
	var prepared, text, tables string
	var age float64
	const what = "may hold rows of %s for %s, which are passed over meanwhile: tasks are not claimed, timers do not fire, or dead pods are not taken over"
	return p.each(query, []any{p.options.Schema, p.options.limits.touched}, []any{&pid, &prepared, &text, &age, &tables}, func() {
		since := explain.Span(time.Duration(age * float64(time.Second)))
		if prepared != "" {
			p.warn("the prepared transaction %q "+what, "commit prepared or rollback prepared it", prepared, tables, since)
			return
		}
		p.warn("pid %d "+what+": %s", "have it commit or roll back, or end it with pg_terminate_backend", pid, tables, since, explain.Statement(text))
	})
}
