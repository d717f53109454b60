package postgres

import (
	"context"
	_ "embed"
	"time"
)

//go:embed sql/visible.sql
var visibleSQL string

const (
	// visibleWithin bounds the wait for a commit to be seen. It is longer only
	// where commits wait for a synchronous standby that does not answer.
	visibleWithin = 250 * time.Millisecond
	visiblePause  = time.Millisecond // between two looks, beyond the first few
	visibleEager  = 3                // looks without a pause: mostly the first or second sees it
)

// awaitVisible returns once other sessions see what the transactions committed.
// The stream has a commit when it is on disk, which is before that: in a
// benchmark, several wakes in a hundred were too early for the claim that they
// caused. It gives up after a while or when it cannot look, because a wake may
// be early, and a late one is worse.
func (a *Adapter) awaitVisible(ctx context.Context, transactions []int64) {
	if len(transactions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, visibleWithin)
	defer cancel()
	for look := 1; ; look++ {
		var visible bool
		if err := a.pool.QueryRow(ctx, visibleSQL, transactions).Scan(&visible); err != nil || visible {
			return
		}
		if look < visibleEager {
			continue
		}
		pause, done := context.WithTimeout(ctx, visiblePause)
		<-pause.Done()
		done()
	}
}
