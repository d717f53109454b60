package postgres

import (
	"context"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// BumpEpoch implements persistence.Leadership.
func (s *Store) BumpEpoch(ctx context.Context, holder int64) (epoch int64, err error) {
	text, args := s.Bind("bump_epoch", pgsql.Named{"holder": holder})
	err = pgerr.Retry(ctx, func(ctx context.Context) error { return s.Conns.QueryRow(ctx, text, args...).Scan(&epoch) })
	return epoch, err
}
