package moving

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
)

// Order is what a customer orders.
type Order struct {
	ID    string
	Cents int
}

// Before is the queue from before: River, Temporal, or a table of your own.
type Before interface {
	// Enqueue stores the job of an order in the transaction.
	Enqueue(ctx context.Context, tx pgx.Tx, o Order) error
}

// Shop takes orders, while their work moves from one queue to the other.
type Shop struct {
	pool    *pgxpool.Pool
	before  Before
	orders  *troupe.Handle[Order, string]
	breaker *Breaker
}

// The queues, as the table of orders names them.
const (
	onTroupe = "troupe"
	onBefore = "before"
)

// Place stores an order, and its work in one of the queues, in one transaction: both are there, or
// neither. The order says which queue it is.
func (s *Shop) Place(ctx context.Context, o Order) (queue string, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if queue, err = s.choose(ctx, tx, o); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into purchases (id, cents, queue) values ($1, $2, $3)`, o.ID, o.Cents, queue); err != nil {
			return err
		}
		if queue == onBefore {
			return s.before.Enqueue(ctx, tx, o)
		}
		_, err := s.orders.TriggerTx(ctx, tx, o, troupe.Key(o.ID))
		return err
	})
	return queue, err
}

// choose sends the first so many percent of all orders to troupe: a row says how many. While the
// breaker is open, it is none.
func (s *Shop) choose(ctx context.Context, tx pgx.Tx, o Order) (string, error) {
	var percent uint32
	if err := tx.QueryRow(ctx, `select percent from moving where workflow = 'orders'`).Scan(&percent); err != nil {
		return "", fmt.Errorf("read how much has moved: %w", err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(o.ID))
	if hash.Sum32()%100 < percent && s.breaker.Allow(time.Now()) {
		return onTroupe, nil
	}
	return onBefore, nil
}

// TakeBack cancels the run of an order that has not ended, and gives the order to the queue from
// before. It reports whether it did.
func (s *Shop) TakeBack(ctx context.Context, o Order) (bool, error) {
	run, err := s.orders.GetByKey(ctx, "", o.ID)
	if err != nil {
		return false, err
	}
	if err := run.Cancel(ctx, "taken back"); err != nil {
		return false, err
	}
	for { // a step that runs may finish
		status, err := run.Status(ctx, troupe.WithoutOutputs())
		switch {
		case err != nil:
			return false, err
		case status.State == troupe.StateCompleted || status.State == troupe.StateFailed:
			return false, nil
		case status.State == troupe.StateCanceled:
			return s.giveBack(ctx, o)
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// giveBack does so once, however often it is called.
func (s *Shop) giveBack(ctx context.Context, o Order) (given bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `update purchases set queue = $2 where id = $1 and queue <> $2`, o.ID, onBefore)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		given = true
		return s.before.Enqueue(ctx, tx, o)
	})
	return given && err == nil, err
}

// Table is a queue that a service has made for itself: its workers take rows and delete them.
type Table struct{}

// Enqueue implements Before.
func (Table) Enqueue(ctx context.Context, tx pgx.Tx, o Order) error {
	_, err := tx.Exec(ctx, `insert into jobs (order_id) values ($1)`, o.ID)
	return err
}
