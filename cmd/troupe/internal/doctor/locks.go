package doctor

import (
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
)

// patience is how long others may wait for a lock, or be kept out by one.
const patience = 5 * time.Second

// locks looks for transactions that keep others waiting, or that may.
func locks(p *patient) error {
	const query = `select a.pid, coalesce(a.query, ''), extract(epoch from clock_timestamp() - a.xact_start)::float8, count(*)
		from pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) b (pid), pg_stat_activity a
		where w.pid in (select l.pid from pg_locks l where not l.granted) and w.datname = current_database() and a.pid = b.pid
			and coalesce(clock_timestamp() - a.xact_start > $1, true)
		group by a.pid, a.query, a.xact_start order by 4 desc limit 5`
	var pid, waiting int
	var text string
	var age *float64
	told := map[int]bool{}
	err := p.each(query, []any{patience}, []any{&pid, &text, &age, &waiting}, func() {
		told[pid] = true
		p.problem("pid %d holds locks for %s that %s for: %s", "let it finish, or end it with pg_terminate_backend",
			pid, since(age), output.Several(waiting, "session waits", "sessions wait"), explain.Statement(text))
	})
	if err != nil {
		return err
	}
	holders, err := p.holders()
	if err != nil {
		return err
	}
	for _, h := range holders {
		if h.prepared == "" && told[h.pid] {
			continue
		}
		told[h.pid] = true
		h.tell(p)
	}
	return nil
}

// holder is a transaction that holds tables of the schema, or that may hold rows.
type holder struct {
	heavy    bool   // it holds tables: no other session writes to them
	pid      int    // of its session
	prepared string // its name if it is prepared: it has no session then
	text     string // its session's latest statement
	age      *float64
	tables   string
	number   string // unique to the transaction
}

// tell makes a finding of it, also if no session waits: locked rows are skipped, and on an
// idle system no session needs a locked table yet.
func (h *holder) tell(p *patient) {
	what, level := "may hold rows of %s for %s, which are passed over meanwhile: tasks are not claimed, timers do not fire, or dead pods are not taken over", Warning
	if h.heavy {
		what, level = "holds a lock on %s for %s that keeps others from writing, or from reading, too", Problem
	}
	if h.prepared != "" {
		p.find(level, "the prepared transaction %q "+what, "commit prepared or rollback prepared it", []any{h.prepared, h.tables, since(h.age)})
		return
	}
	p.find(level, "pid %d "+what+": %s", "have it commit or roll back, or end it with pg_terminate_backend",
		[]any{h.pid, h.tables, since(h.age), explain.Statement(h.text)})
}

// since says how long something has lasted, in seconds; nil: that is another role's, and
// hidden.
func since(age *float64) string {
	if age == nil {
		return "a time that is hidden from this role"
	}
	return explain.Span(time.Duration(*age * float64(time.Second)))
}

// glance is how long a transaction whose age is hidden has to last while it is looked at.
const glance = time.Second

// holders returns the transactions that have held tables, or may have held rows that
// are passed over then, for long, the former first. Statements of the engine hold the
// rows that they work on.
func (p *patient) holders() ([]holder, error) {
	found, hidden, err := p.holding()
	if err != nil || len(hidden) == 0 {
		return found, err
	}
	select {
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	case <-time.After(glance):
	}
	again, _, err := p.holding()
	var lasting []holder
	for _, h := range again {
		if h.age != nil || hidden[h.number] {
			lasting = append(lasting, h)
		}
	}
	return lasting, err
}

// holding returns the transactions that hold locks now, and the numbers of those whose age
// is hidden.
func (p *patient) holding() (found []holder, hidden map[string]bool, err error) {
	const query = `with held as (
			select l.pid, l.virtualtransaction, l.mode not in ('RowShareLock', 'RowExclusiveLock') as heavy, string_agg(distinct c.relname::text, ', ') as tables
			from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
			where l.locktype = 'relation' and l.granted and n.nspname = $1
				and l.database = (select d.oid from pg_database d where d.datname = current_database())
				and (l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
					or l.mode in ('RowShareLock', 'RowExclusiveLock') and c.relname in ('ready_queue', 'durable_timers', 'pods', 'claims', 'leader_epoch'))
			group by 1, 2, 3
		), old as (
			select h.*, case when h.heavy then least($2::interval, $3::interval) else $2::interval end as age from held h
		)
		select h.heavy, a.pid, '', coalesce(a.query, ''), extract(epoch from clock_timestamp() - a.xact_start)::float8, h.tables, h.virtualtransaction
		from old h join pg_stat_activity a on a.pid = h.pid
		where a.pid <> pg_backend_pid() and coalesce(clock_timestamp() - a.xact_start > h.age, true)
			and (h.heavy or coalesce(a.application_name, '') not like 'troupe %')
		union all
		select h.heavy, 0, p.gid, '', extract(epoch from clock_timestamp() - p.prepared)::float8, h.tables, h.virtualtransaction
		from old h join pg_locks l on l.virtualtransaction = h.virtualtransaction and l.locktype = 'transactionid' and l.pid is null
			join pg_prepared_xacts p on p.transaction = l.transactionid
		where h.pid is null and clock_timestamp() - p.prepared > h.age
		order by 1 desc, 5 desc limit 10`
	var h holder
	hidden = map[string]bool{}
	targets := []any{&h.heavy, &h.pid, &h.prepared, &h.text, &h.age, &h.tables, &h.number}
	err = p.each(query, []any{p.options.Schema, p.options.limits.touched, patience}, targets, func() {
		found = append(found, h)
		if h.age == nil {
			hidden[h.number] = true
		}
	})
	return found, hidden, err
}
