package doctor

import "github.com/troupe-dev/troupe/cmd/troupe/internal/output"

// client says which rows a of pg_stat_activity are of clients. The
// kind of another role's session is hidden from a role without pg_read_all_stats; a session
// without a role is one of the server's own.
const client = `(a.backend_type = 'client backend' or a.backend_type is null and a.usename is not null and a.datname is not null
	and not exists (select from pg_stat_replication r where r.pid = a.pid))`

// visibility looks at whether the role sees what others' sessions do.
func visibility(p *patient) error {
	const query = `select quote_ident(current_user), count(*) from pg_stat_activity a
		where a.datname = current_database() and not pg_has_role('pg_read_all_stats', 'usage') and not pg_has_role(a.usesysid, 'usage')`
	var role string
	var hidden int
	err := p.row(query, nil, &role, &hidden)
	if err == nil && hidden > 0 {
		p.warn("%s: what they hold is named, and neither their statements nor for how long", "grant pg_read_all_stats to "+role,
			output.Several(hidden, "session of another role in this database is hidden from this one", "sessions of other roles in this database are hidden from this one"))
	}
	return err
}
