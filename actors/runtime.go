package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// runtime is the world as the actors of one pod see it. Nothing else reaches
// them: no clock, no randomness, no goroutine. It does not change after Start.
type runtime struct {
	system    *System
	clock     clock.Clock
	executor  Executor
	mailbox   MailboxProducer
	random    Random
	numbers   *sequence
	log       *slog.Logger
	meter     *meter
	config    Config
	ports     Ports
	functions map[int32]StepFunction // by handler number
	evaluate  Evaluate
	boundary  *boundary
	reach     *reach
	watches   *watches
	refusals  *refusals
	unbegun   *unbegun // transactions of steps
	handlers  []int32  // of functions, ascending
	plain     []int32  // those without a transaction
	timers    stall    // of the timekeeper
	probes    stall    // of the pulse
	firing    pace     // of the timekeepers of all terms
	expiring  pace     // of the housekeepers of all terms
	parking   pace     // likewise
	claiming  pace
	recording pace
	house     stall        // of the housekeeper
	broken    *brokenSteps // transactions
	working   *working
	payloads  *payloads
	team      team

	arrive   func(to *PID, message any) // send, from goroutines that are not the actors'
	buggify  func(place string) bool
	lifetime context.Context //nolint:containedctx // of all attempts
}

// Ports are the adapters that a pod works through.
type Ports struct {
	Store    persistence.Store
	Listener cluster.Listener
	Stream   cluster.Stream // nil: there is none, wakes are notified
	Notifier cluster.Notifier
	Elector  cluster.Elector
	// Echo has so many bytes sent back by the database, through the pool that Store's
	// calls go through; nil: nothing is lost on the way for being large.
	Echo    func(ctx context.Context, bytes int) error
	Lending func() Lending // of the embedder's pool; nil: there is none
}

// Evaluate returns the definition to run for a trigger that came as a message,
// and what its conditions say about the input.
type Evaluate func(workflow string, input []byte) (workflow.Hash, []persistence.EdgeResult, error)

// ErrUnknownWorkflow is returned by an Evaluate that does not know the name.
var ErrUnknownWorkflow = errors.New("workflow is not registered")

// team is the addresses of the actors of one pod. They stay valid over
// restarts, because an actor's name does.
type team struct {
	pod, intake, claimer, runs, journal, pulse, feed, leader, timekeeper, housekeeper *PID
}

func newTeam(system *System, root string) team {
	at := func(name string) *PID { return system.NewLocalPID(root + name) }
	return team{
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
	return workflow.NewRunID(rt.boundary.databaseTime(rt.now()), [10]byte(random[:10]))
}

// retryDelay is the wait before a store call is made again after failing n
// times in a row.
func (rt *runtime) retryDelay(n int) time.Duration {
	policy := workflow.RetryPolicy{First: 50 * time.Millisecond, Cap: 2 * time.Second, Jitter: 0.25}
	return lifecycle.RetryDelay(policy, int32(min(n, 30)), rt.chance())
}

// storeFailed logs and counts a store call that will be made again.
func (rt *runtime) storeFailed(name string, err error) {
	rt.meter.add(MetricStoreErrors, 1, name)
	if name == "renew_pod" || barsWrites(name, err) {
		rt.boundary.away(rt.now())
	}
	switch {
	case errors.Is(err, persistence.ErrDiskFull):
		rt.boundary.noWrites(diskFull, rt.now())
	case errors.Is(err, persistence.ErrReadOnly):
		rt.boundary.noWrites(readOnly, rt.now())
	case errors.Is(err, persistence.ErrNoResources) && slices.Contains(vital(), name):
		rt.boundary.noWrites(noResources, rt.now())
	}
	if errors.Is(err, persistence.ErrNumbersChanged) {
		rt.send(rt.team.pod, &numbersChanged{err})
	}
	if errors.Is(err, persistence.ErrPodDead) && rt.boundary.leaves() {
		return
	}
	level := slog.LevelError
	if errors.Is(err, persistence.ErrUnavailable) || errors.Is(err, persistence.ErrConflict) || errors.Is(err, persistence.ErrPodDead) {
		level = slog.LevelWarn
	}
	rt.log.LogAttrs(context.Background(), level, "store call failed, trying again",
		slog.String("call", name), slog.Any("error", err))
}

// refusedAsDead hears that the database takes the pod for dead, if that is what a call
// failed with. It may be late only: the renewal, which is asked for now, tells.
func (rt *runtime) refusedAsDead(err error) {
	if errors.Is(err, persistence.ErrPodDead) {
		rt.boundary.toldDead(rt.now())
		rt.send(rt.team.pulse, &messages.CheckCancels{})
	}
}

// barsWrites reports whether what a call failed with may have kept every pod from
// renewing its lease, too: the database was away, or takes no writes. What triggers need
// more of than it has says nothing of renewals.
func barsWrites(name string, err error) bool {
	return !persistence.Answered(err) || errors.Is(err, persistence.ErrDiskFull) || errors.Is(err, persistence.ErrReadOnly) ||
		errors.Is(err, persistence.ErrNoResources) && name != "trigger_runs" && name != triggerLarge
}

// unknown counts a message that an actor does not accept.
func (rt *runtime) unknown(actor string, message any) {
	rt.meter.add(MetricUnknownMessages, 1, actor)
	rt.log.LogAttrs(context.Background(), slog.LevelWarn, "message not accepted",
		slog.String("actor", actor), slog.String("message", fmt.Sprintf("%T", message)))
}

// answered is the result of a store call, with the number of the question.
type answered[T any] struct {
	number int64
	value  T
	err    error
}

// ask makes a store call, through the pool, whose result comes back to the actor
// as *answered[T]. A panic of an adapter is an error of the call.
func ask[T any](rt *runtime, to *PID, name string, timeout time.Duration, call func(ctx context.Context) (T, error)) int64 {
	number, asked := rt.numbers.next(), rt.now()
	rt.reach.asked(number, asked)
	carry(rt, to, name, timeout, number, call, func(value T, err error) {
		now := rt.now()
		rt.reach.ended(number, now, err)
		if part, is := any(value).(interface{ Refusal() error }); is && err == nil {
			err = part.Refusal()
		}
		rt.refusals.note(name, now, now.Sub(asked), err)
	})
	return number
}

// askApart is ask for calls on connections of their own: what becomes of them
// says nothing about the pool.
func askApart[T any](rt *runtime, to *PID, name string, timeout time.Duration, call func(ctx context.Context) (T, error)) int64 {
	number := rt.numbers.next()
	carry(rt, to, name, timeout, number, call, func(T, error) {})
	return number
}

func carry[T any](
	rt *runtime, to *PID, name string, timeout time.Duration, number int64, call func(ctx context.Context) (T, error), ended func(T, error),
) {
	rt.executor.Call(to, name, timeout, func(ctx context.Context) any {
		answer := &answered[T]{number: number}
		answer.value, answer.err = contained(func() (T, error) { return call(ctx) })
		ended(answer.value, answer.err)
		return answer
	})
}

// contained calls f and turns its panic into an error.
func contained[T any](f func() (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %s", panics.Text(r))
		}
	}()
	return f()
}

// containedLoop does the same for what is followed until it ends.
func containedLoop(loop func() error) error {
	_, err := contained(func() (struct{}, error) { return struct{}{}, loop() })
	return err
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

// sawClock notes what the database's clock said in an answer to what was asked at an
// instant of ours, and says so if it has leapt.
func (rt *runtime) sawClock(database, asked time.Time) {
	if by := rt.boundary.sawClock(database, asked, rt.now()); by > 0 {
		rt.log.LogAttrs(context.Background(), slog.LevelWarn, "the database's clock has leapt forward: no pod is declared dead for the length of a lease, and after a minute or more no history dropped for an hour",
			slog.Duration("by", by.Round(time.Second)))
	}
}
