package wire_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/internal/wire"
)

// fragile is a tracer that counts what it sees, and then panics if it is to.
type fragile struct {
	seen   map[string]int
	panics bool
}

func (f *fragile) see(what string) {
	f.seen[what]++
	if f.panics {
		panic("no span")
	}
}

type mark struct{}

func (f *fragile) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	f.see("query")
	return context.WithValue(ctx, mark{}, true)
}

func (f *fragile) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(mark{}) != nil {
		f.see("marked")
	}
	f.see("query ended")
}

func (f *fragile) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	f.see("batch")
	return ctx
}

func (f *fragile) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	f.see("batch query")
}

func (f *fragile) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {
	f.see("batch ended")
}

func (f *fragile) TraceRelease(*pgxpool.Pool, pgxpool.TraceReleaseData) { f.see("released") }

// A tracer of the embedder's that panics costs no connection, and one that does
// not sees everything.
func TestATracerThatPanicsCostsNoConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	for _, panics := range []bool{false, true} {
		var log bytes.Buffer
		tracer := &fragile{seen: map[string]int{}, panics: panics}
		config, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		config.MaxConns = 1
		config.ConnConfig.Tracer = wire.Contain(tracer, slog.New(slog.NewTextHandler(&log, nil)))
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		for range 5 {
			_, err = pool.Exec(t.Context(), "select 1")
			require.NoError(t, err)
			batch := &pgx.Batch{}
			batch.Queue("select 2")
			require.NoError(t, pool.SendBatch(t.Context(), batch).Close())
		}
		pool.Close()
		want := map[string]int{"query": 5, "query ended": 5, "batch": 5, "batch query": 5, "batch ended": 5, "released": 10}
		told := 1
		if !panics {
			want["marked"], told = 5, 0
		}
		require.Equal(t, want, tracer.seen)
		require.Equal(t, told, strings.Count(log.String(), "no span"))
	}
	require.Nil(t, wire.Contain(nil, nil))
}
