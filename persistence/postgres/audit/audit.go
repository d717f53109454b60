// Package audit has the promises that one state of the tables can show as
// queries, for a database at work: each sees one instant, reads only, waits for
// no lock, and ends when its time is over. snapshot.Check judges the same on a
// copy in memory, and more.
package audit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
)

// Finding is what one query found.
type Finding struct {
	Promise string // e.g. "I5"; "-": what the engine relies on
	Name    string
	Count   int    // of what is wrong, at most a thousand
	Example string // one of them
	Remedy  string // "": none is known
	Err     error  // why the query did not end
}

// Run asks every query in turn, for at most patience each, and returns what
// each found. conn is the caller's, and outside of a transaction.
func Run(ctx context.Context, conn *pgx.Conn, schema string, patience time.Duration) []Finding {
	var findings []Finding
	for _, q := range queries() {
		f := Finding{Promise: q.promise, Name: q.name, Remedy: q.remedy}
		f.Err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, settings, strconv.FormatInt(max(patience.Milliseconds(), 1), 10)); err != nil {
				return err
			}
			return look(ctx, tx, schema, q.sql, &f)
		})
		findings = append(findings, f)
	}
	return findings
}

// settings are those of each look: it takes no more than one core.
const settings = `select set_config('statement_timeout', $1::text, true), set_config('lock_timeout', '500', true),
	set_config('search_path', 'pg_catalog', true), set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)`

// look asks one query in a transaction.
func look(ctx context.Context, tx pgx.Tx, schema, sql string, f *Finding) error {
	whole := "/* troupe audit */ select count(*), coalesce(min(what), '') from (" + sql + " limit 1000) wrong (what)"
	var args []any
	if strings.Contains(sql, "$1") {
		kinds, states := meanings()
		args = append(args, kinds, states)
	}
	whole = strings.ReplaceAll(whole, "{schema}", pgx.Identifier{schema}.Sanitize())
	return tx.QueryRow(ctx, whole, args...).Scan(&f.Count, &f.Example)
}

// meanings are the kinds of events and the states that they lead to.
func meanings() (kinds, states []int16) {
	for kind := range lifecycle.EventKind(64) {
		if state := kind.Next(); state != 0 {
			kinds, states = append(kinds, int16(kind)), append(states, int16(state))
		}
	}
	return kinds, states
}
