package troupe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/host"
	"github.com/troupe-dev/troupe/internal/logqueue"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
)

// Engine runs workflows in this process: one pod. Make it with [New], register
// workflows, Start it, Stop it. It is safe for concurrent use. An engine that
// has stopped does not start again.
type Engine struct {
	config  Config
	connect func(context.Context, Config) (*backend, error)
	logs    *logqueue.Queue // before Config.Logger; nil: there is none
	nested  *nested
	// explaining has room for the one status that asks why steps wait.
	explaining chan struct{}

	mu       sync.Mutex
	phase    phase
	programs map[string]*program.Bound // by workflow name
	order    []*program.Bound          // in order of registration
	backend  *backend
	store    persistence.Store
	pod      *actors.Pod
	starting chan struct{}           // closed when the last Start has returned; nil: there was none
	abort    context.CancelCauseFunc // ends that Start

	unqueued *slog.Logger // Config.Logger without the queue before it; nil: there is none
}

// phase is how far the life of an engine has come.
type phase uint8

const (
	phaseNew phase = iota
	phaseStarting
	phaseRunning
	phaseStopped
)

// startable returns why an engine cannot be started, or nil.
func (p phase) startable() error {
	switch p {
	case phaseNew:
		return nil
	case phaseStopped:
		return fmt.Errorf("%w: it has stopped; make a new one", ErrStarted)
	case phaseStarting, phaseRunning:
	}
	return ErrStarted
}

// New returns an engine on the database of pool. It connects to nothing yet.
// The pool stays the caller's; the engine takes its connection settings and
// opens a small pool of its own at Start. Steps with InTx and TriggerTx use
// the caller's. All problems of config are reported at once.
func New(pool *pgxpool.Pool, config Config) (*Engine, error) {
	if pool == nil {
		return nil, errors.New("new engine: the pool is nil: pass a *pgxpool.Pool of the database to use")
	}
	engine, err := newEngine(config, func(ctx context.Context, config Config) (*backend, error) {
		return openPod(ctx, pool, config)
	})
	if err == nil {
		engine.queueLogs()
	}
	return engine, err
}

// NewInMemory returns an engine that keeps everything in the memory of this
// process and is its only pod: for tests and for trying things out. Nothing
// survives it. In a bubble of testing/synctest its time is virtual: a step may
// sleep for a day and the test takes milliseconds.
func NewInMemory(config Config) (*Engine, error) {
	if err := config.executes(); err != nil {
		return nil, err
	}
	return newEngine(config.alone(), openMemory)
}

// NewOn returns an engine on a simulated cluster: package simtest makes those.
func NewOn(h host.Host, config Config) (*Engine, error) {
	if err := config.executes(); err != nil {
		return nil, err
	}
	return newEngine(config, openHost(h))
}

func newEngine(config Config, connect func(context.Context, Config) (*backend, error)) (*Engine, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	return &Engine{
		config: config, connect: connect, nested: newNested(), explaining: make(chan struct{}, 1),
		programs: map[string]*program.Bound{},
	}, nil
}

var (
	// errEnded is what calls get once the engine has stopped.
	errEnded = fmt.Errorf("%w: it has stopped; make a new one", ErrNotStarted)
	// errStopped is why a Start ends that Stop has come in the way of.
	errStopped = fmt.Errorf("%w: it was stopped while it started", ErrNotStarted)
)

// Start connects to the database, makes the registered workflows known and
// starts the pod's actors. It returns once the pod may claim tasks. ctx bounds
// the start only. A start that failed may be tried again, unless Stop was
// called meanwhile.
func (e *Engine) Start(ctx context.Context) error {
	caller := ofCaller(ctx)
	if caller.Err() != nil {
		return fmt.Errorf("start engine: %w", endOf(caller))
	}
	ctx, abort := context.WithCancelCause(caller)
	defer abort(nil)
	starting := make(chan struct{})
	e.mu.Lock()
	if err := errors.Join(e.phase.startable(), e.checkChildren()); err != nil {
		e.mu.Unlock()
		return fmt.Errorf("start engine: %w", err)
	}
	e.phase, e.abort, e.starting = phaseStarting, abort, starting
	e.mu.Unlock()
	defer close(starting)
	backend, pod, err := e.open(ctx)
	e.mu.Lock()
	stopped := e.phase == phaseStopped
	switch {
	case stopped:
	case err != nil:
		e.phase = phaseNew
	default:
		e.backend, e.store, e.pod, e.phase = backend, backend.store, pod, phaseRunning
	}
	e.mu.Unlock()
	switch {
	case stopped && err == nil:
		pod.Kill()
		err = errors.Join(errStopped, backend.close())
	case stopped:
		err = errors.Join(errStopped, err)
	}
	if err != nil {
		e.flushLogs(ctx)
		return fmt.Errorf("start engine: %w", told(caller, caller, err))
	}
	return nil
}

// open connects and starts the pod.
func (e *Engine) open(ctx context.Context) (*backend, *actors.Pod, error) {
	backend, err := e.connect(ctx, e.config)
	if err != nil {
		return nil, nil, err
	}
	backend.close = sync.OnceValue(backend.close) // Stop may be called twice
	pod, err := e.startPod(ctx, backend)
	if err != nil {
		return nil, nil, errors.Join(err, backend.close())
	}
	return backend, pod, nil
}

// Stop ends the pod in good order: new triggers are refused, running tasks get
// Config.StopGrace to finish, the rest is handed back uncharged, and other pods
// take over at once. When ctx ends first the pod stops at once, and what it
// held is handed back or, without a database, taken over when its lease ends: where
// the database answers nothing, Stop returns within a second of the end of ctx.
// A Start under way ends with an error. What was logged is written when Stop
// returns, unless Config.Logger is stuck. Stop may be called again, also while
// the first call waits: with a context that has ended it stops the pod at once.
func (e *Engine) Stop(ctx context.Context) error {
	ctx = ofCaller(ctx)
	defer e.flushLogs(ctx)
	e.mu.Lock()
	e.phase = phaseStopped
	starting, abort, pod, backend := e.starting, e.abort, e.pod, e.backend
	e.mu.Unlock()
	switch {
	case pod != nil:
		err := pod.Stop(ctx)
		if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return errors.Join(err, backend.close())
	case starting == nil:
		return nil
	}
	abort(errStopped)
	select {
	case <-starting: // it gives back what it has opened
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop engine: %w", endOf(ctx))
	}
}

// Done is closed when the pod has ended, by Stop or by a failure that its
// supervision could not mend. Err tells which. After a failure call Stop, too:
// it closes connections and waits for the last of the log. Before Start Done is
// nil.
func (e *Engine) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pod == nil {
		return nil
	}
	return e.pod.Done()
}

// Err returns why the pod ended, or nil while it lives and after Stop.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pod == nil {
		return nil
	}
	return e.pod.Err()
}

// PID returns the address of the engine in its actor system. It accepts
// messages.TriggerRun, messages.CancelRun and messages.AwaitRun and answers the
// sender. Before Start it is nil.
func (e *Engine) PID() *actor.PID {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pod == nil {
		return nil
	}
	return e.pod.PID()
}

// System returns the actor system that the engine lives in. Before Start it is
// nil unless Config.System was given.
func (e *Engine) System() *actor.ActorSystem {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pod == nil {
		return e.config.System
	}
	return e.pod.System()
}

// livePod returns the pod of an engine that runs.
func (e *Engine) livePod() (*actors.Pod, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.phase {
	case phaseRunning:
		return e.pod, nil
	case phaseStopped:
		return nil, errEnded
	case phaseNew, phaseStarting:
	}
	return nil, fmt.Errorf("%w: call Start first", ErrNotStarted)
}

// running returns the store of an engine that runs.
func (e *Engine) running() (persistence.Store, error) {
	if _, err := e.livePod(); err != nil {
		return nil, err
	}
	return e.store, nil
}

// ownStore returns the store also while the engine stops: step functions may finish.
func (e *Engine) ownStore() persistence.Store {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.store
}

// whileRunning returns why a call failed: one that an end of the engine has overtaken found
// its connections closed.
func (e *Engine) whileRunning(err error) error {
	if _, ended := e.livePod(); ended != nil && errors.Is(err, persistence.ErrUnavailable) {
		return ended
	}
	return err
}

func (e *Engine) tenant(name string) string {
	if name == "" {
		return e.config.DefaultTenant
	}
	return name
}
