package doctor

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/explain"
)

// later is what it costs if there is no stream.
const later = "; until then pods hear by notifications and by sweeps every second"

// wake looks at what a replication stream needs.
func wake(p *patient) error {
	const query = `select current_setting('wal_level'),
		exists (select from pg_roles r where r.rolname = current_user and (r.rolreplication or r.rolsuper))
			or exists (select from pg_roles r where r.rolname in ('rds_replication', 'cloudsqlreplica') and pg_has_role(r.oid, 'member'))`
	var level string
	var may bool
	if err := p.row(query, nil, &level, &may); err != nil {
		return err
	}
	if level != "logical" {
		p.warn("wal_level is %s: there is no stream of wakes", "set wal_level = logical and restart the server"+later, level)
	}
	if !may {
		p.warn("the role lacks REPLICATION: there is no stream of wakes", "alter role … replication"+later)
	}
	if p.publication != "" {
		p.warn("%s", "run troupe migrate up with a role that has create on the database", p.publication)
	}
	return nil
}

// slots looks at the slots and senders that streams take, and at slots that
// keep WAL and are not read.
func slots(p *patient) error {
	const query = `select current_setting('max_replication_slots')::int, (select count(*) from pg_replication_slots),
		current_setting('max_wal_senders')::int, (select count(*) from pg_stat_replication),
		(select setting::bigint from pg_settings where name = 'max_slot_wal_keep_size')`
	var slots, slotsUsed, senders, sendersUsed int
	var keep int64
	if err := p.row(query, nil, &slots, &slotsUsed, &senders, &sendersUsed, &keep); err != nil {
		return err
	}
	p.fact("%d of %d replication slots and %d of %d senders are in use", slotsUsed, slots, sendersUsed, senders)
	if free := slots - slotsUsed; free < 1 {
		p.warn("all %d replication slots are in use", "raise max_replication_slots and restart, or drop slots that are not read"+later, slots)
	}
	switch free := senders - sendersUsed; {
	case senders == 0:
		p.warn("max_wal_senders is 0", "raise it and restart"+later)
	case free < 1:
		p.warn("all %d WAL senders are in use", "raise max_wal_senders and restart"+later, senders)
	}
	if keep < 0 {
		p.warn("max_slot_wal_keep_size is -1: a slot that is not read fills the disk",
			"set it to a part of the disk, such as 10GB, and reload (the engine's own slots are temporary and go with their session)")
	}
	return kept(p)
}

// own are the names of the engines' slots, of any schema: they are temporary, and go with
// their session.
const own = `temporary and slot_name ~ '^[a-z0-9_]+_[0-9a-f]{8}_[0-9]+_[0-9a-f]{8}$'`

// kept looks at how much WAL slots keep.
func kept(p *patient) error {
	var name, status string
	var active, ours bool
	var kept int64
	return p.each(`select slot_name::text, active, `+own+`, coalesce(wal_status, ''), coalesce(pg_wal_lsn_diff(
			case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end, restart_lsn), 0)::bigint
		from pg_replication_slots order by 1`, nil, []any{&name, &active, &ours, &status, &kept}, func() {
		drop := "let its reader continue, or select pg_drop_replication_slot('" + name + "')"
		switch {
		case status == "lost":
			p.warn("slot %s was invalidated: it kept more WAL than max_slot_wal_keep_size", "drop it, and let its owner make another", name)
		case kept > p.options.limits.retained && !active:
			p.problem("slot %s keeps %d MB of WAL and is not read", drop, name, kept>>20)
		case kept > p.options.limits.retained && ours:
			p.warn("slot %s, of an engine's stream of wakes, is %d MB behind: a large transaction is open or being decoded",
				"let that transaction end, and make the next one smaller; the stream catches up by itself, and its slot goes with its session"+later, name, kept>>20)
		case kept > p.options.limits.retained:
			p.warn("slot %s keeps %d MB of WAL", drop, name, kept>>20)
		}
	})
}

// holders looks for what keeps vacuum from removing dead rows. In tables that
// change all the time this is what makes everything slow.
func holders(p *patient) error {
	limit := p.options.limits.transaction
	const sessions = `select pid, coalesce(application_name, ''), coalesce(state, 'state hidden'), coalesce(query, ''), extract(epoch from clock_timestamp() - xact_start)::float8,
			coalesce(greatest(age(backend_xid), age(backend_xmin)), 0)::bigint
		from pg_stat_activity a where pid <> pg_backend_pid() and ` + client + ` and datname = current_database()
			and (backend_xmin is not null or backend_xid is not null)
			and coalesce(clock_timestamp() - xact_start > $1, greatest(age(backend_xid), age(backend_xmin)) > $2) order by xact_start limit 5`
	var pid int
	var name, state, query string
	var age float64
	var begun *float64
	var others int64
	seconds := func(s float64) string { return explain.Span(time.Duration(s * float64(time.Second))) }
	err := p.each(sessions, []any{limit, p.options.limits.hidden}, []any{&pid, &name, &state, &query, &begun, &others}, func() {
		open := fmt.Sprintf("the last %d transactions", others)
		if begun != nil {
			open = seconds(*begun)
		}
		p.warn("the transaction of pid %d (%s, %s) is open for %s and keeps vacuum from removing rows: %s",
			"have it commit; idle_in_transaction_session_timeout ends such sessions", pid, name, state, open, explain.Statement(query))
	})
	if err != nil {
		return err
	}
	err = p.each(`select gid, extract(epoch from clock_timestamp() - prepared)::float8 from pg_prepared_xacts where database = current_database() and clock_timestamp() - prepared > $1
		order by prepared limit 5`, []any{limit}, []any{&name, &age}, func() {
		p.problem("the prepared transaction %q is open for %s and keeps vacuum from removing rows and others from its locks", "commit prepared or rollback prepared it", name, seconds(age))
	})
	if err != nil {
		return err
	}
	var held int64
	err = p.each(`select slot_name::text, greatest(age(xmin), age(catalog_xmin))::bigint from pg_replication_slots
		where not active and coalesce(greatest(age(xmin), age(catalog_xmin)), 0) > $1`, []any{p.options.limits.held}, []any{&name, &held}, func() {
		p.warn("slot %s is not read and keeps rows of the last %d transactions", "let its reader continue, or drop it", name, held)
	})
	if err != nil {
		return err
	}
	return p.each(`select coalesce(application_name, ''), age(backend_xmin)::bigint from pg_stat_replication where coalesce(age(backend_xmin), 0) > $1`,
		[]any{p.options.limits.held}, []any{&name, &held}, func() {
			p.warn("standby %s keeps rows of the last %d transactions by its feedback", "end long queries there, or turn hot_standby_feedback off", name, held)
		})
}
