package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/cluster"
)

//go:embed sql/notify.sql
var notifySQL string

// errQueueFull: a commit that notifies would fail.
var errQueueFull = fmt.Errorf("%w: the server's queue of notifications is full, of all databases together: "+
	"end the session that listens and has had a transaction open for long (pg_stat_activity); notifications work again then", cluster.ErrUnheard)

// queueFull reports whether the server has refused a commit because of its
// notification.
func queueFull(err error) bool {
	const programLimitExceeded = "54000"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == programLimitExceeded
}

// Notify implements cluster.Notifier on the pool. How often is the caller's
// to limit (cluster.NotifyDelay).
func (a *Adapter) Notify(ctx context.Context, notice cluster.Notice) error {
	if notice.Ping == nil && len(notice.Wakes) == 0 {
		return nil
	}
	said, err := a.pool.Exec(ctx, notifySQL, a.channel, Payloads(notice))
	if err == nil && said.RowsAffected() == 0 {
		err = errQueueFull
	}
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// NotifyTx adds a notice that names no pod to the caller's transaction: all
// listening pods get it when that commits, and none if it does not. Commits
// that notify take turns, so it is for clusters without a stream. Where the server has
// no room for a notification the transaction goes without: pods find its rows when
// they sweep.
func (a *Adapter) NotifyTx(ctx context.Context, tx pgx.Tx, wakes ...cluster.Wake) error {
	if _, err := tx.Exec(ctx, notifySQL, a.channel, Payloads(cluster.Notice{Wakes: wakes})); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
