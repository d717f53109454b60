package postgres

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/readers"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
)

// Reader reads a schema, for programs that are no pod. It has no lease, and a hot standby
// will do. It is safe for concurrent use.
type Reader struct {
	*pgsql.DB
	*registry.Registry
	readers.Reader
}

var _ persistence.Reader = (*Reader)(nil)

// OpenReader connects to a schema that migrations.Migrate has brought up to date. It checks
// that the database answers. Close gives the connections back.
func OpenReader(ctx context.Context, options Options) (*Reader, error) {
	options = options.withDefaults()
	own := options.sessions()
	own.Reads = true
	db, err := openDB(ctx, options, own)
	if err != nil {
		return nil, fmt.Errorf("open reader: %w", err)
	}
	r := &Reader{DB: db, Registry: registry.New(db, func() {})}
	r.Reader = readers.Reader{DB: db, Graphs: r.Registry, User: options.Pool}
	if err := r.LoadQueues(ctx); err != nil {
		r.Close()
		return nil, fmt.Errorf("open reader: %w", notMigrated(err, options.Schema))
	}
	return r, nil
}

// Close closes the reader's own connections. It waits for statements in flight.
func (r *Reader) Close() { r.Conns.Close() }
