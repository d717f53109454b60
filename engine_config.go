package troupe

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// Config tunes an engine. The zero value is a good start: every field that is
// zero takes the default in the table of docs/configuration.md. [Settings]
// returns that table; Validate reports every problem at once.
type Config struct {
	// Where.
	Schema    string // of the tables; migrations.Migrate gets the same
	DirectURL string // past a pooling proxy that the pool connects to, for what needs a session of its own; "": there is none
	PodName   string // for people; "": the host's name

	// How much at once.
	Slots       int            // tasks that this pod executes at once
	QueueSlots  map[string]int // serve these queues only, each with slots of its own; nil: "default" and those of registered steps share Slots
	ClaimBatch  int            // tasks of one claim
	TenantLimit int            // running tasks of one tenant, over all pods; 0: none
	PoolSize    int            // connections of the engine's own pool
	ClientOnly  bool           // trigger and read only: no slots, no claims, and this pod never leads; others have to execute what it registers

	// How long.
	Pulse          time.Duration // between two renewals of the pod's lease
	Lease          time.Duration // how long a renewal lasts
	StopGrace      time.Duration // how long Stop lets tasks finish
	CancelGrace    time.Duration // how long running tasks of a canceled run may go on
	Sweep          time.Duration // between two looks at the tables while wakes arrive
	SweepDegraded  time.Duration // the same while they do not
	LeaderPing     time.Duration // between two pings of the leader
	LeaderSilence  time.Duration // silence after which others try to lead
	LeaderTry      time.Duration // between two tries
	AttemptTimeout time.Duration // of steps that name none; 0: none
	InTxTimeout    time.Duration // the same for steps with InTx

	// How often.
	Retry   Retry // of steps that name none; zero: one attempt
	MaxLost int   // losses after which a task is taken for a poison pill; up to twice as many while other pods die

	// How big.
	PayloadLimit  int // bytes of one input, output or signal
	PayloadMemory int // bytes of inputs and outputs that the tasks of this pod hold; a task that needs more reads alone
	IntakePending int // triggers and signals waiting to be stored; beyond it messages are refused, calls wait

	// For how long.
	Retention           Retention     // of runs that have ended
	DeadLetterRetention time.Duration // of dead letters; 0: for ever

	// Which failures.
	DeadReasons []DeadReason // that become dead letters; none: all

	// Tenant.
	DefaultTenant string // of triggers that name none

	// Encoding, observation.
	Codec Codec // of inputs, outputs, progress and signals; nil: JSON

	// Wrap executes every attempt of a step function, if it is not nil: it calls next, and
	// what it returns is the error of the attempt. Package observe/otel has one that makes spans.
	//
	// It gets the context of the step function, with the attempt's deadline and, with InTx, its
	// transaction, and gives it to next, or one made of it: the step finds there what Wrap adds. It
	// calls next once. An attempt whose Wrap returns nil without calling it, or
	// after a panic of the step, fails with the class "wrap", and an error of the step stays
	// one. A panic in Wrap fails the attempt as one in the step does. Steps whose outputs a requeue
	// takes over, and steps that wait for a signal, are not executed, and not wrapped; a step with InTx is wrapped again if its
	// transaction is repeated.
	Wrap func(ctx context.Context, task TaskInfo, next func(context.Context) error) error

	// TraceContext returns the W3C trace context (traceparent) of a caller's context; "": it
	// has none. What is triggered or requeued in that context carries it, unless the option
	// [TraceContext] names another one: every step finds it in its [TaskInfo]. Nil: none.
	TraceContext func(ctx context.Context) string

	// Tracer sees the statements of the engine's own connections; nil: the tracer of the pool that
	// New gets, if it has one. Each begins with its name, as in "/* troupe renew_pod */".
	// docs/tracing.md names those of an engine without work.
	Tracer pgx.QueryTracer

	// Logger is where the engine logs; nil: nowhere. An engine of New hands
	// records to its handler one after the other, on a goroutine that nothing
	// waits for: a handler that blocks or panics holds up no work. While 1,024
	// records wait more are dropped, and a warning with records_dropped says how
	// many once the handler works again. Engines of NewInMemory log at once.
	Logger *slog.Logger

	Metrics Metrics            // nil: none
	System  *actor.ActorSystem // to live in; nil: one of its own, which logs to Logger
}

// dedicated is how many connections an engine has besides its pool: of the lease,
// the listener, the stream and, if it leads or tries to, the leader.
const dedicated = 4

// Connections returns how many connections an engine opens at most, besides
// those of the pool that it is given: PoolSize and 4. With a DirectURL the 4 are
// the direct ones, and one more goes through the proxy, once Health was asked.
func (c Config) Connections() int {
	if c.DirectURL != "" {
		return c.withDefaults().PoolSize + dedicated + 1
	}
	return c.withDefaults().PoolSize + dedicated
}

// Retention is how long runs are kept once they have ended, by the class that
// [Retain] gives their workflow; zero keeps them for ever. Runs are removed by
// the day in which they ended, or by a seventh of the retention if that is
// shorter (a minute at least), and the leader looks every five minutes: some are
// kept longer than said by that much, none shorter.
type Retention struct {
	Standard time.Duration // workflows that name no class
	Short    time.Duration // RetainShort
	Long     time.Duration // RetainLong
}

// classes returns how long each class is kept.
func (r Retention) classes() persistence.Retention {
	return persistence.Retention{RetainStandard: r.Standard, RetainShort: r.Short, RetainLong: r.Long}
}

// Metrics receives what the engine measures. actors.MetricTable describes every
// metric for those who make instruments from it; docs/metrics.md shows the table.
// Actors call it and wait for it, so it must not block: a pod whose Metrics hangs
// does no work. It is not ready after ten seconds, and not live after a minute.
type Metrics = actors.Metrics

// withDefaults returns c with every zero field replaced.
func (c Config) withDefaults() Config {
	setDefault(&c.Schema, "troupe")
	setDefault(&c.PodName, hostName())
	if !c.ClientOnly {
		setDefault(&c.Slots, 100)
	}
	setDefault(&c.ClaimBatch, 200)
	setDefault(&c.PoolSize, 6)
	setDefault(&c.Pulse, 5*time.Second)
	setDefault(&c.Lease, 15*time.Second)
	setDefault(&c.StopGrace, 30*time.Second)
	setDefault(&c.CancelGrace, 30*time.Second)
	setDefault(&c.Sweep, 30*time.Second)
	setDefault(&c.SweepDegraded, time.Second)
	setDefault(&c.LeaderPing, time.Second)
	setDefault(&c.LeaderSilence, 2500*time.Millisecond)
	setDefault(&c.LeaderTry, 500*time.Millisecond)
	setDefault(&c.InTxTimeout, 30*time.Second)
	setDefault(&c.MaxLost, 3)
	setDefault(&c.PayloadLimit, 1<<20)
	setDefault(&c.PayloadMemory, 256<<20)
	setDefault(&c.IntakePending, 10_000)
	setDefault(&c.DefaultTenant, "default")
	c.QueueSlots, c.DeadReasons = maps.Clone(c.QueueSlots), slices.Clone(c.DeadReasons) // the caller may change its own
	if c.Codec == nil {
		c.Codec = JSON{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = actors.NoMetrics{}
	}
	return c
}

// alone returns c with long intervals where it names none. A single pod needs
// neither heartbeats nor sweeps: no other pod waits for them, and no wake is lost.
// With short intervals a virtual day of a test would be spent on them.
func (c Config) alone() Config {
	if c.Pulse == 0 && c.Lease == 0 {
		c.Pulse, c.Lease = time.Hour, 3*time.Hour
	}
	if c.Sweep == 0 && c.SweepDegraded == 0 {
		c.Sweep, c.SweepDegraded = time.Hour, time.Hour
	}
	if c.LeaderPing == 0 && c.LeaderSilence == 0 {
		c.LeaderPing, c.LeaderSilence = time.Hour, 3*time.Hour
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return fmt.Sprintf("pod-%d", os.Getpid())
	}
	return name
}
