package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// unservedSQL counts, for each definition, the new runs that have to execute a step
// that no living pod registers. A requeue continues with the definition of the ended run.
const unservedSQL = `with registered as materialized (
		select distinct h as handler from {schema}.pods p, unnest(p.handlers) h where not p.dead and p.expires_at > clock_timestamp()
	)
	select d.name, encode(substr(d.hash, 1, 4), 'hex'), count(*)
	from {schema}.workflow_runs r join {schema}.workflow_definitions d using (definition)
	where r.id = any($1::uuid[]) and r.state < 10 and exists (
		select from {schema}.definition_steps s where s.definition = r.definition and s.kind = 1
			and s.handler not in (select handler from registered)
			and not exists (select from {schema}.tasks t where t.run_id = r.id and t.step = s.step and t.state >= 10)
	)
	group by 1, 2 order by 3 desc, 1, 2`

// unserved returns how many of the new runs wait for a pod that does not live, and
// says so for each definition. Nil: it could not be found out, which undoes nothing.
func unserved(ctx context.Context, w world, pool *pgxpool.Pool, schema string, runs []troupe.RunID) *int {
	total := 0
	if len(runs) == 0 {
		return &total
	}
	warn := func(format string, args ...any) { _, _ = fmt.Fprintf(w.err, "troupe: "+format+"\n", args...) }
	query := strings.ReplaceAll(unservedSQL, "{schema}", pgx.Identifier{schema}.Sanitize())
	rows, err := pool.Query(ctx, query, runs)
	var name, hash string
	var count int
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &hash, &count}, func() error {
			total += count
			warn("no living pod registers all steps of %s of %s (definition %s…): start a pod of that version, or cancel with troupe runs cancel",
				output.Count(count, "new run"), output.Plain(name), hash)
			return nil
		})
	}
	if err != nil {
		warn("whether living pods register the steps of the new runs could not be looked at: %s", oneLine(err.Error()))
		return nil
	}
	return &total
}
