package doctor

// publications looks for tables whose updates and deletes are refused, because a
// publication carries them and nothing says by what a row is known to those who
// read it. Such a publication is somebody else's: the engine's own carries
// inserts alone. A partition is carried with what it is a part of.
func publications(p *patient) error {
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
