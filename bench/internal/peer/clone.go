package peer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Clone returns a query for the statement that copies the one row of a table
// $1 times with some columns replaced by expressions, in which g is the number
// of the copy. An empty expression leaves the column to its default. The server
// writes the statement, because the table's columns are the peer's affair.
func Clone(table string, replaced map[string]string) string {
	var cases strings.Builder
	for _, column := range slices.Sorted(maps.Keys(replaced)) {
		fmt.Fprintf(&cases, " when %s then %s", quote(column), quote(replaced[column]))
	}
	return fmt.Sprintf(cloneSQL, quote(table), cases.String())
}

const cloneSQL = `select format('insert into %%s (%%s) select %%s from (select * from %%1$s limit 1) t, generate_series(1, $1::int) g',
	c.name, string_agg(quote_ident(c.attname), ', ' order by c.attnum), string_agg(c.expression, ', ' order by c.attnum))
from (
	select t.name, a.attname, a.attnum, case a.attname::text%[2]s else 't.' || quote_ident(a.attname) end as expression
	from (select %[1]s::text as name) t, pg_attribute a
	where a.attrelid = t.name::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
) c
where c.expression <> ''
group by c.name`

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
