package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// patience bounds every wait of these tests; none of them expects to use it up.
const patience = time.Minute

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a database with a schema of the engine in it.
type world struct {
	url    string
	schema string
	pool   *pgxpool.Pool
}

func newWorld(tb testing.TB, address, schema string) world {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), address)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	report, err := migrations.Migrate(tb.Context(), pool, schema)
	require.NoError(tb, err)
	tb.Log(report)
	w := world{url: address, schema: schema, pool: pool}
	w.exec(tb, `insert into {schema}.queues values (100, 'first'), (101, 'mail, "fast" \ ü')`)
	return w
}

// freshWorld is one on the shared server.
func freshWorld(tb testing.TB) world {
	tb.Helper()
	address := pgtest.Copy(tb, "world", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		_, err = migrations.Migrate(ctx, pool, "troupe")
		return err
	})
	return newWorld(tb, address, "troupe")
}

// adapter returns the adapter of one pod; change may set what a test needs.
func (w world) adapter(tb testing.TB, pod int64, change ...func(*postgres.Config)) *postgres.Adapter {
	tb.Helper()
	config := postgres.Config{
		Schema: w.schema, Pod: func() int64 { return pod },
		SlotTimeout: patience / 2, // a slot waits for the writers of all databases, and tests beside this one copy some
	}
	for _, c := range change {
		c(&config)
	}
	a, err := postgres.New(w.pool, config)
	require.NoError(tb, err)
	return a
}

// exec runs SQL as another client of the database would; {schema} is the engine's.
func (w world) exec(tb testing.TB, sql string, args ...any) int64 {
	tb.Helper()
	tag, err := w.pool.Exec(tb.Context(), strings.ReplaceAll(sql, "{schema}", pgx.Identifier{w.schema}.Sanitize()), args...)
	require.NoError(tb, err)
	return tag.RowsAffected()
}

func (w world) count(tb testing.TB, sql string, args ...any) (n int) {
	tb.Helper()
	require.NoError(tb, w.pool.QueryRow(tb.Context(), sql, args...).Scan(&n))
	return n
}

// slots counts the replication slots of this database.
func (w world) slots(tb testing.TB) int {
	tb.Helper()
	return w.count(tb, "select count(*) from pg_replication_slots where database = current_database()")
}

// terminate ends the sessions of a role ("stream", "leader", "listener").
func (w world) terminate(tb testing.TB, role string) {
	tb.Helper()
	n := w.count(tb, `select count(pg_terminate_backend(pid)) from pg_stat_activity
		where datname = current_database() and application_name like 'troupe '||$1||' '||$2||' %'`, role, w.schema)
	require.NotZero(tb, n, "sessions of the %s", role)
}

// as is the world's address for another role.
func (w world) as(tb testing.TB, role string) string {
	tb.Helper()
	u, err := url.Parse(w.url)
	require.NoError(tb, err)
	u.User = url.UserPassword(role, role)
	return u.String()
}

// heard is something that runs until it is stopped, and what it brings.
type heard[T any] struct {
	got  chan T
	done chan error
	stop context.CancelFunc
}

// begin starts run and waits until it is connected. It ends with the test.
func begin[T any](tb testing.TB, run func(ctx context.Context, connected func(), sink func(T)) error) *heard[T] {
	tb.Helper()
	ctx, stop := context.WithCancel(tb.Context())
	h := &heard[T]{got: make(chan T, 100_000), done: make(chan error, 1), stop: stop}
	connected := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.done <- run(ctx, func() { close(connected) }, func(item T) { h.got <- item })
	}()
	tb.Cleanup(func() { stop(); <-ended })
	select {
	case <-connected:
	case err := <-h.done:
		require.NoError(tb, err, "before it was connected")
	case <-time.After(patience):
		require.Fail(tb, "not connected in time")
	}
	return h
}

// next is the next item.
func (h *heard[T]) next(tb testing.TB) T {
	tb.Helper()
	select {
	case item := <-h.got:
		return item
	case err := <-h.done:
		require.NoError(tb, err, "ended while an item was due")
	case <-time.After(patience):
		require.Fail(tb, "nothing came in time")
	}
	panic("unreachable")
}

// end is why it ended.
func (h *heard[T]) end(tb testing.TB) error {
	tb.Helper()
	select {
	case err := <-h.done:
		return err
	case <-time.After(patience):
		require.Fail(tb, "did not end in time")
		return nil
	}
}

func stream(tb testing.TB, a *postgres.Adapter) *heard[[]cluster.Wake] {
	tb.Helper()
	return begin(tb, a.Read)
}

func listen(tb testing.TB, a *postgres.Adapter) *heard[cluster.Notice] {
	tb.Helper()
	return begin(tb, a.Listen)
}

// gather collects wakes until there are n of them.
func gather(tb testing.TB, h *heard[[]cluster.Wake], n int) []cluster.Wake {
	tb.Helper()
	var wakes []cluster.Wake
	for len(wakes) < n {
		wakes = append(wakes, h.next(tb)...)
	}
	return wakes
}

// eventually waits for a condition of the database.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			require.Fail(tb, "not in time: "+what)
		}
	}
}

// logs is a logger whose lines a test can read.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
