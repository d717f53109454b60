package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/history"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/inbox"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/readers"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/requeue"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
)

// Options say where a store is. Pool is required; everything else has a
// default.
type Options struct {
	// Pool is the user's pool. Steps with InTx run on it; its settings are
	// where the store's own pool connects to, unless Direct is given. It stays
	// the caller's.
	Pool *pgxpool.Pool
	// Direct is where the store's own pool connects to instead. Nil: where Pool
	// does.
	Direct *pgx.ConnConfig
	// Proxied says that Pool connects to a proxy which gives sessions away
	// between two transactions. The store's own pool then does without anything
	// that a session keeps, and goes through the proxy, too; only the lease is
	// renewed on a connection to Direct.
	Proxied bool
	// Schema of the tables; "": troupe.
	Schema string
	// PoolSize is how many connections the store's own pool has at most; 0: 6.
	// The claimer, the journal, the intake and the leader use one each at a
	// time. One more is kept for the renewals of the pod's lease, and if Proxied
	// another for PingPool, once that was called.
	PoolSize int32
	// ApplicationName shows in pg_stat_activity; "": troupe.
	ApplicationName string
	// Tracer sees every statement of the store's own pool; nil: the tracer of
	// where it connects to, if any.
	Tracer pgx.QueryTracer
	// Logger gets what an operator should know; nil: nothing is logged.
	Logger *slog.Logger
	// TenantsMax bounds the number of tenants; 0: lifecycle.GroupMax.
	TenantsMax int32
	// DeadReasons are the failures that become dead letters; none: all.
	DeadReasons []lifecycle.DeadReason
}

// withDefaults replaces what is zero.
func (o Options) withDefaults() Options {
	o.Schema = cmp.Or(o.Schema, "troupe")
	o.ApplicationName = cmp.Or(o.ApplicationName, "troupe")
	o.TenantsMax = cmp.Or(o.TenantsMax, lifecycle.GroupMax)
	if o.PoolSize <= 0 {
		o.PoolSize = defaultPoolSize
	}
	return o
}

// defaultPoolSize is the size of a store's own pool, see Options.PoolSize.
const defaultPoolSize = 6

var _ persistence.Store = (*Store)(nil)

// ErrNotMigrated is returned by Open for a schema without the store's tables.
var ErrNotMigrated = errors.New("the schema has no tables")

// Open connects to a schema that migrations.Migrate has brought up to date. It
// checks that the database answers. Close gives the connections back.
func Open(ctx context.Context, options Options) (*Store, error) {
	options = options.withDefaults()
	own := options.sessions()
	own.Lineage = wire.NewLineage()
	db, err := openDB(ctx, options, own)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lease, err := sessions.OpenLease(ctx, own, db.Conns)
	if err != nil {
		db.Conns.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		recentRunAge:          recentRunAge,
		callDeadline:          pgerr.CallMax + time.Second,
		direct:                options.Direct != nil,
		lease:                 lease,
		servers:               own.Lineage,
		tenantsMax:            options.TenantsMax,
		recent:                adaptive.NewRecent(),
		claims:                adaptive.NewClaims(),
		emptyBelow:            adaptive.NewEmptyBelow(),
		claimFirst:            adaptive.NewFastPath(),
		recordSmall:           adaptive.NewFastPath(),
		triggerSinglesGranted: adaptive.NewFastPath(),
		quarantine:            quarantine.NewLocks(db, options.Logger),
		deadReasons:           options.DeadReasons,
		podID:                 drawPodID,
	}
	s.Steps = steptx.New(db, options.Pool, options.Logger)
	s.addRooms(db)
	if options.Proxied {
		s.proxied, err = sessions.OpenProxied(ctx, own)
	} else {
		s.PoolLineage = own.Lineage
	}
	if err == nil {
		err = s.LoadQueues(ctx)
	}
	if err == nil {
		err = pgerr.Translate(s.lease.Use(ctx, func(on *pgx.Conn) error { return on.Ping(ctx) })) // it is there when it is needed
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("open store: %w", notMigrated(err, options.Schema))
	}
	return s, nil
}

// openDB makes a pool of its own, which connects to nothing yet.
func openDB(ctx context.Context, options Options, own sessions.Options) (*pgsql.DB, error) {
	if options.Pool == nil {
		return nil, errors.New("the pool is nil")
	}
	if err := untyped(options.Pool.Config().ConnConfig.DefaultQueryExecMode); err != nil {
		return nil, err
	}
	texts, err := pgsql.Load(options.Schema)
	if err != nil {
		return nil, err
	}
	pool, err := sessions.Open(ctx, own)
	if err != nil {
		return nil, err
	}
	return &pgsql.DB{Conns: pool, CallerSlots: sessions.NewCallerSlots(own.Size), Statements: texts, Schema: options.Schema}, nil
}

// notMigrated adds the remedy where the tables are missing.
func notMigrated(err error, schema string) error {
	if pgerr.HasCode(err, pgerr.CodeUndefinedTable) || pgerr.HasCode(err, pgerr.CodeUndefinedSchema) {
		return fmt.Errorf("%w: run migrations.Migrate for schema %s first", ErrNotMigrated, schema)
	}
	return err
}

// addRooms makes the parts of the store that are packages of their own.
func (s *Store) addRooms(db *pgsql.DB) {
	s.DB, s.History, s.Registry = db, history.History{DB: db}, registry.New(db, s.recent.Clear)
	s.Reader = readers.Reader{DB: db, Graphs: s.Registry, User: s.EmbedderPool}
	s.Sender = inbox.Sender{DB: db, Graphs: s.Registry}
	s.Requeuer = requeue.Requeuer{DB: db, Registry: s.Registry, Trigger: s.triggerAgain}
}

// triggerAgain stores the run of a requeue.
func (s *Store) triggerAgain(ctx context.Context, tx pgx.Tx, t persistence.Trigger) (persistence.TriggerAnswer, error) {
	return s.triggerInTx(ctx, tx, t, anywhere)
}

// Inspector reads why runs do not move, for programs that are no pod.
type Inspector = readers.Inspector

// NewInspector returns an inspector of a schema ("": troupe). It connects to nothing yet.
func NewInspector(pool *pgxpool.Pool, schema string) (*Inspector, error) {
	return readers.NewInspector(pool, schema)
}

// Close closes the store's own connections. It waits for statements in flight, but not
// for long: what a silent server keeps for longer ends by itself, the goodbyes that
// are not answered after fifteen seconds.
func (s *Store) Close() {
	closed, late := make(chan struct{}), make(chan struct{})
	(clock.System{}).After(0, func() {
		defer close(closed)
		s.Conns.Close()
		s.lease.Close()
		if s.proxied != nil {
			s.proxied.Close()
		}
	})
	defer (clock.System{}).After(closeMax, func() { close(late) })()
	select {
	case <-closed:
	case <-late:
	}
}

// closeMax is how long Close waits: a stop that is to end at once has a second, and half
// of that is for what the pod hands back.
const closeMax = 200 * time.Millisecond

// sessions says where connections go.
func (o Options) sessions() sessions.Options {
	return sessions.Options{
		Pool: o.Pool, Direct: o.Direct, Proxied: o.Proxied, Size: o.PoolSize, Application: o.ApplicationName,
		Tracer: o.Tracer,
	}
}

// Lineage is what the store knows of the servers that it connects to past any proxy.
func (s *Store) Lineage() *wire.Lineage { return s.servers }

// PingLease asks for an answer on the connection that renews the pod's lease: without
// one the lease cannot be renewed either. ctx bounds the wait for a renewal, whose
// answer counts; the question itself takes two seconds at most.
func (s *Store) PingLease(ctx context.Context) error {
	return pgerr.Translate(s.lease.Ping(ctx))
}

// PingPool asks for an answer the way that the store's own pool connects, which
// may be another than PingLease's: through a proxy. It does not queue for the pool's
// connections.
func (s *Store) PingPool(ctx context.Context) error {
	if s.proxied == nil {
		return s.PingLease(ctx)
	}
	return pgerr.Translate(s.proxied.Ping(ctx))
}

// Ping implements persistence.Lease.
func (s *Store) Ping(ctx context.Context, bytes int) error {
	text, args := s.Bind("ping", pgsql.Named{"payload": make([]byte, bytes)})
	rows, err := s.Conns.Query(ctx, text, args...)
	if err != nil {
		return pgerr.Translate(err)
	}
	back, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
	if err == nil && len(back) != bytes {
		err = fmt.Errorf("%d of %d bytes came back", len(back), bytes)
	}
	return pgerr.Translate(err)
}

// Pool returns the store's own pool, for the adapters that share it. It is
// closed with the store.
func (s *Store) Pool() *pgxpool.Pool { return s.Conns.Bare() }

// Give lends a connection of the store's own pool to fit, for a caller that cannot do without
// one and is refused it. If fit returns true, the connection leaves the pool: it is the
// caller's, with the settings of the store's sessions. After an error it is closed. Nil:
// there is none to spare, it is a proxy's, or fit returned false.
func (s *Store) Give(ctx context.Context, fit func(ctx context.Context, conn *pgx.Conn) (bool, error)) (*pgx.Conn, error) {
	return s.Conns.Give(ctx, fit)
}
