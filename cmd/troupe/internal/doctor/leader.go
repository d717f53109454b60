package doctor

import "github.com/troupe-dev/troupe/cluster/postgres"

// led says why no pod leads. last is the holder in the row of the epoch; it stays there
// after the pod has lost its session, and with it the leader's lock. The server cuts a
// session's name that is long, and replaces its foreign letters. A session that hangs in the
// server keeps the lock of a pod that has given it up.
func led(p *patient, last int64) error {
	const query = `select coalesce(l.pid, 0), coalesce(nullif(a.application_name, ''), 'without a name'), coalesce(a.state, 'unknown'),
			$3 > 0 and coalesce(case when n.name ~ '^[ -~]{1,63}$' then a.application_name = n.name or starts_with(a.application_name, n.name || ' ')
				else starts_with(a.application_name, 'troupe leader ') end, false),
			coalesce(extract(epoch from clock_timestamp() - greatest(a.query_start, a.state_change)), 0)::float8
		from (select 'troupe leader ' || $2::text || ' ' || $3::bigint) n (name), pg_locks l left join pg_stat_activity a using (pid)
		where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.database = (select oid from pg_database where datname = current_database())
			and (l.classid::bigint << 32 | l.objid::bigint) = $1 limit 1`
	const what = "no living pod leads: timers do not fire and dead pods are not taken over"
	var pid int
	var silent float64 // seconds
	var name, state string
	held, leads := false, false
	err := p.each(query, []any{postgres.LeaderKey(p.options.Schema), p.options.Schema, last}, []any{&pid, &name, &state, &leads, &silent}, func() { held = true })
	switch {
	case err != nil:
		return err
	case leads && silent >= p.options.limits.silent.Seconds():
		p.warn("the leader's session, pid %d (%s, %s), has said nothing for %.0f s: unless LeaderPing is that long it hangs, timers do not fire and dead pods are not taken over",
			"end it: select pg_terminate_backend(the pid); if it stays, the server or its disk hangs", pid, name, state, silent)
	case leads:
	case held && pid == 0:
		p.problem(what+"; a prepared transaction holds the leader's lock", "end it: rollback prepared, or commit prepared, by its gid in pg_prepared_xacts")
	case held:
		p.problem(what+"; pid %d (%s, %s) holds the leader's lock", "unless that is a pod that is being elected, which takes a moment, end that session: select pg_terminate_backend(the pid)",
			pid, name, state)
	default:
		p.problem(what, "pods elect a leader within seconds; if none does, the error beside campaign in their logs says why: "+
			"no connection of their own (DirectURL, behind a proxy), no rights on leader_epoch (check rights), or a lock of another session on it (check locks)")
	}
	return nil
}
