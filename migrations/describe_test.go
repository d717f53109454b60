package migrations_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/schema.txt")

// describeQuery reads what a schema consists of from the catalogs. Constraints
// of NOT NULL have rows of their own from PostgreSQL 18 on; the columns say it.
const describeQuery = `
with tables as (
	select c.oid, c.relname, c.reloptions, c.relkind, c.relispartition, c.relpartbound, c.relreplident from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
	where n.nspname = $1 and c.relkind in ('r', 'p', 'v')
), lines (table_name, kind, place, line) as (
	select relname, 0, 0, case relkind when 'v' then 'view ' else 'table ' end || relname
		|| case when relispartition then ' partition ' || regexp_replace(pg_get_expr(relpartbound, oid), '''[^'']*:[^'']*''', 'an instant', 'g') else '' end
		|| case when relkind = 'p' then ' partition by ' || pg_get_partkeydef(oid) else '' end || coalesce(' with (' || array_to_string(reloptions, ', ') || ')', '')
		|| case when relreplident = 'f' then ' replica identity full' when relreplident = 'd' or relkind = 'v' then '' else ' replica identity ' || relreplident::text end from tables
	union all
	select relname, 1, a.attnum, '  ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
		|| case when a.attcollation not in (0, 100) then ' collate ' || co.collname else '' end
		|| case when a.attnotnull then ' not null' else '' end
		|| coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
		|| case a.attidentity when 'a' then ' identity' when 'd' then ' identity by default' else '' end
	from tables t join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
			and not t.relispartition -- they have those of the whole
		left join pg_catalog.pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
		left join pg_catalog.pg_collation co on co.oid = a.attcollation
	union all
	select relname, 2, row_number() over (partition by relname order by k.conname)::int, '  constraint ' || k.conname || ': ' || pg_get_constraintdef(k.oid)
	from tables t join pg_catalog.pg_constraint k on k.conrelid = t.oid and k.contype <> 'n' and not t.relispartition
	union all
	select relname, 3, row_number() over (partition by t.relname order by i.indexname)::int, '  ' || i.indexdef
	from tables t join pg_catalog.pg_indexes i on i.schemaname = $1 and i.tablename = t.relname
	where not exists (select from pg_catalog.pg_constraint k where k.conrelid = t.oid and k.conname = i.indexname)
	union all
	select relname, 4, 0, '  published ' || p.pubname || ' (' || array_to_string(p.attnames, ', ') || ')' || coalesce(' where ' || p.rowfilter, '')
	from tables t join pg_catalog.pg_publication_tables p on p.schemaname = $1 and p.tablename = t.relname
)
select line from lines order by table_name collate "C", kind, place`

// describe returns the tables, constraints, indexes and published columns of a
// schema as text.
func describe(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), describeQuery, schema)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n") + "\n"
}

// renamed is a description as it would be of a schema of another name.
func renamed(description, from, to string) string {
	return strings.NewReplacer(" "+from+".", " "+to+".", " "+from+"_wake", " "+to+"_wake").Replace(description)
}

// The tables are what the file says. Rewrite it with
// `go test ./migrations -update` and read the difference.
func TestTheSchemaIsAsDescribed(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	migrate(t, pool, schema)
	got := describe(t, pool, schema)
	path := filepath.Join("testdata", "schema.txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
