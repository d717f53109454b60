package postgres

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// commitBreaker breaks a connection with its next commit, when armed.
type commitBreaker struct{ armed atomic.Bool }

// TraceQueryStart implements pgx.QueryTracer.
func (c *commitBreaker) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.EqualFold(data.SQL, "commit") || !c.armed.CompareAndSwap(true, false) {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*commitBreaker) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What a transaction that was not committed has skipped, a later one may not skip:
// a child that is granted at once sees what is in the tables.
func TestWhatWasSkippedIsKnownOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	g := storetest.Graph(workflow.Definition{Name: "eitheror", Output: 4, Steps: []workflow.Step{
		{Name: "choose"},
		{Name: "side"},
		{Name: "yes", Parents: []workflow.Edge{{Parent: 0, Kind: workflow.Plain}}, Conditions: []workflow.Condition{{Kind: workflow.Then}}},
		{Name: "no", Parents: []workflow.Edge{{Parent: 0, Kind: workflow.Plain}}, Conditions: []workflow.Condition{{Kind: workflow.Otherwise}}},
		{Name: "merge", Parents: []workflow.Edge{
			{Parent: 2, Kind: workflow.Maybe}, {Parent: 3, Kind: workflow.Maybe}, {Parent: 1, Kind: workflow.Plain},
		}},
	}})
	config, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	cut := &commitBreaker{}
	config.ConnConfig.Tracer = cut
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	k := newFixture(openSchema(t, user, Options{}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 1)
	by := map[string]persistence.Grant{}
	for _, grant := range k.claim(pod, 10) {
		by[grant.Step] = grant
	}
	choose := func(skip string, fails bool) error {
		record := k.completion(pod, by["choose"])
		chosen := record.Transitions[0]
		record.Transitions = nil
		chosen.Edges = []persistence.EdgeResult{{Child: skip, Flags: lifecycle.FlagSkip}}
		_, err := k.store.RecordInTx(k.ctx, record, func(context.Context, any) (persistence.Transition, error) {
			cut.armed.Store(fails)
			return chosen, nil
		})
		return err
	}
	require.Error(t, choose("yes", true))
	require.NoError(t, choose("no", false))
	k.complete(pod, k.claim(pod, 10)...) // yes
	record := k.completion(pod, by["side"])
	record.Limit, record.Handlers, record.Queues = 10, k.handlers, []string{registry.DefaultQueue}
	out := k.record(record)
	require.Len(t, out.Grants, 1)
	stored, err := k.store.loadGrants(k.ctx, k.store.Conns, pod, record.Claim, persistence.InlinePayloadMax)
	require.NoError(t, err)
	require.Equal(t, stored[0].Parents, out.Grants[0].Parents)
	require.Equal(t, lifecycle.Completed, out.Grants[0].Parents[0].State)
}
