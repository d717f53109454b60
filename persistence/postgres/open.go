package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
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

// defaultPoolSize is the size of a store's own pool, see Options.PoolSize.
const defaultPoolSize = 6

// Store is a persistence.Store in PostgreSQL. It is safe for concurrent use.
type Store struct {
	pool       *sessions     // our own
	guests     guests        // of pool
	young      time.Duration // of runs that a statement alone may store
	patience   time.Duration // with the pool of the user
	direct     bool          // the pool of the user has another address than the lease's connection
	lease      *leaseLine    // apart: nothing that pool is busy with delays a renewal
	proxied    *line         // apart, too, the way that pool goes; nil: the way of lease
	user       *pgxpool.Pool
	schema     string
	tenantsMax int32
	statements statements
	catalog    *catalog
	recent     *recent
	heads      *heads
	firsts     *usual // by queue, whether claim_first will do
	fews       *usual // by its queue, whether record_few will do for a pod
	takes      *usual // by queue, whether take_one will
	strained   strained
	front      timerFront
	runless    atomic.Bool // dead pods hold tasks of runs that are not there
	parked     parkedTimers
	lost       lost // runs of which something cannot be read
	lostEnds   lost // those of them that no completion can be stored of

	deadReasons []lifecycle.DeadReason
	podID       func() int64 // of the next pod that joins
}

var _ persistence.Store = (*Store)(nil)

// ErrNotMigrated is returned by Open for a schema without the store's tables.
var ErrNotMigrated = errors.New("the schema has no tables")

// Open connects to a schema that migrations.Migrate has brought up to date. It
// checks that the database answers. Close gives the connections back.
func Open(ctx context.Context, options Options) (*Store, error) {
	if options.Pool == nil {
		return nil, errors.New("open store: the pool is nil")
	}
	if err := untyped(options.Pool.Config().ConnConfig.DefaultQueryExecMode); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if options.Schema == "" {
		options.Schema = "troupe"
	}
	if options.TenantsMax == 0 {
		options.TenantsMax = lifecycle.GroupMax
	}
	statements, err := loadStatements(options.Schema)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	pool, err := openSessions(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lease, err := openLease(ctx, options)
	if err != nil {
		pool.pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		pool: pool, guests: newGuests(pool.pool.Config().MaxConns), lease: lease, young: youngRun, patience: borrowMax, direct: options.Direct != nil, user: options.Pool, schema: options.Schema, tenantsMax: options.TenantsMax,
		statements: statements, catalog: newCatalog(), recent: newRecent(), heads: newHeads(),
		firsts: newUsual(), fews: newUsual(), takes: newUsual(), strained: strained{log: options.Logger},
		parked: parkedTimers{log: options.Logger}, deadReasons: options.DeadReasons, podID: drawPodID, lost: lost{keep: lostFor, log: options.Logger}, lostEnds: lost{keep: lostEndsFor},
	}
	if pool.settle == "" { // a proxy's connections are not the server's
		lease.lend = pool.lend
	}
	if err = s.openProxied(ctx, options); err == nil {
		err = s.loadQueues(ctx)
	}
	if err == nil {
		err = s.Ping(ctx) // the connection is there when it is needed
	}
	if err != nil {
		s.Close()
		if hasCode(err, codeUndefinedTable) || hasCode(err, codeUndefinedSchema) {
			return nil, fmt.Errorf("open store: %w: run migrations.Migrate for schema %s first", ErrNotMigrated, options.Schema)
		}
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

// Close closes the store's own connections and waits for statements in flight.
func (s *Store) Close() {
	s.pool.pool.Close()
	s.lease.pool.Close()
	if s.proxied != nil {
		s.proxied.pool.Close()
	}
}

// openSessions opens the store's own pool.
func openSessions(ctx context.Context, options Options) (*sessions, error) {
	s := &sessions{dials: &dials{}, giving: make(chan struct{}, 1)}
	config := ownPool(options)
	if options.Proxied {
		config, s.settle = proxiedPool(options), settling()
	}
	s.dials.prepare(config)
	var err error
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	return s, err
}

// openProxied makes a line through the proxy. It connects when it is used.
func (s *Store) openProxied(ctx context.Context, options Options) error {
	if !options.Proxied {
		return nil
	}
	l, err := openLine(ctx, proxiedPool(options))
	if err == nil {
		s.proxied = &l
	}
	return err
}

// proxiedPool derives the configuration of a pool behind a proxy: the proxy
// refuses parameters of sessions, and statements prepared in one.
func proxiedPool(options Options) *pgxpool.Config {
	options.Direct = nil
	config := ownPool(options)
	config.AfterConnect = readInstants
	config.ConnConfig.RuntimeParams = maps.Clone(options.Pool.Config().ConnConfig.RuntimeParams)
	config.ConnConfig.RuntimeParams["application_name"] = options.application()
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	config.ConnConfig.StatementCacheCapacity = 0
	config.ConnConfig.DescriptionCacheCapacity = statementsMax
	return config
}

// ownPool derives the configuration of the store's own pool.
func ownPool(options Options) *pgxpool.Config {
	config := options.Pool.Config()
	if options.Direct != nil {
		config.ConnConfig = options.Direct.Copy()
		config.BeforeConnect = nil // it prepares connections to somewhere else
	}
	// The user's hooks may change sessions in ways that are not ours.
	config.AfterConnect, config.PrepareConn, config.AfterRelease, config.BeforeClose = nil, nil, nil, nil
	config.BeforeAcquire = nil //nolint:staticcheck // deprecated, but a user's pool may have it
	config.AfterConnect = prepareSession
	config.MinConns, config.MinIdleConns = 0, 0
	config.PingTimeout = pingTimeout
	config.MaxConnIdleTime = min(config.MaxConnIdleTime, idleMax)
	config.HealthCheckPeriod = min(config.HealthCheckPeriod, idleMax/3)
	wire.Prepare(config.ConnConfig)
	config.MaxConns = options.PoolSize
	if config.MaxConns <= 0 {
		config.MaxConns = defaultPoolSize
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	config.ConnConfig.StatementCacheCapacity = statementsMax
	if options.Tracer != nil {
		config.ConnConfig.Tracer = options.Tracer
	}
	config.ConnConfig.Tracer = wire.Contain(config.ConnConfig.Tracer, options.Logger)
	params := maps.Clone(config.ConnConfig.RuntimeParams)
	if params == nil {
		params = map[string]string{}
	}
	delete(params, "options") // the user's settings; ours are complete
	maps.Copy(params, sessionSettings())
	params["application_name"] = options.application()
	config.ConnConfig.RuntimeParams = params
	return config
}

func (o Options) application() string {
	if o.ApplicationName == "" {
		return "troupe"
	}
	return o.ApplicationName
}

// idleMax is how long a connection may be idle that others of the role may want.
const idleMax = 30 * time.Second

// pingTimeout bounds how long a connection that was idle may take to answer
// before it is given up for another one.
const pingTimeout = 2 * time.Second

// statementsMax holds every statement of the store prepared in a session.
const statementsMax = 256

// idleInTx is how long, in milliseconds, a session that holds locks of the engine's
// may be idle.
const idleInTx = "2000"

// sessionSettings are those of every connection of the store's own pool,
// whatever the server, the database or the role say.
func sessionSettings() map[string]string {
	settings := statementSettings()
	maps.Copy(settings, map[string]string{
		// A frozen process keeps no locks.
		"idle_in_transaction_session_timeout": idleInTx,
		// Nothing happens between two renewals.
		"idle_session_timeout": "0",
		// Statements mean the same everywhere.
		"timezone": "UTC", "datestyle": "ISO", "intervalstyle": "postgres",
		"default_transaction_isolation": "read committed", "standard_conforming_strings": "on",
	})
	return settings
}

// statementSettings are those that the store's statements need in whatever
// session they run.
func statementSettings() map[string]string {
	return map[string]string{
		// Plans must not depend on statistics, and the short statements of
		// batches must not be compiled: it divides throughput by fifty.
		"jit": "off", "plan_cache_mode": "force_generic_plan",
		"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off",
		// A probe per row meets each key once: a cache of them costs more than the probe.
		"enable_memoize": "off",
		// Nobody waits for a lock for long.
		"lock_timeout": "2000", "statement_timeout": "30000",
		"search_path": "pg_catalog",
		// What is sent and read is UTF-8, whatever a role is set to.
		"client_encoding": "UTF8",
		// Rows that a policy hides are not gone: an error says so.
		"row_security": "off",
	}
}

// prepareSession is done to each connection that no proxy is before.
func prepareSession(ctx context.Context, conn *pgx.Conn) error {
	return errors.Join(readInstants(ctx, conn), keepCommitsDurable(ctx, conn))
}

// keepCommitsDurable turns synchronous_commit on where it is off: an answer
// means that the commit survives a crash. Stricter settings stay.
func keepCommitsDurable(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `select set_config('synchronous_commit', 'on', false)
		where current_setting('synchronous_commit') = 'off'`)
	return err
}

// Pool returns the store's own pool, for the adapters that share it. It is
// closed with the store.
func (s *Store) Pool() *pgxpool.Pool { return s.pool.pool }
