package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/internal/wire"
)

// Config holds what an Adapter can be told. Zero durations mean the default.
type Config struct {
	// Schema is where the engine's tables are.
	Schema string
	// Pod returns the number of this pod, which changes when the pod has to
	// join again. It must be safe for concurrent use.
	Pod func() int64
	// DirectURL is the address for connections that must not go through a
	// pooling proxy. Empty: that of the pool.
	DirectURL string
	// Logger gets what an operator should know. Nil: nothing is logged.
	Logger *slog.Logger

	// Lineage is what is known of the servers behind the address. Nil: nothing.
	Lineage *wire.Lineage

	// BeforeConnect prepares a connection that does not go to DirectURL: it may fetch
	// a password that expires. Nil: there is nothing to prepare.
	BeforeConnect func(ctx context.Context, config *pgx.ConnConfig) error
	// Give lends a connection of the pod's to fit, where the server has none to give
	// for one that is dedicated. If fit returns true, the connection is the adapter's
	// from then on; else it goes back, or is closed after an error. Nil, and what
	// returns nil: there is none.
	Give func(ctx context.Context, fit func(ctx context.Context, conn *pgx.Conn) (bool, error)) (*pgx.Conn, error)

	ConnectTimeout    time.Duration // of each address of a dedicated connection, unless it says less; default 5 s
	LeaderPing        time.Duration // between two pings of a leader, as its pod is configured; 0: less than a second
	SessionTimeout    time.Duration // of a leader that does not ping; default 3 s, or as long as LeaderPing needs
	PingTimeout       time.Duration // of one ping; default 1 s
	SlotTimeout       time.Duration // of creating a replication slot; default 2 s
	StatusInterval    time.Duration // between two confirmations to the stream's sender; default 1 s
	WALSenderTimeout  time.Duration // after which that sender gives up; default 10 s
	ListenQuiet       time.Duration // without a notification, before the listener asks whether its connection lives, and for the answer; default 5 s
	QueueNameDeadline time.Duration // of looking up the name of a queue; default 1 s
}

const schemaBytesMax = 63 - len("_wake") // an identifier of PostgreSQL has 63 bytes

// Validate returns everything that is wrong, joined.
func (c Config) Validate() error {
	var problems []error
	if c.Schema == "" || len(c.Schema) > schemaBytesMax {
		problems = append(problems, fmt.Errorf("schema %q: want 1 to %d bytes", c.Schema, schemaBytesMax))
	}
	if c.Pod == nil {
		problems = append(problems, errors.New("pod: want a function that returns this pod's number"))
	}
	for name, d := range map[string]time.Duration{
		"leader ping": c.LeaderPing, "connect timeout": c.ConnectTimeout, "session timeout": c.SessionTimeout, "ping timeout": c.PingTimeout,
		"slot timeout": c.SlotTimeout, "status interval": c.StatusInterval, "wal sender timeout": c.WALSenderTimeout,
		"queue name deadline": c.QueueNameDeadline, "listen quiet": c.ListenQuiet,
	} {
		if d < 0 {
			problems = append(problems, fmt.Errorf("%s %s: want a positive duration", name, d))
		}
	}
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	for d, value := range map[*time.Duration]time.Duration{
		&c.ConnectTimeout: 5 * time.Second, &c.SessionTimeout: sessionTimeout(c.LeaderPing), &c.PingTimeout: time.Second,
		&c.SlotTimeout: 2 * time.Second, &c.StatusInterval: time.Second, &c.WALSenderTimeout: 10 * time.Second,
		&c.QueueNameDeadline: time.Second, &c.ListenQuiet: 5 * time.Second,
	} {
		if *d == 0 {
			*d = value
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

const (
	sessionTimeoutMin = 3 * time.Second
	sessionTimeoutMax = math.MaxInt32 * time.Millisecond // of the server's setting
	pingLate          = time.Second
)

// sessionTimeout is how long the session of a leader outlives its last ping: as
// long as two pings may be apart, and a second for the latter to arrive.
func sessionTimeout(leaderPing time.Duration) time.Duration {
	longest := cluster.PingInterval(min(leaderPing, sessionTimeoutMax), cluster.ModeSpared, 1)
	return min(max(longest+pingLate, sessionTimeoutMin), sessionTimeoutMax)
}

// Adapter implements the ports of the cluster room. Its methods are safe for
// concurrent use; it starts no goroutines and holds no connections between
// calls. What Listen hears tells Read how far the log is written.
type Adapter struct {
	pool    *pgxpool.Pool
	config  Config
	channel string
	queues  *queueNames
	warned  *onceWarned
	written atomic.Uint64 // how far the server's log was written at the last ping that was heard; 0: not known
}

var (
	_ cluster.Listener = (*Adapter)(nil)
	_ cluster.Notifier = (*Adapter)(nil)
	_ cluster.Stream   = (*Adapter)(nil)
	_ cluster.Elector  = (*Adapter)(nil)
)

// New returns an adapter. It notifies and looks up names on the pool, which
// stays the caller's.
func New(pool *pgxpool.Pool, config Config) (*Adapter, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("cluster config: %w", err)
	}
	config = config.withDefaults()
	return &Adapter{
		pool: pool, config: config, channel: Channel(config.Schema),
		queues: newQueueNames(pool, config), warned: &onceWarned{log: config.Logger},
	}, nil
}
