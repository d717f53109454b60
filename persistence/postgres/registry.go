package postgres

import (
	"context"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// Registry implements persistence.Registry but for StepNames. It knows definitions,
// queues and tenants by their numbers. It is safe for concurrent use.
type Registry struct {
	*pgsql.DB
	catalog *catalog
	// Relearned is called when what was learned of the database was forgotten.
	Relearned func()
}

// NewRegistry returns one that knows nothing yet.
func NewRegistry(db *pgsql.DB, relearned func()) *Registry {
	r := &Registry{DB: db, catalog: newCatalog(), Relearned: relearned}
	db.Relearn = func(ctx context.Context) error { return r.registerAgain(ctx, nil) }
	return r
}
