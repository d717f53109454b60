package bare

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

const (
	listenSQL = `listen bare`
	notifySQL = `notify bare`
)

// ear hears of what other processes triggered.
type ear struct {
	conn    *pgx.Conn
	stop    context.CancelFunc
	hearing sync.WaitGroup
}

// listen calls wake at each notification, until the ear is closed.
func listen(ctx context.Context, url string, wake func()) (*ear, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	e := &ear{conn: conn}
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		e.hangUp(ctx)
		return nil, err
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.hearing.Go(func() {
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return // closed; without it, the loop looks every now and then
			}
			wake()
		}
	})
	return e, nil
}

func (e *ear) close() {
	e.stop()
	e.hearing.Wait()
	e.hangUp(context.Background())
}

func (e *ear) hangUp(ctx context.Context) {
	_ = e.conn.Close(ctx) // what it leaves behind goes with the database
}
