package registry

import (
	"context"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// Registry implements persistence.Registry but for StepNames. It knows definitions,
// Queues and tenants by their numbers. It is safe for concurrent use.
type Registry struct {
	*pgsql.DB
	Catalog *catalog
	// Relearned is called when what was learned of the database was forgotten.
	Relearned func()
}

// New returns one that knows nothing yet.
func New(db *pgsql.DB, relearned func()) *Registry {
	r := &Registry{DB: db, Catalog: NewCatalog(), Relearned: relearned}
	db.Relearn = func(ctx context.Context) error { return r.RegisterAgain(ctx, nil) }
	return r
}
