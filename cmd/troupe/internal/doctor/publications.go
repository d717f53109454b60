package doctor

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// publications looks for tables whose updates and deletes are refused, because a
// publication carries them and the table has no replica identity. Such a publication is a
// foreign one, or the engine's own after a change: by itself it carries inserts alone.
func publications(p *patient) error {
	if err := unidentified(p); err != nil {
		return err
	}
	return partial(p)
}

// partial looks for publications that leave out the columns by which rows are known, or
// choose rows by others. The server tells: it plans no update that it would refuse.
func partial(p *patient) error {
	const query = `select p.pubname::text, c.relname::text, p.pubupdate, (
			select quote_ident(a.attname) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and a.attidentity = ''
			order by a.attnum limit 1
		)
		from pg_publication p join pg_publication_rel r on r.prpubid = p.oid join pg_class c on c.oid = r.prrelid
		where c.relnamespace = to_regnamespace($1) and (p.pubupdate or p.pubdelete) and (r.prattrs is not null or r.prqual is not null)
		order by c.relname, p.pubname`
	type carried struct {
		publication, table, column string
		updates                    bool
	}
	var one carried
	var all []carried
	schema := pgx.Identifier{p.options.Schema}.Sanitize()
	err := p.each(query, []any{schema}, []any{&one.publication, &one.table, &one.updates, &one.column}, func() { all = append(all, one) })
	if err != nil {
		return err
	}
	for _, one := range all {
		table := schema + "." + pgx.Identifier{one.table}.Sanitize()
		change := "delete from " + table
		if one.updates {
			change = "update " + table + " set " + one.column + " = " + one.column
		}
		err := p.exec("explain " + change)
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == notPublishable {
			p.problem("the publication %s carries updates or deletes of %s, without the columns that its rows are known by, or chooses them by others: the server refuses them",
				"alter publication "+pgx.Identifier{one.publication}.Sanitize()+" set (publish = 'insert')", one.publication, one.table)
		} else if err != nil && (refused == nil || refused.Code != unknownRows) { // else the other look has named it
			return err
		}
	}
	return nil
}

// SQLSTATEs of changes that a publication cannot carry, and of those of a table without a
// replica identity.
const (
	notPublishable = "42P10"
	unknownRows    = "55000"
)

// unidentified looks for tables whose rows are known by nothing. A partition is carried
// with what it is a part of.
func unidentified(p *patient) error {
	const query = `select c.relname, string_agg(distinct p.pubname, ', ' order by p.pubname), bool_or(k.keyed)
		from pg_class c
			cross join lateral (select exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indisvalid and i.indimmediate) as keyed) k,
			lateral (select c.oid union select relid from pg_partition_ancestors(c.oid)) whole (oid), pg_class w, pg_namespace n, pg_publication_tables t, pg_publication p
		where c.relnamespace = (select oid from pg_namespace where nspname = $1) and c.relkind = 'r'
			and w.oid = whole.oid and n.oid = w.relnamespace and t.schemaname = n.nspname and t.tablename = w.relname
			and p.pubname = t.pubname and (p.pubupdate or p.pubdelete)
			and case c.relreplident when 'f' then false when 'd' then not k.keyed when 'n' then true
				else not exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident and i.indisvalid and i.indimmediate) end
		group by c.relname order by c.relname`
	var table, names string
	var keyed bool
	return p.each(query, []any{p.options.Schema}, []any{&table, &names, &keyed}, func() {
		identity := "full"
		if keyed {
			identity = "default"
		}
		p.problem("%s has no replica identity, and the publication %s carries its updates or deletes: the server refuses them",
			"alter table "+p.options.Schema+"."+table+" replica identity "+identity, table, names)
	})
}
