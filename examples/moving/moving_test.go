package moving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/troupetest"
)

// fulfilment waits for a day, and ships.
func fulfilment(ship func(o Order) error) *troupe.Workflow[Order, string] {
	return troupe.Define("orders", func(b *troupe.Builder[Order]) troupe.StepRef[string] {
		day := troupe.Sleep(b, "a-day", 24*time.Hour)
		return troupe.Step0(b, "ship", func(_ context.Context, o Order) (string, error) { return o.ID + " shipped", ship(o) }, troupe.After(day))
	})
}

// onDatabase gives a shop that moves, with its tables.
func onDatabase(t *testing.T, breaker *Breaker, before Before) (*Shop, *pgxpool.Pool) {
	t.Helper()
	if os.Getenv(troupetest.DatabaseURL) == "" {
		t.Skip("set " + troupetest.DatabaseURL + " to run the example on PostgreSQL")
	}
	pool := troupetest.Pool(t)
	for _, sql := range []string{
		`create table purchases (id text primary key, cents int not null, queue text not null)`,
		`create table jobs (order_id text primary key)`,
		`create table moving (workflow text primary key, percent int not null)`,
		`insert into moving values ('orders', 0)`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), `drop table purchases, jobs, moving`) })
	engine := troupetest.Engine(t, pool, troupe.Config{})
	orders := troupetest.Register(t, engine, fulfilment(func(Order) error { return nil }))
	troupetest.Start(t, engine)
	return &Shop{pool: pool, before: before, orders: orders, breaker: breaker}, pool
}

// moved lets so many percent of the orders go to troupe.
func moved(t *testing.T, pool *pgxpool.Pool, percent int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `update moving set percent = $1`, percent)
	require.NoError(t, err)
}

// count counts rows.
func count(t *testing.T, pool *pgxpool.Pool, of string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from `+of).Scan(&n))
	return n
}

// A share of the orders has its work on troupe, the others have it where it was. Each order is in
// one of the two. An order that was moved can be taken back.
func TestMoving(t *testing.T) {
	breaker := &Breaker{Rest: time.Hour, Least: 1}
	shop, pool := onDatabase(t, breaker, Table{})
	place := func(from, to int) (on map[string]int) {
		on = map[string]int{}
		for i := from; i < to; i++ {
			queue, err := shop.Place(t.Context(), Order{ID: fmt.Sprintf("o-%d", i), Cents: 100})
			require.NoError(t, err)
			on[queue]++
		}
		return on
	}
	require.Equal(t, map[string]int{onBefore: 20}, place(0, 20), "nothing has moved yet")
	moved(t, pool, 100)
	require.Equal(t, map[string]int{onTroupe: 20}, place(20, 40), "all has moved")
	moved(t, pool, 50)
	half := place(40, 80)
	require.NotZero(t, half[onBefore])
	require.NotZero(t, half[onTroupe])

	run, err := shop.orders.GetByKey(t.Context(), "", "o-20")
	require.NoError(t, err)
	for range 2 {
		_, err = shop.TakeBack(t.Context(), Order{ID: "o-20", Cents: 100})
		require.NoError(t, err)
	}
	_, err = run.Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunCanceled)
	require.Equal(t, 20+half[onBefore]+1, count(t, pool, "jobs"))
	require.Equal(t, count(t, pool, "jobs"), count(t, pool, "purchases where queue = 'before'"))

	moved(t, pool, 100)
	breaker.Record(time.Now(), 10, 10)
	require.Equal(t, map[string]int{onBefore: 5}, place(80, 85), "the breaker is open")
}

// full is a queue that takes nothing.
type full struct{}

func (full) Enqueue(context.Context, pgx.Tx, Order) error { return errors.New("the queue is full") }

// What is refused by either queue leaves no order behind.
func TestMovingIsAtomic(t *testing.T) {
	shop, pool := onDatabase(t, &Breaker{}, full{})
	_, err := shop.Place(t.Context(), Order{ID: "o-1"})
	require.ErrorContains(t, err, "the queue is full")
	require.Zero(t, count(t, pool, "purchases"))
}

// The breaker opens by the share of failures, lets work through after its rest, and closes when that
// succeeds.
func TestBreaker(t *testing.T) {
	t.Parallel()
	b := &Breaker{Share: 0.2, Least: 10, Window: time.Minute, Rest: 5 * time.Minute, Successes: 3}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after         time.Duration
		ended, failed int64
		allows        bool
		why           string
	}{
		{0, 5, 5, true, "too few to judge"},
		{time.Minute, 9, 2, true, "another window, and still too few"},
		{time.Second, 1, 0, true, "a fifth"},
		{time.Second, 1, 1, false, "more than a fifth"},
		{time.Minute, 50, 0, false, "these had begun before"},
		{4 * time.Minute, 0, 0, true, "the rest is over"},
		{time.Second, 2, 1, false, "one fails again"},
		{5 * time.Minute, 2, 0, true, "two succeed"},
		{time.Second, 1, 0, true, "and one more: closed"},
		{time.Second, 9, 1, true, "one failure does not open it"},
	} {
		now = now.Add(step.after)
		b.Record(now, step.ended, step.failed)
		require.Equal(t, step.allows, b.Allow(now), step.why)
	}
}

// The breaker of a workflow opens when its runs fail.
func TestABreakerWatchesRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fails := errors.New("the carrier does not answer")
		engine, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		orders, err := troupe.Register(engine, fulfilment(func(Order) error { return fails }))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		b := &Breaker{Share: 0.5, Least: 4, Window: time.Hour, Rest: time.Hour, Successes: 1}
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() { watched <- b.Watch(ctx, engine.Reader(), "orders", time.Minute) }()
		for range 2 {
			runs, err := orders.RunMany(t.Context(), make([]Order, 2))
			require.NoError(t, err)
			for _, run := range runs {
				_, err := run.Await(t.Context())
				require.ErrorIs(t, err, troupe.ErrRunFailed)
			}
			require.True(t, b.Allow(time.Now()))
		}
		time.Sleep(2 * time.Minute)
		require.True(t, b.Allow(time.Now()), "two in an hour are too few to judge")
		runs, err := orders.RunMany(t.Context(), make([]Order, 4))
		require.NoError(t, err)
		for _, run := range runs {
			_, err := run.Await(t.Context())
			require.ErrorIs(t, err, troupe.ErrRunFailed)
		}
		time.Sleep(2 * time.Minute)
		require.False(t, b.Allow(time.Now()))
		stop()
		require.ErrorIs(t, <-watched, context.Canceled)
	})
}
