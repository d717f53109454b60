package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
)

// podVariable holds the description of a pod, for the process that is to be it.
const podVariable = "TROUPE_CHAOS_POD"

// podSpec is what a pod's process is told.
type podSpec struct {
	Name    string
	URL     string
	Direct  string        // past a proxy, for sessions that live long; "": as URL
	Dir     string        // of the ledgers, and of the files that let holds go
	Ledger  string        // the pod's own
	Callers int           // that trigger and wait; 0: none
	Cancels bool          // callers cancel some runs, too
	Signals bool          // every second run waits for signals, which its caller sends
	Await   time.Duration // how long callers wait for a run before it is stuck; 0: awaitMax
	Soak    *soakSpec     // nil: no soak
	Tune    tuning
	Fail    failSpec
	Version int // of the program; 0: the first

	Children bool // every second run has child runs
	Maps     bool // every second run has a map
	Machines bool // every second run is a state machine
}

// tuning is what tests change about the engine.
type tuning struct {
	Slots         int
	Pulse, Lease  time.Duration
	Grace         time.Duration
	LeaderPing    time.Duration
	LeaderSilence time.Duration
	LeaderTry     time.Duration
	Sweep         time.Duration
	MaxLost       int
}

// brisk is a configuration in which what production takes seconds for happens
// sooner: docs/reliability.md has both beside each other. In `go test`, beside other
// rows, packages and compilers, a session may take a second to begin: leases are longer.
func brisk() tuning {
	tune := briskAlone()
	tune.Pulse, tune.Lease = spell(750*time.Millisecond, tune.Pulse), spell(3750*time.Millisecond, tune.Lease)
	return tune
}

// briskAlone is for rows that have the machine to themselves, as in `make chaos`.
func briskAlone() tuning {
	return tuning{
		Slots: 16, Pulse: 250 * time.Millisecond, Lease: 1250 * time.Millisecond, Grace: 5 * time.Second,
		LeaderPing: 250 * time.Millisecond, LeaderSilence: 750 * time.Millisecond, LeaderTry: 100 * time.Millisecond,
		Sweep: 2 * time.Second, MaxLost: 20, // with a kill every half second, three losses of one task are just bad luck
	}
}

func (s podSpec) config(log *slog.Logger) troupe.Config {
	return troupe.Config{
		PodName: s.Name, DirectURL: s.Direct, Slots: s.Tune.Slots, Pulse: s.Tune.Pulse, Lease: s.Tune.Lease, StopGrace: s.Tune.Grace,
		CancelGrace: time.Second, LeaderPing: s.Tune.LeaderPing, LeaderSilence: s.Tune.LeaderSilence,
		LeaderTry: s.Tune.LeaderTry, Sweep: s.Tune.Sweep, SweepDegraded: 300 * time.Millisecond,
		MaxLost: s.Tune.MaxLost, Logger: log, Metrics: s.Soak.metrics(),
	}
}

// Exit codes of a pod.
const (
	exitClean  = 0
	exitFailed = 1
	exitCrash  = 3 // a step function ended the process, as planned
)

// podProcess is what a pod's process has.
type podProcess struct {
	spec   podSpec
	pool   *pgxpool.Pool
	engine *troupe.Engine
	ledger *ledger
	shapes shapes

	closeStore func()       // of failing ports; may be nil
	writes     atomic.Int64 // to the server, where they are counted
	hoarded    []*os.File
	base       int        // goroutines after the start, before there was work
	mu         sync.Mutex // of standard output
	quiet      chan struct{}
	callers    sync.WaitGroup
}

// servePod is the main function of a pod's process: the first signal stops it
// in good order, the second at once.
func servePod() int {
	var spec podSpec
	if err := json.Unmarshal([]byte(os.Getenv(podVariable)), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	p := &podProcess{spec: spec, quiet: make(chan struct{})}
	if err := p.serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitClean
}

func (p *podProcess) serve() error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := p.start(); err != nil {
		return err
	}
	p.base = runtime.NumGoroutine()
	p.say("ready")
	go p.obey()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.spec.Soak.start(ctx, p)
	for range p.spec.Callers {
		p.callers.Go(func() { p.call(ctx) })
	}
	select {
	case <-signals:
	case <-p.engine.Done():
		return fmt.Errorf("the engine ended by itself: %w", p.engine.Err())
	}
	p.say("stopping")
	go func() {
		<-signals
		cancel()
	}()
	stop, end := context.WithCancel(ctx)
	defer end()
	err := p.engine.Stop(stop)
	cancel()
	p.callers.Wait()
	if p.closeStore != nil {
		p.closeStore()
	}
	p.pool.Close()
	return errors.Join(err, p.ledger.file.Close())
}

func (p *podProcess) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if p.ledger, err = openLedger(p.spec.Ledger); err != nil {
		return err
	}
	settings, err := pgxpool.ParseConfig(p.spec.URL)
	if err != nil {
		return err
	}
	settings.ConnConfig.RuntimeParams["application_name"] = "chaos pod"
	p.dial(settings.ConnConfig)
	if p.pool, err = pgxpool.NewWithConfig(ctx, settings); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if p.engine, err = p.newEngine(p.spec.config(log)); err != nil {
		return err
	}
	if err := p.register(); err != nil {
		return err
	}
	for { // the server may be away
		err := p.engine.Start(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "start again:", err)
		if pause(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

func (p *podProcess) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) // a test that is gone does not listen
}

func (p *podProcess) triggerSome(shape string, n int) []string {
	ids := make([]string, 0, n)
	shape, tenant, _ := strings.Cut(shape, "/")
	of := troupe.Tenant(cmp.Or(tenant, "tenant-0"))
	for i := range n {
		key := fmt.Sprintf("%s-%d-some-%s-%d-%d", p.spec.Name, os.Getpid(), shape, p.shapes.calls.Add(1), i)
		run, err := p.shapes.byName(shape).RunNoWait(context.Background(), key, troupe.Key(key), of)
		if err != nil {
			return append(ids, "failed:"+strings.ReplaceAll(err.Error(), " ", "_"))
		}
		p.ledger.note("acked", run.ID().String(), shape)
		ids = append(ids, run.ID().String())
	}
	return ids
}

// flood triggers many runs with few calls, and says how many, or why not.
func (p *podProcess) flood(shape string, n int) string {
	shape, tenant, _ := strings.Cut(shape, "/")
	for left := n; left > 0; left -= troupe.RunManyMax {
		inputs := make([]string, min(left, troupe.RunManyMax))
		for i := range inputs {
			inputs[i] = fmt.Sprintf("flood-%d", left-i)
		}
		runs, err := p.shapes.byName(shape).RunMany(context.Background(), inputs, troupe.Tenant(cmp.Or(tenant, "tenant-0")))
		if err != nil {
			return err.Error()
		}
		for _, run := range runs {
			p.ledger.note("acked", run.ID().String(), shape)
		}
	}
	return strconv.Itoa(n)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
