package postgres

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/history"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

var (
	growthRuns    = flag.Int("growth.runs", 2_000, "BenchmarkGrowth: finished runs in history")
	growthBacklog = flag.Int("growth.backlog", 2_000, "BenchmarkGrowth: runs that wait")
	growthRounds  = flag.Int("growth.rounds", 10, "BenchmarkGrowth: rounds per measurement")
	growthHold    = flag.Int("growth.hold", 10, "BenchmarkGrowth: rounds with a transaction open before anything is measured")
)

const (
	growthBatch   = 50  // runs of one round
	growthFree    = 100 // slots that a claim asks for where no backlog is
	growthTenants = 100 // that have the backlog
)

// BenchmarkGrowth measures the same rounds (trigger, claim and complete a batch
// of diamonds, archive now and then) on an empty store, with much in history,
// with a backlog, and with a transaction open that keeps dead rows from being
// removed, and reports how each compares with the empty one.
//
//	make bench-growth RUNS=10000000 BACKLOG=1000000
func BenchmarkGrowth(b *testing.B) {
	g := newGrowth(b, time.Hour)
	for !g.rotated() {
		g.rounds(growthRounds) // until the first span has begun; all is warm then
	}
	empty := g.measure("empty", nil)
	g.fillHistory(*growthRuns)
	g.settle()
	g.measure(fmt.Sprintf("finished=%d", *growthRuns), empty)
	g.held(func() { g.measure("transaction-open", empty) })
	g.fillBacklog(*growthBacklog)
	g.free = growthBatch // or it would claim more than it completes
	g.settle()
	g.measure(fmt.Sprintf("backlog=%d", *growthBacklog), empty)
	g.held(func() { g.measure("backlog-transaction-open", empty) })
}

// newGrowth returns an empty store with spans of events as long as said.
func newGrowth(b *testing.B, span time.Duration) *growth {
	b.Helper()
	l := newLoad(b, storetest.Diamond(), growthTenants)
	g := &growth{load: l, leader: 1, free: growthFree, retention: persistence.Retention{7 * 24 * time.Hour}}
	_, err := l.store.BumpEpoch(l.ctx, g.leader)
	require.NoError(b, err)
	_, err = l.store.RotateEvents(l.ctx, g.leader, span)
	require.NoError(b, err)
	return g
}

// held calls fn while a transaction has been open for a while.
func (g *growth) held(fn func()) {
	held, err := g.store.EmbedderPool.BeginTx(g.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(g.b, err)
	_, err = held.Exec(g.ctx, "select txid_current()")
	require.NoError(g.b, err)
	g.rounds(growthHold)
	fn()
	require.NoError(g.b, held.Rollback(g.ctx))
}

// growth drives one pod as its actors do.
type growth struct {
	*load
	leader int64
	free   int            // slots that claims ask for
	drains bool           // claim until nothing is ready
	hint   int64          // the claimer's, where it takes all that there is
	next   int64          // what the hint becomes
	nextAt time.Time      // when that was seen
	whole  time.Time      // when everything is looked at again
	after  workflow.RunID // how far archiving has come
	took   taken

	retention persistence.Retention
}

// taken is how long what took.
type taken struct {
	trigger, claim []time.Duration
	record         time.Duration
	tasks          int
	archive        time.Duration
	archived       int
}

func median(list []time.Duration) time.Duration { return quantile(list, 50) }

func quantile(list []time.Duration, percent int) time.Duration {
	slices.Sort(list)
	return list[(len(list)-1)*percent/100]
}

// measure makes rounds and reports them, beside those of the empty store.
func (g *growth) measure(name string, empty *taken) *taken {
	g.took = taken{}
	g.rounds(growthRounds)
	out := g.took
	g.report(name, &out, empty, nil)
	return &out
}

// report reports what was measured, beside what an empty store took, and
// whatever else.
func (g *growth) report(name string, out, empty *taken, more map[string]float64) {
	g.b.Run(name, func(b *testing.B) {
		for range b.N { // measured already
			continue
		}
		values := map[string]float64{
			"trigger-µs": float64(median(out.trigger).Microseconds()), "claim-µs": float64(median(out.claim).Microseconds()),
			"claim-p99-µs":   float64(quantile(out.claim, 99).Microseconds()),
			"record-µs/task": float64(out.record.Microseconds()) / float64(out.tasks),
			"archive-µs/run": float64(out.archive.Microseconds()) / float64(max(out.archived, 1)),
		}
		maps.Copy(values, more)
		for unit, value := range values {
			b.ReportMetric(value, unit)
		}
		if empty != nil {
			b.ReportMetric(float64(median(out.claim))/float64(median(empty.claim)), "claim-ratio")
			b.ReportMetric(float64(out.record)/float64(out.tasks)/(float64(empty.record)/float64(empty.tasks)), "record-ratio")
			b.ReportMetric(float64(median(out.trigger))/float64(median(empty.trigger)), "trigger-ratio")
		}
		b.ReportMetric(0, "ns/op")
	})
}

func (g *growth) rounds(count *int) {
	for i := range *count {
		g.round()
		if i%10 == 9 {
			g.archive()
		}
	}
}

// round triggers a batch of runs, claims as many tasks, and completes those and
// what becomes ready with them.
func (g *growth) round() {
	start := time.Now()
	_, err := g.store.TriggerRuns(g.ctx, g.draft(growthBatch), persistence.GrantRequest{})
	g.check(err)
	g.took.trigger = append(g.took.trigger, time.Since(start))
	for g.claim() && g.drains {
	}
}

// claim claims tasks, and completes those and what becomes ready with them. It
// reports whether there were any.
func (g *growth) claim() bool {
	after := g.hint
	if time.Now().After(g.whole) {
		after = 0
	}
	start := time.Now()
	out, err := g.store.ClaimTasks(g.ctx, persistence.ClaimRequest{
		GrantRequest: persistence.GrantRequest{Pod: g.pod, Claim: g.claimID(), Queues: []string{registry.DefaultQueue}, Limit: g.free, Handlers: g.handlers}, After: after,
	})
	g.check(err)
	g.took.claim = append(g.took.claim, time.Since(start))
	if after == 0 {
		g.whole = time.Now().Add(max(250*time.Millisecond, 20*time.Since(start)))
	}
	if time.Since(g.nextAt) >= 100*time.Millisecond {
		g.hint, g.next, g.nextAt = g.next, max(out.Lowest-lifecycle.FairID(0, 0, 2), 0), time.Now()
	}
	for grants := out.Grants; len(grants) > 0; {
		start = time.Now()
		done, err := g.store.RecordTransitions(g.ctx, g.load.record(grants))
		g.check(err)
		g.took.record += time.Since(start)
		g.took.tasks += len(grants)
		grants = done.Grants
	}
	return len(out.Grants) > 0
}

// archive moves what has ended into history.
func (g *growth) archive() {
	start := time.Now()
	out, err := g.store.ArchiveRuns(g.ctx, g.leader, persistence.Archive{
		After: g.after, Retention: g.retention,
	})
	g.check(err)
	g.after = out.Next
	g.took.archive += time.Since(start)
	g.took.archived += out.Count
}

// rotated reports whether events fall into a span.
func (g *growth) rotated() bool {
	var since time.Time
	sql := strings.ReplaceAll(`select since from {schema}.spans where class is null`, "{schema}", pgx.Identifier{g.store.Schema}.Sanitize())
	g.check(g.store.EmbedderPool.QueryRow(g.ctx, sql).Scan(&since))
	return time.Now().After(since)
}

// growthPart bounds the rows of one statement.
const growthPart = 250_000

// fillHistory writes runs as archive_runs would have, over a week.
func (g *growth) fillHistory(runs int) {
	now := time.Now().UTC().Truncate(24 * time.Hour)
	const days = 7
	for day := range days {
		one := history.Span{Class: 0, Since: now.AddDate(0, 0, day-days), Until: now.AddDate(0, 0, day-days+1)}
		g.check(g.store.Write(g.ctx, func(ctx context.Context, tx pgx.Tx) error { return g.store.MakeSpan(ctx, tx, &one) }))
		for from := 0; from < runs/days; from += growthPart {
			g.exec(`insert into {schema}.run_history (id, slice, first, class, plain, finished_at, definition, group_id, remaining, events,
					queue, state, slow, canceling, failing, unhandled, cut, handler_made, created_at, started_at, tenant, origin, input,
					states, epochs, pods, queued, started, finished, outputs)
				select {id}, 0, 0, 0, true, x.at, d.definition, 1 + n % 100, 0, 3, 1, 10, false, false, false, false, false, false, x.at, x.at,
					'tenant-' || n % 100, 'api', '{"order":12345,"customer":"c-77"}', '{10,10,10,10}', '{3,3,3,3}', '{1,1,1,1}',
					array[x.at, x.at, x.at, x.at], array[x.at, x.at, x.at, x.at], array[x.at, x.at, x.at, x.at],
					array_fill('{"rows":17,"status":"ok","took":3}'::bytea, '{4}')
				from {schema}.workflow_definitions d, generate_series($2::bigint, $3::bigint) n, lateral (select $1::timestamptz + n * interval '1 millisecond' as at) x`,
				one.Since, from, min(from+growthPart, runs/days)-1)
		}
	}
}

// fillBacklog writes runs as a trigger would have, at the end of the queues of
// their tenants.
func (g *growth) fillBacklog(runs int) {
	since := time.Now().UTC().Truncate(24 * time.Hour)
	const next = `(select max(block) from {schema}.tenant_groups where lane = 1)`
	for from := 0; from < runs; from += growthPart {
		g.exec(`with r as (
				insert into {schema}.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, started_at, tenant, origin, input)
				select {id}, d.definition, t.group_id, 1, 2, 1, 3, false, $1::timestamptz, $1::timestamptz, t.tenant, 'api', '{"order":12345,"customer":"c-77"}'
				from {schema}.workflow_definitions d, generate_series($2::bigint, $3::bigint) n join {schema}.tenants t on t.group_id = 1 + n % 100
				returning id, definition
			), t as (
				insert into {schema}.tasks (run_id, step, handler, epoch, pending, parents, queue, state, traits, children, queued_at)
				select r.id, s.step, s.handler, case when s.pending = 0 then 1 else 0 end, s.pending, s.pending, 1, case when s.pending = 0 then 2 else 1 end, s.traits, s.children,
					case when s.pending = 0 then $1::timestamptz end
				from r join {schema}.definition_steps s on s.definition = r.definition
				returning run_id, step, handler, state
			), e as (
				insert into {schema}.task_events (run_id, step, kind, n, at)
				select r.id, -1, 31 + k, k, clock_timestamp() from r, generate_series(1, 2) k
				union all select t.run_id, t.step, 1, 1, clock_timestamp() from t where t.state = 2
			)
			insert into {schema}.ready_queue (queue, band, handler, fair_id, run_id, step, suspect)
			select 1, 0, t.handler, 2 * (1 + nth % 100) + 1 + 2097152 * (`+next+` + 1 + nth / 100), t.run_id, t.step, false
			from (select t.*, row_number() over () as nth from t where t.state = 2) t`, since, from, min(from+growthPart, runs)-1)
		g.exec(`update {schema}.tenant_groups set block = `+next+` + $1 where lane = 1`, growthPart/growthTenants+1)
	}
}

// settle has autovacuum's work done, and what was filled in written out: it is
// not what is measured.
func (g *growth) settle() {
	schema := pgx.Identifier{g.store.Schema}.Sanitize()
	for _, table := range []string{"workflow_runs", "tasks", "ready_queue", "task_events"} {
		_, err := g.store.EmbedderPool.Exec(g.ctx, "vacuum analyze "+schema+"."+table)
		require.NoError(g.b, err)
	}
	_, err := g.store.EmbedderPool.Exec(g.ctx, "checkpoint")
	require.NoError(g.b, err)
	g.rounds(growthRounds)
}

// exec runs a statement in which {schema} stands for the schema and {id} for
// the id of a run of the instant $1 and the number n.
func (g *growth) exec(sql string, args ...any) {
	g.b.Helper()
	const id = `(lpad(to_hex(extract(epoch from $1::timestamptz)::bigint * 1000 + n / 10), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
		|| '8000' || lpad(to_hex(n), 12, '0'))::uuid`
	_, err := g.store.EmbedderPool.Exec(g.ctx, strings.NewReplacer("{schema}", pgx.Identifier{g.store.Schema}.Sanitize(), "{id}", id).Replace(sql), args...)
	require.NoError(g.b, err)
}
