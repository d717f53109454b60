package doctor

import (
	"fmt"
	"strings"
)

// notifications looks at the queue of notifications, which all databases of a server
// share. What is in it stays until every session that listens has read it, and one in a
// transaction reads nothing. The server does not show which sessions listen, so sessions in old transactions are named.
func notifications(p *patient) error {
	var used float64
	if err := p.row(`select pg_notification_queue_usage()`, nil, &used); err != nil || used < p.options.limits.filling {
		return err
	}
	const query = `select a.pid, coalesce(a.datname, ''), coalesce(nullif(a.application_name, ''), 'without a name'), extract(epoch from clock_timestamp() - a.xact_start)::float8
		from pg_stat_activity a
		where a.pid <> pg_backend_pid() and ` + client + ` and coalesce(clock_timestamp() - a.xact_start > $1, false)
			or a.usename is not null and a.xact_start is null and a.backend_type is null
				and exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'virtualxid' and l.granted and l.virtualtransaction = l.virtualxid)
		order by a.xact_start nulls last limit 5`
	var pid int
	var database, name string
	var age *float64
	var open []string
	err := p.each(query, []any{p.options.limits.touched}, []any{&pid, &database, &name, &age}, func() {
		open = append(open, fmt.Sprintf("pid %d (%s, in database %s, for %s)", pid, name, database, since(age)))
	})
	if err != nil {
		return err
	}
	sessions := "no session is seen that has been in a transaction for long"
	if len(open) > 0 {
		sessions = "in a transaction for long are " + strings.Join(open, ", ")
	}
	level := Warning
	if used >= p.options.limits.full {
		level = Problem
	}
	p.find(level, "%.0f %% of the queue of notifications are used; when it is full commits that notify are refused, those of the engine too: a session that listens has not read it, and %s",
		"end that transaction (pg_terminate_backend): the queue is emptied then, and the engine tries again by itself", []any{used * 100, sessions})
	return nil
}
