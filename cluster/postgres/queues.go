package postgres

import (
	"context"
	_ "embed"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed sql/queue_names.sql
var queueNamesSQL string

// queueNames knows the queues by their numbers, which never change. It grows
// with the table of queues and no further.
type queueNames struct {
	pool    *pgxpool.Pool
	query   string
	timeout time.Duration

	mu    sync.Mutex
	known map[string]string // the number as the stream writes it
}

func newQueueNames(pool *pgxpool.Pool, config Config) *queueNames {
	return &queueNames{
		pool: pool, query: statement(queueNamesSQL, config.Schema), timeout: config.QueueNameDeadline, known: map[string]string{},
	}
}

// name returns a queue's name, or "" (any queue) if it cannot be found out.
func (q *queueNames) name(ctx context.Context, number string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name, ok := q.known[number]; ok {
		return name
	}
	if err := q.load(ctx); err != nil {
		return "" // asked again by the next row
	}
	return q.known[number]
}

func (q *queueNames) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	rows, err := q.pool.Query(ctx, q.query)
	if err != nil {
		return err
	}
	var number, name string
	_, err = pgx.ForEachRow(rows, []any{&number, &name}, func() error {
		q.known[number] = name
		return nil
	})
	return err
}
