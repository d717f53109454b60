package postgres

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/cluster"
)

//go:embed sql/notify.sql
var notifySQL string

// Notify implements cluster.Notifier on the pool. How often is the caller's
// to limit (cluster.NotifyDelay).
func (a *Adapter) Notify(ctx context.Context, notice cluster.Notice) error {
	if notice.Ping == nil && len(notice.Wakes) == 0 {
		return nil
	}
	if _, err := a.pool.Exec(ctx, notifySQL, a.channel, Payloads(notice)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// NotifyTx adds a notice of nobody in particular to the caller's transaction:
// all listening pods get it when that commits, and none if it does not. Commits
// that notify take turns, so it is for clusters without a stream.
func (a *Adapter) NotifyTx(ctx context.Context, tx pgx.Tx, wakes ...cluster.Wake) error {
	if _, err := tx.Exec(ctx, notifySQL, a.channel, Payloads(cluster.Notice{Wakes: wakes})); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
