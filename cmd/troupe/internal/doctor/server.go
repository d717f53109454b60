package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/migrations"
)

// server looks at what the database is.
func server(p *patient) error {
	const query = `select current_setting('server_version'), current_setting('server_encoding'), current_database(), current_user::text`
	var version, encoding, database, role string
	if err := p.row(query, nil, &version, &encoding, &database, &role); err != nil {
		return err
	}
	p.report.Server = "PostgreSQL " + version
	p.fact("PostgreSQL %s, database %s (%s), role %s", version, database, encoding, role)
	return nil
}

// schemaPatience bounds the read of the version of the tables, which may be locked.
const schemaPatience = 3 * time.Second

// schema looks at the server, the encoding, whether it can be written to and
// the version of the tables, as an engine does when it starts.
func schema(p *patient) error {
	brief, cancel := context.WithTimeout(p.ctx, schemaPatience)
	defer cancel()
	err := migrations.Check(brief, p.pool, p.options.Schema)
	if brief.Err() != nil && p.ctx.Err() == nil {
		p.problem("the version of the tables could not be read within %s: another session may hold a lock on schema_version", "the check locks names it", explain.Span(schemaPatience))
		return nil
	}
	remedy := "mend that and ask again"
	switch {
	case err == nil:
	case errors.Is(err, migrations.ErrServer):
		remedy = unsuitable(p)
	case errors.Is(err, migrations.ErrForeign):
		remedy = "name a schema of troupe's own: --schema, or TROUPE_SCHEMA"
	case errors.Is(err, migrations.ErrRenamed):
		remedy = "rename it back, and do not run troupe migrate up: new tables would hide the runs"
	case errors.Is(err, migrations.ErrBehind):
		remedy = "run troupe migrate up"
	case errors.Is(err, migrations.ErrNewer):
		remedy = "upgrade this program"
	case errors.Is(err, migrations.ErrRights):
		remedy = "use the role that owns the schema, or grant its rights to this one"
	}
	if err != nil {
		p.empty = true
		p.problem("%v", remedy, err)
		return nil
	}
	report, err := migrations.Status(brief, p.pool, p.options.Schema)
	if err != nil {
		return err
	}
	p.publication = report.Publication
	p.fact("schema %s is at version %d", report.Schema, report.Version)
	return nil
}

// unsuitable says what mends a server or a database that cannot hold the tables. The
// examination itself is read-only, so that this is what is left.
func unsuitable(p *patient) string {
	const query = `select current_setting('server_version_num')::int < 150000, current_setting('server_encoding') = 'SQL_ASCII', pg_is_in_recovery(),
		quote_ident(current_database()), quote_ident(current_user)`
	var old, bytes, standby bool
	var database, role string
	if err := p.row(query, nil, &old, &bytes, &standby, &database, &role); err != nil {
		return "mend that and ask again"
	}
	return remedyFor(old, bytes, standby, database, role)
}

func remedyFor(old, bytes, standby bool, database, role string) string {
	switch {
	case old:
		return "upgrade the server to PostgreSQL 15 or newer, with pg_upgrade or by a dump"
	case bytes:
		return "create database NAME encoding 'UTF8' template template0, and use that one; a dump with pg_dump --encoding=UTF8 brings the rest along"
	case standby:
		return "connect to the primary: target_session_attrs=read-write in the address, with all hosts in it, finds it"
	}
	return fmt.Sprintf("alter database %[1]s reset default_transaction_read_only; alter role %[2]s reset default_transaction_read_only;"+
		" alter role %[2]s in database %[1]s reset default_transaction_read_only; or turn it off in postgresql.conf and the address, or connect to the primary", database, role)
}

// durability looks at settings under which an acknowledged run can be lost.
func durability(p *patient) error {
	var name, kind string
	err := p.each(`select name from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off' order by 1`, nil, []any{&name}, func() {
		p.problem("%s is off: a crash of the machine loses or damages acknowledged runs", "set "+name+" = on in postgresql.conf and reload", name)
	})
	if err != nil {
		return err
	}
	const unlogged = `select c.relname::text, case c.relkind when 'S' then 'sequence' else 'table' end from pg_class c
		where c.relnamespace = (select oid from pg_namespace where nspname = $1) and c.relpersistence = 'u' and c.relkind in ('r', 'S')
			and not exists (select from pg_depend d join pg_class t on t.oid = d.refobjid
				where c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid and d.refclassid = 'pg_class'::regclass and t.relpersistence = 'u')
		order by 1`
	return p.each(unlogged, []any{p.options.Schema}, []any{&name, &kind}, func() {
		p.problem("the %s %s is unlogged: a crash of the server empties it, and a standby has nothing of it",
			"alter "+kind+" "+p.options.Schema+"."+name+" set logged, which writes all of it and keeps others out meanwhile", kind, name)
	})
}

// clocks compares the local clock with the server's: the middle of a round trip
// is when the server answered.
func clocks(p *patient) error {
	best := time.Hour
	var skew time.Duration
	for range 3 {
		var theirs time.Time
		begun := p.options.Now()
		if err := p.row(`select clock_timestamp()`, nil, &theirs); err != nil {
			return err
		}
		if took := p.options.Now().Sub(begun); took < best {
			best, skew = took, theirs.Sub(begun.Add(took/2))
		}
	}
	if skew.Abs() > p.options.limits.skew {
		p.warn("this machine's clock and the server's are %s apart",
			"have both follow a time server; leases and timers go by the server's alone, but a clock that is set while runs are under way moves their timers",
			explain.Span(skew.Abs().Round(time.Second)))
	}
	return nil
}

// connections compares those in use with those allowed, and with what a pod
// takes.
func connections(p *patient) error {
	const query = `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', true)::int, 0),
		count(*) filter (where ` + client + `), count(*) filter (where application_name like 'troupe%' and datname = current_database())
		from pg_stat_activity a`
	var allowed, used, ours int
	if err := p.row(query, nil, &allowed, &used, &ours); err != nil {
		return err
	}
	budget := p.options.PoolSize + 2
	p.fact("%d of %d connections are in use, %d by engines; a pod takes up to %d, and the leader 2 more", used, allowed, ours, budget)
	remedy := "raise max_connections, lower PoolSize, or put a proxy before the other clients"
	switch free := allowed - used; {
	case free < budget+2:
		p.problem("%s free and a pod needs up to %d: one that starts now may not get what it needs", remedy,
			output.Several(free, "connection is", "connections are"), budget+2)
	case float64(used) > p.options.limits.used*float64(allowed):
		p.warn("%d of %d connections are in use", remedy, used, allowed)
	}
	return nil
}

// rights looks at what the role may do with the tables.
func rights(p *patient) error {
	const query = `select coalesce(string_agg(c.relname, ', ' order by c.relname), ''), n.nspowner::regrole::text,
			has_schema_privilege(n.oid, 'create') and pg_has_role(n.nspowner, 'member')
		from pg_namespace n left join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p') and c.relname <> 'schema_version'
			and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
				and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
		where n.nspname = $1 group by n.oid, n.nspowner`
	var without, owner string
	var owns bool
	if err := p.row(query, []any{p.options.Schema}, &without, &owner, &owns); err != nil {
		return err
	}
	if without != "" {
		p.problem("the role may not read and write %s", "grant all on all tables and all sequences in schema "+p.options.Schema+" to it, or use the role "+owner, without)
	}
	if !owns {
		p.warn("the role does not own the schema: as a leader it can neither make nor drop the tables of the history", "use the role "+owner+", or grant that one to it")
		return p.foreignSpans()
	}
	return p.foreignWholes()
}

// foreignWholes looks for tables of events and history, of those that the migrations made,
// that neither the role nor one that it is a member of owns, though the schema is its own.
func (p *patient) foreignWholes() error {
	const query = `select coalesce(string_agg(w.relname, ', ' order by w.relname), ''),
			coalesce(string_agg(format('alter table %s owner to %s', w.oid::regclass, n.nspowner::regrole), '; ' order by w.relname), ''),
			coalesce(string_agg(distinct w.relowner::regrole::text, ', '), '')
		from pg_class w join pg_namespace n on n.oid = w.relnamespace
		where n.nspname = $1 and w.relkind = 'p' and not pg_has_role(w.relowner, 'usage')`
	var tables, remedy, owners string
	if err := p.row(query, []any{p.options.Schema}, &tables, &remedy, &owners); err != nil {
		return err
	}
	if tables == "" {
		return p.foreignSpans()
	}
	p.problem("%s: not of the owner of the schema, so that no run that has ended moves into history, and none is dropped", "as "+owners+": "+remedy, tables)
	return nil
}

// foreignSpans looks for tables of events and history that their whole's owner does
// not own: one role of a pod made them, and no other can close or drop them.
func (p *patient) foreignSpans() error {
	const query = `select coalesce(string_agg(c.relname, ', ' order by c.relname), ''),
			coalesce(string_agg(format('alter table %s owner to %s', c.oid::regclass, w.relowner::regrole), '; ' order by c.relname), ''),
			coalesce(string_agg(distinct c.relowner::regrole::text, ', '), '')
		from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class w on w.oid = i.inhparent
			join pg_namespace n on n.oid = w.relnamespace
		where n.nspname = $1 and c.relkind = 'r' and c.relowner <> w.relowner`
	var tables, remedy, owners string
	if err := p.row(query, []any{p.options.Schema}, &tables, &remedy, &owners); err != nil {
		return err
	}
	if tables != "" {
		p.problem("%s: not of the owner of the tables that they are parts of, so that other pods can neither close nor drop them", "as "+owners+": "+remedy, tables)
	}
	return nil
}
