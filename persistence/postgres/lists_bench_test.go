package postgres

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/history"
	"github.com/troupe-dev/troupe/workflow"
)

var (
	listsRuns   = flag.Int("lists.runs", 20_000, "BenchmarkLists: runs in history")
	listsLive   = flag.Int("lists.live", 2_000, "BenchmarkLists: runs that have not ended")
	listsRounds = flag.Int("lists.rounds", 3, "BenchmarkLists: calls per filter")
)

const (
	listsDays      = 30 // over which history is spread
	listsTenants   = 200
	listsWorkflows = 12
)

// BenchmarkLists measures the first page of every filter of a listing, and every count,
// beside much history and many live runs. Of each it tells the median and the 99th percentile
// of the time of a call, and of a listing how many runs the page has, and in how many pages
// of a hundred a search came to the end of what there is.
//
//	make bench-lists RUNS=10000000 LIVE=1000000
func BenchmarkLists(b *testing.B) {
	l := newLists(b)
	l.fill(*listsRuns, *listsLive)
	l.lists()
	l.counts()
}

// lists is a database with much to list.
type lists struct {
	*load
	epoch  int64
	first  time.Time // day of history
	perDay int       // runs
}

func newLists(b *testing.B) *lists {
	b.Helper()
	var graphs []*workflow.Graph
	for i := range listsWorkflows {
		d := workflow.Definition{Name: fmt.Sprintf("wf-%d", i+1), Output: 3, Policy: workflow.FailFast}
		for step := range 4 {
			s := workflow.Step{Name: string(rune('a' + step)), Kind: workflow.Func}
			if step > 0 {
				s.Parents = []workflow.Edge{{Parent: step - 1, Kind: workflow.Plain}}
			}
			d.Steps = append(d.Steps, s)
		}
		g, err := workflow.NewGraph(&d)
		require.NoError(b, err)
		graphs = append(graphs, g)
	}
	l := &lists{load: newLoad(b, graphs[0], listsTenants)}
	_, err := l.store.RegisterDefinitions(l.ctx, graphs, nil)
	require.NoError(b, err)
	l.epoch, err = l.store.BumpEpoch(l.ctx, l.pod)
	require.NoError(b, err)
	l.first = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -listsDays)
	return l
}

// fill writes history as archive_runs would have, and has the leader seal, count and index
// it; then runs that go on, and some that ended a moment ago.
func (l *lists) fill(runs, live int) {
	l.perDay = max(runs/listsDays, 1)
	start := time.Now()
	for day := range listsDays {
		one := history.Span{Class: 0, Since: l.first.AddDate(0, 0, day), Until: l.first.AddDate(0, 0, day+1)}
		require.NoError(l.b, l.store.Write(l.ctx, func(ctx context.Context, tx pgx.Tx) error { return l.store.MakeSpan(ctx, tx, &one) }))
		l.exec(`insert into {schema}.run_history (id, slice, first, class, plain, finished_at, definition, group_id, remaining, events, queue,
				state, slow, canceling, failing, unhandled, cut, handler_made, failed_step, created_at, started_at, tenant, key, origin, labels,
				input, states, epochs, pods, queued, started, finished, classes, errors, outputs)
			select {id}, 0, 0, 0, st = 10, at + interval '0.2 s', d.list[1 + n % cardinality(d.list)], tn, 0, 3, 1, st, false, st = 13, st = 11, st = 11, false,
				false, case when st = 11 then 2 end, at, at, 'tenant-' || tn, case when n % 50 = 0 then 'k-' || n || '-' || $3::int end,
				case when n % 100 = 1 then 'message' else 'api' end,
				case when n % 5 = 0 then jsonb_build_object('order', 'o-' || n, 'region', (array['eu', 'us', 'ap'])[1 + n % 3]) end, '{"amount": 42}',
				array[10, 10, st, st]::smallint[], '{3,3,3,3}', '{1,1,1,1}', array[at, at, at, at], array[at, at, at, at],
				array[at, at, at, at + interval '0.2 s'], case when st = 11 then array[null, null, (array['http_503', 'timeout', 'panic'])[1 + n % 3], null] end,
				case when st = 11 then array[null, null, 'the service did not answer', null] end, array['1', '2', null, '"done"']::bytea[]
			from (select array_agg(definition order by definition) as list from {schema}.workflow_definitions) d,
				(select n, $1::timestamptz + (n::float8 / $2::int) * interval '86399 s' as at,
					case when n % 200 = 7 then 11 when n % 1000 = 13 then 13 else 10 end as st, {tenant} as tn
				from generate_series(1, $2::int) n) z`, one.Since, l.perDay, day)
		l.exec(`insert into {schema}.run_keys (tenant, workflow, key, input_hash, run_id)
			select h.tenant, d.name, h.key, '\x00', h.id
			from {schema}.run_history h join {schema}.workflow_definitions d on d.definition = h.definition
			where h.finished_at >= $1 and h.finished_at < $1::timestamptz + interval '1 day' and h.key is not null`, one.Since)
	}
	filled := time.Now()
	calls := 0
	for more := true; more; calls++ {
		out, err := l.store.DropHistory(l.ctx, l.epoch, persistence.Retention{}, time.Time{})
		require.NoError(l.b, err)
		more = out.More
	}
	l.b.Logf("%d runs in history after %v; sealed, counted and indexed in %d calls, %v", runs, filled.Sub(start).Round(time.Second), calls, time.Since(filled).Round(time.Second))
	l.exec(`insert into {schema}.workflow_runs (id, definition, group_id, remaining, events, queue, state, slow, created_at, finished_at, tenant, origin, input)
		select {id}, d.list[1 + n % cardinality(d.list)], tn, 1, 2, 1, st, false, at, case when st = 10 then now() end, 'tenant-' || tn, 'api', '{"amount": 42}'
		from (select array_agg(definition order by definition) as list from {schema}.workflow_definitions) d,
			(select n, $1::timestamptz + n * interval '1 millisecond' as at, case when n % 10000 = 0 then 1 when n % 100 = 1 then 10 else 3 end as st, {tenant} as tn
			from generate_series(1, $2::int) n) z`, time.Now().Add(-time.Hour), live)
	for _, table := range []string{"workflow_runs", "run_history", "run_counts", "run_counts_hourly", "run_count_deltas"} {
		l.exec("vacuum analyze {schema}." + table)
	}
	l.exec("checkpoint")
}

// exec runs a statement in which {id} stands for the id of a run of the instant at and the
// number n, and {tenant} for a tenant: a few have most runs.
func (l *lists) exec(sql string, args ...any) {
	l.b.Helper()
	const id = `(lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0')
		|| '8' || lpad(to_hex(('x' || substr(md5(n::text), 1, 8))::bit(32)::bigint), 15, '0'))::uuid`
	const tenant = `1 + floor(200 * power(('x' || substr(md5('t' || n), 1, 7))::bit(28)::int::float8 / 268435456.0, 3))::int`
	sql = strings.NewReplacer("{schema}", pgx.Identifier{l.store.Schema}.Sanitize(), "{id}", id, "{tenant}", tenant).Replace(sql)
	_, err := l.store.EmbedderPool.Exec(l.ctx, sql, args...)
	require.NoError(l.b, err)
}

// Tenants with most runs, with few, and with some more.
const largest, smallest, small = "tenant-1", "tenant-190", "tenant-150"

// filterCase is a filter by its name.
type filterCase struct {
	name   string
	filter func(n int) persistence.RunFilter
}

// lists measures listings.
func (l *lists) lists() {
	for _, c := range append(l.states(), l.failures()...) {
		calls, rows, ends := 0, 0, 0
		times := l.time(func(n int) {
			filter := c.filter(n)
			filter.Limit = 50
			page, err := l.store.ListRuns(l.ctx, filter)
			require.NoError(l.b, err)
			calls++
			rows += len(page.Rows)
			if page.Next.IsZero() || len(page.Rows) == filter.Limit {
				ends++
			}
		})
		l.tell("list/"+c.name, times, map[string]float64{
			"runs": float64(rows) / float64(calls), "%whole": 100 * float64(ends) / float64(calls),
		})
	}
}

// states are listings by tenant, time and state.
func (l *lists) states() []filterCase {
	failed := []lifecycle.State{lifecycle.Failed}
	ago := l.first.AddDate(0, 0, listsDays/3)
	return []filterCase{
		{"all", func(int) persistence.RunFilter { return persistence.RunFilter{} }},
		{"tenant", func(int) persistence.RunFilter { return persistence.RunFilter{Tenant: largest} }},
		{"tenant-small", func(int) persistence.RunFilter { return persistence.RunFilter{Tenant: smallest} }},
		{"old", func(n int) persistence.RunFilter {
			return persistence.RunFilter{Until: ago.Add(time.Duration(n) * time.Minute)}
		}},
		{"old-tenant", func(n int) persistence.RunFilter {
			return persistence.RunFilter{Tenant: smallest, Until: ago.Add(time.Duration(n) * time.Minute)}
		}},
		{"hour", func(n int) persistence.RunFilter {
			return persistence.RunFilter{Since: ago.Add(time.Duration(n) * time.Minute), Until: ago.Add(time.Duration(n+60) * time.Minute)}
		}},
		{"hour-failed", func(n int) persistence.RunFilter {
			return persistence.RunFilter{States: failed, Since: ago.Add(time.Duration(n) * time.Minute), Until: ago.Add(time.Duration(n+60) * time.Minute)}
		}},
		{"pending", func(int) persistence.RunFilter {
			return persistence.RunFilter{States: []lifecycle.State{lifecycle.Pending}}
		}},
		{"running", func(int) persistence.RunFilter {
			return persistence.RunFilter{States: []lifecycle.State{lifecycle.Running}}
		}},
		{"pending-tenant", func(int) persistence.RunFilter {
			return persistence.RunFilter{Tenant: smallest, States: []lifecycle.State{lifecycle.Pending}}
		}},
		{"completed", func(int) persistence.RunFilter {
			return persistence.RunFilter{States: []lifecycle.State{lifecycle.Completed}}
		}},
	}
}

// failures are listings of failures, and by what else a run has.
func (l *lists) failures() []filterCase {
	failed := []lifecycle.State{lifecycle.Failed}
	order := func(n int) map[string]string {
		return map[string]string{"order": fmt.Sprintf("o-%d", (1+n*37)%max(l.perDay/5, 1)*5)}
	}
	return []filterCase{
		{"failed", func(int) persistence.RunFilter { return persistence.RunFilter{States: failed} }},
		{"failed-history", func(int) persistence.RunFilter {
			return persistence.RunFilter{States: failed, Until: l.first.AddDate(0, 0, listsDays)}
		}},
		{"failed-tenant", func(int) persistence.RunFilter { return persistence.RunFilter{States: failed, Tenant: smallest} }},
		{"failed-workflow-tenant", func(int) persistence.RunFilter {
			return persistence.RunFilter{States: failed, Tenant: small, Workflow: "wf-8"}
		}},
		{"workflow", func(n int) persistence.RunFilter {
			return persistence.RunFilter{Workflow: fmt.Sprintf("wf-%d", 1+n%listsWorkflows)}
		}},
		{"workflow-none", func(int) persistence.RunFilter { return persistence.RunFilter{Workflow: "none"} }},
		{"label", func(n int) persistence.RunFilter { return persistence.RunFilter{Labels: order(n)} }},
		{"label-history", func(n int) persistence.RunFilter {
			return persistence.RunFilter{Labels: order(n), Until: l.first.AddDate(0, 0, listsDays)}
		}},
		{"label-common", func(int) persistence.RunFilter {
			return persistence.RunFilter{Labels: map[string]string{"region": "eu"}}
		}},
		{"label-common-failed", func(int) persistence.RunFilter {
			return persistence.RunFilter{Labels: map[string]string{"region": "eu"}, States: failed}
		}},
		{"label-tenant", func(n int) persistence.RunFilter { return persistence.RunFilter{Tenant: largest, Labels: order(n)} }},
		{"key-tenant", func(n int) persistence.RunFilter {
			return persistence.RunFilter{Tenant: largest, Key: fmt.Sprintf("k-%d-%d", 50*(n+1), n%listsDays)}
		}},
		{"key", func(n int) persistence.RunFilter {
			return persistence.RunFilter{Key: fmt.Sprintf("k-%d-%d", 50*(n+1), n%listsDays)}
		}},
		{"origin", func(int) persistence.RunFilter { return persistence.RunFilter{Origin: "message"} }},
		{"class", func(int) persistence.RunFilter { return persistence.RunFilter{Class: "timeout"} }},
		{"class-tenant", func(int) persistence.RunFilter { return persistence.RunFilter{Class: "timeout", Tenant: smallest} }},
		{"failed-step", func(int) persistence.RunFilter { return persistence.RunFilter{FailedStep: "c"} }},
		{"failed-step-none", func(int) persistence.RunFilter { return persistence.RunFilter{FailedStep: "d"} }},
	}
}

// counts measures counts.
func (l *lists) counts() {
	ended := []lifecycle.State{lifecycle.Completed, lifecycle.Failed, lifecycle.Canceled}
	live := []lifecycle.State{lifecycle.Pending, lifecycle.Running}
	now := time.Now()
	for _, c := range []struct {
		name   string
		filter persistence.CountFilter
	}{
		{"ended", persistence.CountFilter{States: ended}},
		{"ended-shared", persistence.CountFilter{States: ended, MaxAge: 2 * time.Second}},
		{"ended-tenant", persistence.CountFilter{States: ended, Tenant: largest}},
		{"ended-workflow", persistence.CountFilter{States: ended, Workflow: "wf-3"}},
		{"ended-by-tenant", persistence.CountFilter{States: ended, By: persistence.ByTenant}},
		{"ended-by-workflow", persistence.CountFilter{States: ended, By: persistence.ByWorkflow}},
		{"ended-by-hour", persistence.CountFilter{States: ended, By: persistence.ByHour, Since: now.Add(-24 * time.Hour)}},
		{"ended-week", persistence.CountFilter{States: ended, Since: now.AddDate(0, 0, -7)}},
		{"live", persistence.CountFilter{States: live}},
		{"live-shared", persistence.CountFilter{States: live, MaxAge: 2 * time.Second}},
		{"live-tenant", persistence.CountFilter{States: live, Tenant: smallest}},
		{"all-shared", persistence.CountFilter{MaxAge: 2 * time.Second}},
	} {
		var total int64
		times := l.time(func(int) {
			counts, err := l.store.CountRuns(l.ctx, c.filter)
			require.NoError(l.b, err)
			total = 0
			for _, count := range counts {
				total += count.Runs
			}
		})
		l.tell("count/"+c.name, times, map[string]float64{"runs": float64(total)})
	}
}

// time measures calls, after some that do not count.
func (l *lists) time(call func(n int)) (times []time.Duration) {
	for n := range 2 {
		call(n)
	}
	for n := range *listsRounds {
		start := time.Now()
		call(n)
		times = append(times, time.Since(start))
	}
	return times
}

func (l *lists) tell(name string, times []time.Duration, more map[string]float64) {
	l.b.Run(name, func(b *testing.B) {
		for range b.N { // measured already
			continue
		}
		b.ReportMetric(float64(median(times).Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(quantile(times, 99).Microseconds())/1000, "p99-ms")
		for unit, value := range more {
			b.ReportMetric(value, unit)
		}
		b.ReportMetric(0, "ns/op")
	})
}
