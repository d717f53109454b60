package postgres

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/troupe-dev/troupe/cluster"
)

//go:embed sql/notify.sql
var notifySQL string

// Notify implements cluster.Notifier on the pool. How often is the caller's
// to limit (cluster.RelayDelay).
func (a *Adapter) Notify(ctx context.Context, notice cluster.Notice) error {
	if notice.Ping == nil && len(notice.Wakes) == 0 {
		return nil
	}
	if _, err := a.pool.Exec(ctx, notifySQL, a.channel, Payloads(notice)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
