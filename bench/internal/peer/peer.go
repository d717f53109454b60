package peer

import (
	"context"
	"slices"
)

// Peer is one engine under test, in one process, in a database of its own.
// Bulk is called before Start, or not at all; Enqueue after it, from many
// goroutines.
type Peer interface {
	// Open prepares the schema, unless another process did, and a client.
	// Nothing executes until Start.
	Open(ctx context.Context) error
	// Start begins to work, or makes ready to trigger where Options.Elsewhere is
	// set.
	Start(ctx context.Context) error
	// Enqueue stores one job as a request handler would; it returns when the
	// job is durable.
	Enqueue(ctx context.Context, job Job) error
	// Bulk stores jobs in the fastest way that the public API offers.
	Bulk(ctx context.Context, jobs []Job) error
	// UnfinishedSQL counts the jobs that are not durably finished.
	UnfinishedSQL() string
	// Close stops working and gives connections back.
	Close()
}

// Signaler is a peer whose jobs of the shape Wait go on with a signal.
type Signaler interface {
	// Signal sends the signal that a job waits for; it returns when that is durable.
	Signal(ctx context.Context, job Job) error
}

// Cloner is a peer whose bulk calls are too slow to make a large backlog.
type Cloner interface {
	// CloneSQL are queries for the statements that copy the one job that is
	// enqueued $1 times, see Clone.
	CloneSQL() []string
}

// Job is one unit of work. ID finds its marks in the Probe.
type Job struct {
	ID      int64  `json:"id"`
	Tenant  string `json:"tenant,omitempty"`
	Shape   Shape  `json:"shape"`
	Payload string `json:"payload,omitempty"`
}

// Shape is what a job is made of.
type Shape string

// The shapes. Steps do nothing: what is left is the engine.
const (
	Single  Shape = "single"  // one step; returns the payload
	Diamond Shape = "diamond" // a → b, c → d
	Chain   Shape = "chain"   // 100 steps, one after the other
	FanOut  Shape = "fan-out" // a step, then 1,000 at once, then one that waits for all
	Orders  Shape = "orders"  // branches, skipped steps, a merge
	Nap     Shape = "nap"     // a durable sleep, then a step
	Wait    Shape = "wait"    // a step, a wait for a signal, then a step
	Machine Shape = "machine" // 20 steps, one after the other, of what reacts to their ends; each gives 100 bytes
	Parent  Shape = "parent"  // a step, then 200 child runs of one step each at once, then a step that waits for all
)

// Kind sorts measurements by what settings they want.
type Kind string

// The kinds of measurements.
const (
	Throughput Kind = "throughput" // triggers and work at once
	Graph      Kind = "graph"      // few runs of many steps
	Drain      Kind = "drain"      // work on what was enqueued in bulk
	Latency    Kind = "latency"    // trigger and worker in one process
	Across     Kind = "across"     // trigger and worker in two processes
	Idle       Kind = "idle"       // nothing to do
	Fairness   Kind = "fairness"   // many tenants
)

// Setting is one way to configure a peer.
type Setting struct {
	Name string // "default", or short
	Says string // what is set, for the reader
	// For are the kinds of measurements that it is used for: the default for all
	// that the peer can do, the others for what the peer is fastest with them.
	For []Kind
	// Extra are those of them for which quick comparisons leave it out.
	Extra []Kind
	// Rate is roughly how many single-step jobs are drained in a second, and Runs
	// how many diamonds are: they size what is enqueued beforehand, and what may
	// be open at once.
	Rate, Runs int
}

// Default is the name of the setting that changes nothing.
const Default = "default"

// Serves reports whether the setting is measured for a kind.
func (s Setting) Serves(k Kind) bool { return slices.Contains(s.For, k) }

// IsExtra reports whether quick comparisons leave the setting out for a kind.
func (s Setting) IsExtra(k Kind) bool { return slices.Contains(s.Extra, k) }

// Role says what a peer is in the comparison.
type Role uint8

// The roles.
const (
	Rival Role = iota // another engine
	Ours
	Limit // statements without an engine
)

// Options are for one instance of a peer.
type Options struct {
	URL     string // of its database
	Setting string
	Conns   int     // of the pool, where the peer lets its user choose
	Shapes  []Shape // of the jobs to come
	Twins   int     // further diamonds under other names, which are registered and not run
	Probe   *Probe
	// Elsewhere makes an instance that only triggers: it never takes a job.
	Elsewhere bool
}

// Entry is one contestant.
type Entry struct {
	Name     string
	Role     Role
	Settings []Setting
	Shapes   []Shape
	New      func(Options) Peer
}

// Setting finds one by name.
func (e Entry) Setting(name string) (Setting, bool) {
	i := slices.IndexFunc(e.Settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return e.Settings[i], true
}
