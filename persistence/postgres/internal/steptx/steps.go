package steptx

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
	EmbedderPool *pgxpool.Pool // the embedder's
	PoolLineage  *wire.Lineage // of the servers that user leads to; nil: nothing is known
	Patience     *poolPatience // with user
	Forgetting   *forgetting   // prepared statements that connections of user have lost
}

// New returns what begins transactions on a pool. log may be nil.
func New(db *pgsql.DB, user *pgxpool.Pool, log *slog.Logger) Steps {
	return Steps{DB: db, EmbedderPool: user, Patience: &poolPatience{Most: borrowMax}, Forgetting: &forgetting{log: log}}
}
