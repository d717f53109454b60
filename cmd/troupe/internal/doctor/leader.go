package doctor

import "github.com/troupe-dev/troupe/cluster/postgres"

// led says why nobody leads, unless the pod that led last does so still: the row of the
// epoch keeps its holder when that has lost its session, and with it the leader's lock.
// A session's name that is too long, or has foreign letters, is not all there.
func led(p *patient, last int64) error {
	const query = `select coalesce(l.pid, 0), coalesce(nullif(a.application_name, ''), 'without a name'), coalesce(a.state, 'unknown'),
			$3 > 0 and coalesce(case when n.name ~ '^[ -~]{1,63}$' then a.application_name = n.name or starts_with(a.application_name, n.name || ' ')
				else starts_with(a.application_name, 'troupe leader ') end, false)
		from (select 'troupe leader ' || $2::text || ' ' || $3::bigint) n (name), pg_locks l left join pg_stat_activity a using (pid)
		where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.database = (select oid from pg_database where datname = current_database())
			and (l.classid::bigint << 32 | l.objid::bigint) = $1 limit 1`
	const what = "no living pod leads: timers do not fire and dead pods are not taken over"
	var pid int
	var name, state string
	held, leads := false, false
	err := p.each(query, []any{postgres.LeaderKey(p.options.Schema), p.options.Schema, last}, []any{&pid, &name, &state, &leads}, func() { held = true })
	switch {
	case err != nil || leads:
		return err
	case held && pid == 0:
		p.problem(what+"; a prepared transaction holds the leader's lock", "end it: rollback prepared, or commit prepared, by its gid in pg_prepared_xacts")
	case held:
		p.problem(what+"; pid %d (%s, %s) holds the leader's lock", "unless that is a pod that is being elected, which takes a moment, end that session: select pg_terminate_backend(the pid)",
			pid, name, state)
	default:
		p.problem(what, "pods elect a leader within seconds; if none does, the error beside campaign in their logs says why: "+
			"no connection of their own (DirectURL, behind a proxy), no rights on leader_epoch (check rights), or a lock of somebody else on it (check locks)")
	}
	return nil
}
