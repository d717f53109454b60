package history

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// historyPatience is how long work on history waits for a lock. It can be done later;
// the sessions that queue up behind it cannot wait.
const historyPatience = "100ms"

// leadHistory runs do as the leader, with a short lock timeout. A lock that is not
// granted is no error: done is false then.
func (s *History) leadHistory(ctx context.Context, epoch int64, do func(context.Context, pgx.Tx) error) (done bool, err error) {
	return granted(s.Fenced(ctx, epoch, s.patiently(do)))
}

// patiently is do with a short lock timeout.
func (s *History) patiently(do func(context.Context, pgx.Tx) error) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		err := s.Exec(ctx, tx, "set_local", pgsql.Named{
			// Hash joins: what is archived at once is joined to itself. The last says that the
			// caller counts what it moves.
			"names": []string{"lock_timeout", "enable_hashjoin", "troupe.counts"}, "values": []string{historyPatience, "on", "on"},
		})
		if err != nil {
			return err
		}
		return do(ctx, tx)
	}
}

func granted(err error) (done bool, _ error) {
	if errors.Is(err, pgerr.ErrLockTimeout) {
		return false, nil
	}
	return err == nil, err
}
