package sessions

import (
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/wire"
)

// Options say where connections go. All but Direct, Tracer and Lineage are required.
type Options struct {
	Pool        *pgxpool.Pool   // of the embedder, whose settings say where to connect to
	Direct      *pgx.ConnConfig // where else to; nil: where Pool does
	Proxied     bool            // Pool's way goes through a proxy that gives sessions away between two transactions
	Size        int32           // of the pool
	Reads       bool            // they only read: a standby will do
	Application string          // name that the server shows
	Tracer      pgx.QueryTracer // of all statements; nil: that of where it connects to, if any
	Lineage     *wire.Lineage   // of the servers that are connected to past any proxy; nil: nothing is known
}

// proxied derives the configuration of a pool behind a proxy: the proxy refuses
// parameters of sessions, and statements prepared in one.
func (o Options) proxied() *pgxpool.Config {
	o.Direct, o.Lineage = nil, nil // a session of the proxy outlives that of a server
	config := o.direct()
	config.AfterConnect = ReadInstants
	config.ConnConfig.RuntimeParams = maps.Clone(o.Pool.Config().ConnConfig.RuntimeParams)
	config.ConnConfig.RuntimeParams["application_name"] = o.Application
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	config.ConnConfig.StatementCacheCapacity = 0
	config.ConnConfig.DescriptionCacheCapacity = statementsMax
	return config
}

// direct derives the configuration of a pool that no proxy is before.
func (o Options) direct() *pgxpool.Config {
	config := o.Pool.Config()
	if o.Direct != nil {
		config.ConnConfig = o.Direct.Copy()
		config.BeforeConnect = nil // it prepares connections to somewhere else
	}
	// The user's hooks may change sessions in ways that are not ours.
	config.AfterConnect, config.PrepareConn, config.AfterRelease, config.BeforeClose = nil, nil, nil, nil
	config.ShouldPing = nil
	config.BeforeAcquire = nil //nolint:staticcheck // deprecated, but a user's pool may have it
	config.AfterConnect = prepareSession
	config.MinConns, config.MinIdleConns = 0, 0
	config.PingTimeout = pingTimeout
	config.MaxConnIdleTime = min(config.MaxConnIdleTime, idleMax)
	config.HealthCheckPeriod = min(config.HealthCheckPeriod, idleMax/3)
	config.BeforeConnect = wire.ContainBeforeConnect(config.BeforeConnect)
	wire.ContainHooks(config.ConnConfig)
	if o.Reads {
		wire.PrepareReads(config.ConnConfig)
	} else {
		wire.Prepare(config.ConnConfig, o.Lineage)
	}
	config.MaxConns = o.Size
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	config.ConnConfig.StatementCacheCapacity = statementsMax
	if o.Tracer != nil {
		config.ConnConfig.Tracer = o.Tracer
	}
	params := maps.Clone(config.ConnConfig.RuntimeParams)
	if params == nil {
		params = map[string]string{}
	}
	delete(params, "options") // the user's settings; ours are complete
	maps.Copy(params, ofSession())
	params["application_name"] = o.Application
	config.ConnConfig.RuntimeParams = params
	return config
}

// idleMax is how long a connection may be idle that others of the role may want.
const idleMax = 30 * time.Second

// pingTimeout bounds how long a connection that was idle may take to answer
// before it is given up for another one.
const pingTimeout = 2 * time.Second

// statementsMax holds every statement of the store prepared in a session.
const statementsMax = 256
