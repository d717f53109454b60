package postgres

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// Steps begins the transactions of steps on the embedder's pool. It is safe for
// concurrent use.
type Steps struct {
	*pgsql.DB
	user       *pgxpool.Pool // the embedder's
	lineage    *wire.Lineage // of the servers that user leads to; nil: nothing is known
	patience   *poolPatience // with user
	forgetting *forgetting   // prepared statements that connections of user have lost
}

// NewSteps returns what begins transactions on a pool. log may be nil.
func NewSteps(db *pgsql.DB, user *pgxpool.Pool, log *slog.Logger) Steps {
	return Steps{DB: db, user: user, patience: &poolPatience{most: borrowMax}, forgetting: &forgetting{log: log}}
}
