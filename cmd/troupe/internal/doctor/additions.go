package doctor

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// foreignTriggers lists the triggers on the engine's tables that migrations and
// leaders did not make.
const foreignTriggers = `select c.relname::text, quote_ident(t.tgname), p.oid::regprocedure::text
	from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
	where c.relnamespace = to_regnamespace($1) and not t.tgisinternal and t.tgparentid = 0 and t.tgenabled <> 'D'
		and not ((t.tgname, p.proname) in (('closed', 'keep_event'), ('sealed', 'widen_span'), ('counted', 'counts_lost')) and p.pronamespace = c.relnamespace)
	order by 1, 2`

// foreignKeys lists the keys that refer to the engine's tables.
const foreignKeys = `select k.conrelid::regclass::text, k.confrelid::regclass::text, quote_ident(k.conname)
	from pg_constraint k join pg_class c on c.oid = k.confrelid
	where k.contype = 'f' and k.conparentid = 0 and c.relnamespace = to_regnamespace($1)
	order by 1, 2, 3`

// foreignRules lists the rules on the engine's tables, which have none.
const foreignRules = `select c.relname::text, quote_ident(r.rulename) from pg_rewrite r join pg_class c on c.oid = r.ev_class
	where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p') and r.ev_enabled <> 'D'
	order by 1, 2`

// policed lists the engine's tables that have row-level security.
const policed = `select c.relname::text from pg_class c
	where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p') and (c.relrowsecurity or c.relforcerowsecurity)
	order by 1`

// additions looks for additions to the engine's tables that may refuse, or hold up, the
// engine's writes.
func additions(p *patient) error {
	schema := pgx.Identifier{p.options.Schema}.Sanitize()
	var table, other, name string
	err := p.each(foreignTriggers, []any{schema}, []any{&table, &name, &other}, func() {
		p.warn("%s has a trigger that is not the engine's, %s with %s: where it raises, takes long, or leaves rows out, all runs wait, or history has gaps",
			fmt.Sprintf("drop trigger %s on %s.%s, unless you know that it does none of these", name, p.options.Schema, table), table, name, other)
	})
	if err != nil {
		return err
	}
	err = p.each(foreignRules, []any{schema}, []any{&table, &name}, func() {
		p.problem("%s has a rule, %s: what the engine writes does not go by it, or is refused, and all runs wait",
			fmt.Sprintf("drop rule %s on %s.%s", name, p.options.Schema, table), table, name)
	})
	if err != nil {
		return err
	}
	err = p.each(policed, []any{schema}, []any{&table}, func() {
		p.warn("%s has row-level security: where the engine's role is not exempt, all that reads or writes it is refused",
			fmt.Sprintf("alter table %[1]s.%[2]s disable row level security, no force row level security", p.options.Schema, table), table)
	})
	if err != nil {
		return err
	}
	return p.each(foreignKeys, []any{schema}, []any{&table, &other, &name}, func() {
		p.warn("%s refers to %s with a foreign key: runs that it refers to are kept out of history, or take its rows with them",
			fmt.Sprintf("alter table %s drop constraint %s, and keep the id without one", table, name), table, other)
	})
}
