package actors

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// Config holds the tunables of one pod. Fields that are zero take the default
// of DefaultConfig, except those that say what zero means.
type Config struct {
	Slots       int            // tasks executed at once
	QueueSlots  map[string]int // serve these queues only, each with slots of its own
	Queues      []string       // queues that share Slots; unused with QueueSlots
	ClaimBatch  int            // tasks of one claim
	TenantLimit int            // running tasks of one tenant; 0: none
	ClientOnly  bool           // it triggers and reads: it serves no queue, has no slots, and never leads
	StuckMax    int            // functions that ignore their context and give up their slot

	Pulse       time.Duration // between two renewals of the lease
	LeaseTTL    time.Duration // how long a renewal lasts
	LeaseMargin time.Duration // how long before its end the pod stops acting

	StopGrace   time.Duration // how long a stop lets tasks finish
	EndGrace    time.Duration // and then lets them react to the end of their context
	CancelGrace time.Duration // how long tasks of a canceled run may still execute

	Sweep         time.Duration // between two sweeps of the tables while wakes arrive
	SweepDegraded time.Duration // the same while they may not
	FeedSilence   time.Duration // silence of the leader after which it does not relay
	StreamSpare   time.Duration // how long all pods must be busy before the stream is spared, and how long that lasts at least

	LeaderPing    time.Duration // between two pings of the leader
	LeaderSilence time.Duration // silence after which others try to lead
	LeaderTry     time.Duration // between two tries

	AttemptTimeout time.Duration // of steps that name none; 0: none
	InTxTimeout    time.Duration // of InTx steps that name none
	TriggerTimeout time.Duration // how long a TriggerRun message is tried
	MaxLost        int           // losses after which a task is a poison pill

	PayloadLimit  int // bytes of one input, output or signal
	PayloadMemory int // bytes of payloads that tasks hold; one that needs more reads alone
	IntakePending int // triggers that wait to be stored
	AwaitMax      int // AwaitRun messages that wait for an end

	// Retention is how long ended runs are kept, by class; zero: for ever.
	Retention persistence.Retention
	// DeadLetterRetention is how long dead letters are kept; zero: for ever.
	DeadLetterRetention time.Duration

	DefaultTenant string
	PodName       string // for people
	Version       string // of the binary, for people
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Slots: 100, ClaimBatch: 200, StuckMax: 10, Queues: []string{DefaultQueue},
		Pulse: 5 * time.Second, LeaseTTL: 15 * time.Second, LeaseMargin: 2 * time.Second,
		StopGrace: 30 * time.Second, EndGrace: 2 * time.Second, CancelGrace: 30 * time.Second,
		Sweep: 30 * time.Second, SweepDegraded: time.Second, FeedSilence: 1500 * time.Millisecond, StreamSpare: 10 * time.Second,
		LeaderPing: time.Second, LeaderSilence: 2500 * time.Millisecond, LeaderTry: 500 * time.Millisecond,
		InTxTimeout: 30 * time.Second, TriggerTimeout: 10 * time.Second, MaxLost: 3,
		PayloadLimit: 1 << 20, PayloadMemory: 256 << 20, IntakePending: 10_000, AwaitMax: 10_000, DefaultTenant: "default",
	}
}

// DefaultQueue serves the steps that name no queue, of runs that name none.
const DefaultQueue = "default"

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	d.LeaseMargin = min(d.LeaseMargin, cmp.Or(c.LeaseTTL, d.LeaseTTL)/5)
	if len(c.Queues) == 0 {
		c.Queues = d.Queues
	}
	fields, defaults := reflect.ValueOf(&c).Elem(), reflect.ValueOf(d)
	for i := range fields.NumField() {
		if field := fields.Field(i); field.IsZero() {
			field.Set(defaults.Field(i))
		}
	}
	return c
}

// pool is slots that some queues share.
type pool struct {
	name   string
	slots  int
	queues []string
}

// sharedPool is the name of the pool of all queues without slots of their own.
const sharedPool = ""

// pools returns the pools of the pod, by name.
func (c Config) pools() []pool {
	if c.ClientOnly {
		return nil
	}
	if len(c.QueueSlots) == 0 {
		return []pool{{name: sharedPool, slots: c.Slots, queues: c.Queues}}
	}
	list := make([]pool, 0, len(c.QueueSlots))
	for _, queue := range slices.Sorted(maps.Keys(c.QueueSlots)) {
		list = append(list, pool{name: queue, slots: c.QueueSlots[queue], queues: []string{queue}})
	}
	return list
}

// poolOf returns the name of the pool that a queue takes its slots from.
func (c Config) poolOf(queue string) string {
	if len(c.QueueSlots) == 0 {
		return sharedPool
	}
	return queue
}

// queues returns the names of all queues that the pod serves.
func (c Config) queues() []string {
	var names []string
	for _, p := range c.pools() {
		names = append(names, p.queues...)
	}
	return names
}

// slots returns the number of slots of all pools.
func (c Config) slots() int {
	total := 0
	for _, p := range c.pools() {
		total += p.slots
	}
	return total
}

// Limits of the actors' own, each with its reason.
const (
	// batchBytesMax bounds the payloads of one transaction: a larger message delays every
	// other connection of a small server.
	batchBytesMax = 8 << 20
	// progressBytesMax bounds the progress that one renewal of the lease carries:
	// it must be stored in much less time than the lease lasts.
	progressBytesMax = 2 << 20
	// storeTimeout ends a store call that hangs; the server ends statements
	// after the same time.
	storeTimeout = 30 * time.Second
	// drainBatch bounds the runs of one drain of the intake table.
	drainBatch = 200
	// timerBatch bounds the timers fired in one transaction.
	timerBatch = 500
	// expireBatch bounds the tasks taken from dead pods in one transaction.
	expireBatch = 500
	// parkBatch bounds the queue rows moved in one transaction.
	parkBatch = 1000
	// parkLeast is the smallest such batch: its first rows may be locked.
	parkLeast = 32
	// archiveAge is how long an ended run stays in its table: most reads of it, and most
	// late reports about it, come soon.
	archiveAge = time.Minute
	// archiveEvery is the pause after a walk through the runs that moved some,
	// archiveIdle after one that moved none.
	archiveEvery, archiveIdle = 5 * time.Second, time.Minute
	// historyPause is between two calls about history that found less than they
	// may move: such a walk takes a small part of a core, however long it is.
	historyPause = 50 * time.Millisecond
	// eventSpan is the length of a span of events: a span is dropped as a whole, and the
	// events of runs that outlive it are moved once.
	eventSpan = 15 * time.Minute
	// rotateEvery is how often spans of events are made and dropped: the next span exists
	// before it begins.
	rotateEvery = 2 * time.Minute
	// dropEvery is how often old history is looked for.
	dropEvery = 5 * time.Minute
	// parkEvery is how often rows without a living handler are looked for.
	parkEvery = time.Minute
	// wakeEvery is how often the steps that wait for child runs are looked at, wakeBatch of
	// them at once: the end of a child run is told when it ends, so this finds nothing
	// unless a pod of an older version ended it.
	wakeEvery, wakeBatch = time.Minute, 1000
	// resendAfter is how long a run actor waits for the answer to its outcome
	// before it sends it again.
	resendAfter = 2 * time.Second
	// unresponsiveAfter is how long a function may ignore the end of its context before
	// its attempt is reported without it. With the time to free its slot that is less than
	// five seconds.
	unresponsiveAfter = 4500 * time.Millisecond
	// fullFor is how long a pod is not ready after a rejected write: the disk is full, or
	// the server only reads. The write is tried again sooner than that.
	fullFor = 3 * time.Second
	// cancelsPendingMax bounds the cancels that wait to be recorded.
	cancelsPendingMax = 1000
	// stopStageLimit bounds the stages that wait for the database: without one the
	// pod ends all the same, and its lease runs out.
	stopStageLimit = 5 * time.Second
)
