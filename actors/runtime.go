package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// runtime is the environment of the actors of one pod. Nothing else reaches them: no
// clock, no randomness, no goroutine. Apart from the guarded values it does not change
// after Start.
type runtime struct {
	system     *System
	clock      clock.Clock
	executor   Executor
	mailbox    MailboxProducer
	random     Random
	numbers    *sequence
	log        *slog.Logger
	recorder   *recorder
	config     Config
	functions  map[int32]*StepFunction // by handler number
	evaluate   Evaluate
	status     *podStatus
	vitals     guarded[vitals.Vitals]
	parkedSaid guarded[parkedSaid]
	watchdog   vitals.Watchdog
	handlers   []int32 // of functions, ascending
	withoutTx  []int32 // those whose steps need no transaction
	inflight   *inflight
	payloads   *payloads
	gauges     *gauges
	addresses  addresses

	arrive      func(to *PID, message any) // send, from goroutines that are not the actors'
	arriveLater func(to *PID, message any) // likewise, where a run actor must not handle the message at once
	buggify     func(place string) bool
	lifetime    context.Context //nolint:containedctx // of all attempts
}

// guarded is a value that several actors and goroutines share.
type guarded[T any] struct {
	mu    sync.Mutex
	value T
}

func (g *guarded[T]) with(f func(value *T)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.value)
}

func (g *guarded[T]) get() T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.value
}

// Ports are the adapters that a pod works through.
type Ports struct {
	Store     persistence.Store
	Listener  cluster.Listener
	Stream    cluster.Stream // nil: there is none, wakes are notified
	Notifier  cluster.Notifier
	Elector   cluster.Elector
	PoolUsage func() PoolUsage // of the embedder's pool; nil: there is none
}

// PoolUsage is how a pool of connections is used at one moment.
type PoolUsage struct {
	InUse    int
	Max      int
	Acquired int64 // connections handed out since the pool was made
}

// Evaluate looks at a trigger that came as a message. It fills in the definition to
// run and the results of its conditions on the input, and the hash of the input where
// that is not of the bytes as they are.
type Evaluate func(trigger *persistence.Trigger) error

// ErrUnknownWorkflow is returned by an Evaluate that does not know the name.
var ErrUnknownWorkflow = errors.New("workflow is not registered")

// addresses are the addresses of the actors of one pod. They stay valid over
// restarts, because an actor's name does.
type addresses struct {
	pod, intake, claimer, runs, journal, pulse, feed, leader, timekeeper, housekeeper *PID
}

func newAddresses(system *System, root string) addresses {
	at := func(name string) *PID { return system.NewLocalPID(root + name) }
	return addresses{
		pod: at(""), intake: at("/intake"), claimer: at("/claimer"), runs: at("/runs"), journal: at("/journal"),
		pulse: at("/pulse"), feed: at("/feed"), leader: at("/leader"),
		timekeeper: at("/leader/timekeeper"), housekeeper: at("/leader/housekeeper"),
	}
}

func (rt *runtime) now() time.Time { return rt.clock.Now() }

// after sends a message to an actor, d from now, on the pod's clock.
func (rt *runtime) after(d time.Duration, to *PID, message any) (stop func()) {
	return rt.clock.After(d, func() { rt.send(to, message) })
}

func (rt *runtime) send(to *PID, message any) { rt.system.Root.Send(to, message) }

// chance draws from [0, 1).
func (rt *runtime) chance() float64 { return float64(rt.random.Uint64()>>11) / (1 << 53) }

// batch bounds a batch: as usual, or now and then in simulations by one.
func (rt *runtime) batch(place string, usual int) int {
	if rt.buggify(place) {
		return 1
	}
	return usual
}

func (rt *runtime) newClaimID() persistence.ClaimID {
	var id persistence.ClaimID
	binary.BigEndian.PutUint64(id[:8], rt.random.Uint64())
	binary.BigEndian.PutUint64(id[8:], rt.random.Uint64())
	return id
}

// newRunID makes an id whose time is the database's, as far as this pod knows.
func (rt *runtime) newRunID() workflow.RunID {
	var random [16]byte
	binary.BigEndian.PutUint64(random[:8], rt.random.Uint64())
	binary.BigEndian.PutUint64(random[8:], rt.random.Uint64())
	return workflow.NewRunID(rt.databaseTime(), [10]byte(random[:10]))
}

// retryDelay is the wait before a store call is made again after failing n
// times in a row.
func (rt *runtime) retryDelay(n int) time.Duration {
	policy := workflow.RetryPolicy{First: 50 * time.Millisecond, Cap: 2 * time.Second, Jitter: 0.25}
	return lifecycle.RetryDelay(policy, int32(min(n, 30)), rt.chance())
}

// storeFailed logs and counts a store call that will be made again.
func (rt *runtime) storeFailed(name string, err error) {
	rt.recorder.add(MetricStoreErrors, 1, name)
	if name == "renew_pod" || barsWrites(name, err) {
		rt.vitals.with(func(v *vitals.Vitals) { v.FoundAway(rt.now()) })
	}
	switch {
	case errors.Is(err, persistence.ErrDiskFull):
		rt.status.with(func(f *podFacts) { f.noWrites, f.noWritesAt = diskFull, rt.now() })
	case errors.Is(err, persistence.ErrReadOnly):
		rt.status.with(func(f *podFacts) { f.noWrites, f.noWritesAt = readOnly, rt.now() })
	case errors.Is(err, persistence.ErrNoResources) && slices.Contains(vitals.Essential(), name):
		rt.status.with(func(f *podFacts) { f.noWrites, f.noWritesAt = noResources, rt.now() })
	}
	if errors.Is(err, persistence.ErrNumbersChanged) {
		rt.send(rt.addresses.pod, &numbersChanged{err})
	}
	if errors.Is(err, persistence.ErrPodDead) && rt.status.get().leaving {
		return
	}
	level := slog.LevelError
	if errors.Is(err, persistence.ErrUnavailable) || errors.Is(err, persistence.ErrConflict) || errors.Is(err, persistence.ErrPodDead) {
		level = slog.LevelWarn
	}
	rt.log.LogAttrs(context.Background(), level, "store call failed, trying again",
		slog.String("call", name), slog.Any("error", err))
}

// refusedAsDead handles a call that was rejected because the pod is dead. It may only be
// late: a renewal, which is requested here, tells.
func (rt *runtime) refusedAsDead(err error) {
	if errors.Is(err, persistence.ErrPodDead) {
		rt.status.with(func(f *podFacts) { f.reportedDead(rt.now()) })
		rt.send(rt.addresses.pulse, &messages.CheckCancels{})
	}
}

// barsWrites reports whether the error of a call may have kept every pod from renewing its
// lease, too: the database was away, or takes no writes. A lack of resources for triggers
// does not affect renewals.
func barsWrites(name string, err error) bool {
	return !persistence.Answered(err) || errors.Is(err, persistence.ErrDiskFull) || errors.Is(err, persistence.ErrReadOnly) ||
		errors.Is(err, persistence.ErrNoResources) && name != "trigger_runs" && name != triggerLarge
}

// numbersChanged: a call found that handler numbers of this process now name other steps.
type numbersChanged struct{ err error }

// unknown counts a message that an actor does not accept.
func (rt *runtime) unknown(actor string, message any) {
	rt.recorder.add(MetricUnknownMessages, 1, actor)
	rt.log.LogAttrs(context.Background(), slog.LevelWarn, "message not accepted",
		slog.String("actor", actor), slog.String("message", fmt.Sprintf("%T", message)))
}

// guarded runs f and swallows its panic: a panic while an actor stops would
// restart it instead.
func (rt *runtime) guarded(actor string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			rt.log.LogAttrs(context.Background(), slog.LevelError, "panic while stopping",
				slog.String("actor", actor), slog.Any("reason", r))
		}
	}()
	f()
	if rt.buggify("panic while stopping") {
		panic("a fault of the simulation")
	}
}

// observeClock notes what the database's clock said in an answer to a question asked at
// an instant of the pod, and logs a step of the clock.
func (rt *runtime) observeClock(database, asked time.Time) {
	now, step := rt.now(), time.Duration(0)
	rt.status.with(func(f *podFacts) { f.sawDatabaseTime(database, now) })
	rt.vitals.with(func(v *vitals.Vitals) { step = v.Clock.Observe(database, asked, now) })
	if step > 0 {
		rt.log.LogAttrs(context.Background(), slog.LevelWarn, "the database's clock was stepped forward: no pod is declared dead for the length of a lease, and after a minute or more no history dropped for an hour",
			slog.Duration("by", step.Round(time.Second)))
	}
}

// clockSteps returns what is known of the database's clock.
func (rt *runtime) clockSteps() (clock vitals.ClockStep) {
	rt.vitals.with(func(v *vitals.Vitals) { clock = v.Clock })
	return clock
}

// silence returns how long the database has answered nothing that the pod asked through
// its pool.
func (rt *runtime) silence() (silence time.Duration) {
	rt.vitals.with(func(v *vitals.Vitals) { silence = v.Silence(rt.now()) })
	return silence
}

// lastAnswer returns when the database last answered a call through the pod's pool.
func (rt *runtime) lastAnswer() (at time.Time) {
	rt.vitals.with(func(v *vitals.Vitals) { at = v.LastAnswer() })
	return at
}

// txWait returns how long to leave steps with a transaction to other pods.
func (rt *runtime) txWait() (wait time.Duration) {
	rt.vitals.with(func(v *vitals.Vitals) { wait = v.Tx.Wait(rt.now()) })
	return wait
}

// claimable returns the handlers whose steps the pod can execute now, ascending.
func (rt *runtime) claimable() []int32 {
	if rt.txWait() > 0 {
		return rt.withoutTx
	}
	return rt.handlers
}

// numberHandlers sorts the numbers of the functions.
func (rt *runtime) numberHandlers() {
	for number := range rt.functions {
		rt.handlers = append(rt.handlers, number)
		if !rt.functions[number].Options.InTx {
			rt.withoutTx = append(rt.withoutTx, number)
		}
	}
	slices.Sort(rt.handlers)
	slices.Sort(rt.withoutTx)
}

// triggerLarge is the name of a call whose failure says nothing about other calls: its
// triggers may be too large for the server.
const triggerLarge = "trigger_large"
