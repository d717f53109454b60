package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	scheduler "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/workflow"
)

// Executor carries out calls that must not run on the goroutine of an actor, and brings
// the result back as a message. It is the only place of the actors that starts goroutines;
// a simulation puts a single-threaded one in its place. Implementations are safe for
// concurrent use.
type Executor interface {
	// Call makes one store call. Its context ends after timeout, or when the
	// executor is closed. What call returns is sent to the actor.
	Call(to *PID, name string, timeout time.Duration, call func(ctx context.Context) any)
	// Execute runs one attempt. run calls deliver exactly once, also when the
	// step function panics or ends its goroutine.
	Execute(to *PID, task workflow.TaskID, run func(deliver func(any)))
	// Follow runs a subscription until stop is called or the executor is
	// closed. What loop returns is sent to the actor.
	Follow(to *PID, name string, loop func(ctx context.Context) any) (stop func())
	// Yield sends a message to an actor after all goroutines that are ready to run now.
	Yield(to *PID, message any)
	// Close ends the contexts of calls and subscriptions, and waits until these have
	// returned, for a bounded time: they may be blocked in the embedder's code. It does
	// not wait for attempts: a step function may ignore its context.
	Close()
}

// goroutines is the Executor of production.
type goroutines struct {
	clock   clock.Clock
	deliver func(to *PID, message any)
	base    context.Context //nolint:containedctx // the one lifetime of all calls
	end     context.CancelFunc
	calls   sync.WaitGroup
	closing sync.Once

	mu     sync.Mutex
	closed bool // nothing is begun any more
}

var _ Executor = (*goroutines)(nil)

func newExecutor(c clock.Clock, deliver func(to *PID, message any)) *goroutines {
	base, end := context.WithCancel(context.Background())
	return &goroutines{clock: c, deliver: deliver, base: base, end: end}
}

// errCallTimeout is the cause of a store call that took too long.
var errCallTimeout = errors.New("store call timed out")

// Call implements Executor.
func (g *goroutines) Call(to *PID, _ string, timeout time.Duration, call func(ctx context.Context) any) {
	if !g.begin() {
		return
	}
	ctx, cancel := context.WithCancelCause(g.base)
	stop := g.clock.After(timeout, func() { cancel(errCallTimeout) })
	go func() {
		defer g.calls.Done()
		defer cancel(nil)
		defer stop()
		g.deliver(to, call(ctx))
	}()
}

// Execute implements Executor.
func (g *goroutines) Execute(to *PID, _ workflow.TaskID, run func(deliver func(any))) {
	go func() {
		widen()
		run(func(message any) { g.deliver(to, message) })
	}()
}

// Yield implements Executor.
func (g *goroutines) Yield(to *PID, message any) {
	go func() {
		scheduler.Gosched()
		g.deliver(to, message)
	}()
}

// roomy is a dispatcher that starts a goroutine whenever an actor has something to do, with
// room on its stack from the beginning.
type roomy struct{}

// Schedule implements protoactor's Dispatcher.
func (roomy) Schedule(fn func()) {
	go func() {
		widen()
		fn()
	}()
}

// throughput is after how many messages an actor lets others run.
const throughput = 300

// Throughput implements protoactor's Dispatcher.
func (roomy) Throughput() int { return throughput }

// inline is a dispatcher that has an actor handle a message on the goroutine that sends it,
// which must hold no lock. A run actor gets some three messages in its life, and needs no
// goroutine for any of them.
type inline struct{}

// Schedule implements protoactor's Dispatcher.
func (inline) Schedule(fn func()) { fn() }

// Throughput implements protoactor's Dispatcher.
func (inline) Throughput() int { return throughput }

// widen grows the stack of a new goroutine to eight kilobytes while there is
// nothing on it. It would grow anyway, in the depth of a decoder or of an actor,
// where each frame has to be adjusted: that was a sixth of a pod's CPU.
//
//go:noinline
func widen() {
	var room [5 << 10]byte
	touch(&room)
}

//go:noinline
func touch(room *[5 << 10]byte) { room[0] = 1 }

// Follow implements Executor.
func (g *goroutines) Follow(to *PID, _ string, loop func(ctx context.Context) any) (stop func()) {
	if !g.begin() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(g.base)
	go func() {
		defer g.calls.Done()
		defer cancel()
		g.deliver(to, loop(ctx))
	}()
	return cancel
}

// begin counts a call, unless the executor is closed: the answer would reach no actor.
func (g *goroutines) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.calls.Add(1)
	}
	return !g.closed
}

// Close implements Executor.
func (g *goroutines) Close() { g.closing.Do(g.close) }

func (g *goroutines) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.end()
	returned, late := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		g.calls.Wait()
	}()
	stop := g.clock.After(stopStageLimit, func() { close(late) })
	defer stop()
	select {
	case <-returned:
	case <-late:
	}
}

// Random is a source of random bits, safe for concurrent use.
type Random interface{ Uint64() uint64 }

// systemRandom draws from the operating system: ids of two pods must not meet.
type systemRandom struct{}

// Uint64 implements Random.
func (systemRandom) Uint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (documented since Go 1.24)
	return binary.BigEndian.Uint64(b[:])
}

// sequence numbers the questions of all actors of a pod, so that an answer to
// an older question, or to an earlier incarnation, is known as such.
type sequence struct{ last atomic.Int64 }

func (s *sequence) next() int64 { return s.last.Add(1) }

// wakeBuffer merges the wakes of a replication stream until the feed takes them: at most
// one message is under way, whatever the rate of commits.
type wakeBuffer struct {
	tell func()

	mu    sync.Mutex
	wakes *cluster.Coalescer
	told  bool
}

func newWakeBuffer(tell func()) *wakeBuffer {
	return &wakeBuffer{tell: tell, wakes: cluster.NewCoalescer(cluster.DefaultWakeLimits())}
}

func (b *wakeBuffer) add(wakes []cluster.Wake) {
	b.mu.Lock()
	b.wakes.Add(wakes...)
	tell := !b.told
	b.told = true
	b.mu.Unlock()
	if tell {
		b.tell()
	}
}

func (b *wakeBuffer) take() []cluster.Wake {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = false
	return b.wakes.Drain()
}
