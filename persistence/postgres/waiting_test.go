package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// However many tasks wait for a signal, an idle pod sends the same statements, each of which
// reads the same pages; and a claim beside them reads what it grants.
func TestTasksThatWaitCostIdlePodsNothing(t *testing.T) {
	t.Parallel()
	costNothing(t, pgtest.Scale(20_000, 100_000), []*workflow.Graph{storetest.Gates()}, func(k *fixture, n int) {
		k.start(storetest.Gates(), "b", (n+2)/3)
	})
}

// costNothing compares what an idle pod and a claim read before n tasks of graphs wait and
// afterwards. The store that begins them is another one.
func costNothing(t *testing.T, n int, graphs []*workflow.Graph, begin func(k *fixture, n int)) (k *fixture, epoch int64, seen *script) {
	t.Helper()
	seen = &script{}
	k = newFixture(openDatabase(t, Options{Tracer: seen}), append(graphs, storetest.Single())...)
	pod := k.join(time.Hour)
	epoch = k.bump(pod)
	k.start(storetest.Single(), "a", 1) // the counters of the tenant, and its queue, are there
	k.finish(pod)
	k.archived(epoch, persistence.Archive{})
	calls := []struct {
		name string
		do   func()
	}{
		{"renew", func() { k.renew(persistence.Renewal{Pod: pod, TTL: time.Hour}) }},
		{"drain", func() { k.drain(10) }},
		{"fire", func() { k.fire(epoch, 10) }},
		{"expire", func() { k.expire(epoch, 10) }},
		{"park", func() { k.park(epoch, 10) }},
		{"claim", func() { require.Empty(t, k.claim(pod, 10)) }},
	}
	for _, call := range calls {
		call.do() // the first one of a connection says more
	}
	measure := func() (costs map[string]price, claim []statement) {
		t.Helper()
		costs = map[string]price{}
		require.NoError(t, k.analyze(k.ctx))
		for _, call := range calls {
			seen.take()
			call.do()
			claim = seen.take()
			costs[call.name] = k.explained(claim)
			t.Logf("%s: %+v", call.name, costs[call.name])
		}
		return costs, claim
	}
	empty, claim := measure()
	const ready = 10
	k.start(storetest.Single(), "a", ready)
	require.NoError(t, k.analyze(k.ctx))
	alone := k.explained(claim)
	t.Logf("claim of %d: %+v", ready, alone)
	require.Positive(t, alone.rows)
	k.finish(pod)
	k.archived(epoch, persistence.Archive{})

	begin(k.starts(graphs...), n)
	require.GreaterOrEqual(t, value[int](k.database, "select count(*)::int from {schema}.tasks where state = $1", int16(lifecycle.Waiting)), n)
	beside, _ := measure()
	for name, cost := range empty {
		require.Equal(t, cost.names, beside[name].names, name)
		require.Equal(t, cost.rows, beside[name].rows, name)
		require.LessOrEqual(t, beside[name].pages, cost.pages+pagesMore, name)
	}
	k.start(storetest.Single(), "a", ready)
	require.NoError(t, k.analyze(k.ctx))
	crowded := k.explained(claim)
	t.Logf("claim of %d beside %d: %+v", ready, n, crowded)
	require.Equal(t, alone.rows, crowded.rows)
	require.LessOrEqual(t, crowded.pages, alone.pages+pagesMore*(ready+1))
	require.Len(t, k.claim(pod, ready), ready)
	return k, epoch, seen
}

// pagesMore is how many pages more a look into indexes may read that have grown by some levels,
// and of which vacuum has left some pages empty.
const pagesMore = 20

// statement is what was sent to PostgreSQL.
type statement struct {
	sql  string
	args []any
}

// script keeps the statements of a store, without what begins and ends transactions.
type script struct {
	mu   sync.Mutex
	sent []statement
}

var _ pgx.QueryTracer = (*script)(nil)

// TraceQueryStart implements pgx.QueryTracer.
func (s *script) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "/* troupe ") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, statement{data.SQL, slices.Clone(data.Args)})
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*script) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns the statements since the last call.
func (s *script) take() []statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// price is what statements take together.
type price struct {
	names []string
	pages float64 // that were read, most of them in memory
	rows  float64 // of tables that grow
}

// explained carries out statements once more, in a transaction that is undone.
func (k *fixture) explained(sent []statement) (sum price) {
	k.t.Helper()
	tx, err := k.store.Conns.Begin(k.ctx)
	require.NoError(k.t, err)
	defer func() { require.NoError(k.t, tx.Rollback(k.ctx)) }()
	for _, s := range sent {
		var plan string
		require.NoError(k.t, tx.QueryRow(k.ctx, "explain (analyze, buffers, timing off, format json) "+s.sql, s.args...).Scan(&plan))
		var roots []struct {
			Plan struct {
				Hit  float64 `json:"Shared Hit Blocks"`
				Read float64 `json:"Shared Read Blocks"`
			}
		}
		require.NoError(k.t, json.Unmarshal([]byte(plan), &roots))
		rows, scanned := reads(k.t, plan)
		require.Empty(k.t, scanned)
		sum.names = append(sum.names, strings.Fields(s.sql)[2])
		sum.pages += roots[0].Plan.Hit + roots[0].Plan.Read
		sum.rows += rows
	}
	return sum
}
