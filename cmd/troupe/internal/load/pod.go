package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
	"github.com/troupe-dev/troupe/migrations"
)

// PodCommand is the name of the hidden subcommand that a pod's process runs.
const PodCommand = "bench-pod"

const (
	// warmRuns is how many runs a pod makes before the load: connections are
	// opened and statements prepared by them.
	warmRuns = 20
	// tallyEvery is the time between two tallies.
	tallyEvery = 100 * time.Millisecond
	// stopGrace bounds a pod's stop; by then all runs have ended, or are given up.
	stopGrace = 10 * time.Second
)

// Pod is one pod inside its own process.
type Pod struct {
	DatabaseURL string
	Config      troupe.Config
	In          io.Reader
	Out         io.Writer

	mu sync.Mutex // of Out
}

// loaded is a pod with its load.
type loaded struct {
	load    Load
	account account
	meter   *meter
	worker  *worker
	ends    *endings
	trigger *trigger
	memory  memoryMeter
	cpu     time.Duration // used before the load began
}

// Serve follows the instructions until they are over.
func (p *Pod) Serve(ctx context.Context) (err error) {
	instructions := readInstructions(p.In)
	first, more := <-instructions
	if !more || first.Load == nil {
		return errors.New("the first line has no load: " + PodCommand + " is started by troupe bench")
	}
	pool, err := pgxpool.New(ctx, p.DatabaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	looks, err := openLooks(ctx, p.DatabaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer looks.Close()

	l := newLoaded(*first.Load, looks)
	engine, err := l.open(ctx, pool, p.Config)
	if err != nil {
		return err
	}
	orphaned, err := p.carry(ctx, engine, l, instructions)
	if err == nil && !orphaned {
		l.close()
		err = p.say(news{Account: &l.account}) // first: what is stuck may keep the engine from stopping
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if orphaned {
		cancel() // the parent is gone: do not wait for running steps
	}
	return errors.Join(err, engine.Stop(stop))
}

// newLoaded wires up what makes the load and what counts it.
func newLoaded(l Load, looks *pgxpool.Pool) *loaded {
	sums := account{Acknowledged: &Histogram{}, Started: &Histogram{}, Ended: &Histogram{}}
	trigger := newTrigger(l, sums.Acknowledged)
	ends := newEndings(looks, l, sums.Ended, trigger.release)
	return &loaded{load: l, account: sums, meter: &meter{}, worker: newWorker(l, ends, sums.Started), ends: ends, trigger: trigger}
}

// open starts an engine, and lets it run a few times.
func (l *loaded) open(ctx context.Context, pool *pgxpool.Pool, config troupe.Config) (*troupe.Engine, error) {
	shape, err := parseShape(l.load.Shape)
	if err != nil {
		return nil, err
	}
	config.Schema, config.Slots, config.Metrics = migrations.DefaultSchema, l.load.Slots, l.meter
	engine, err := troupe.New(pool, config)
	if err != nil {
		return nil, err
	}
	if l.trigger.handle, err = troupe.Register(engine, shape.define(l.worker)); err != nil {
		return nil, err
	}
	if err := engine.Start(ctx); err != nil {
		return nil, err
	}
	for range warmRuns {
		if _, err := l.trigger.handle.Run(ctx, order{N: -1, Pad: l.trigger.pad}); err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
			defer cancel()
			return nil, errors.Join(err, engine.Stop(stop))
		}
	}
	return engine, nil
}

// carry puts the load on the engine and tells how it goes, until the last
// instruction, or until the parent is gone.
func (p *Pod) carry(ctx context.Context, engine *troupe.Engine, l *loaded, instructions <-chan instruction) (orphaned bool, err error) {
	if err := p.say(news{Ready: true}); err != nil {
		return true, err
	}
	ctx, cancel := context.WithCancel(ctx)
	halt, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	defer stop()
	broken := make(chan error, 2)
	given := int64(0)
	stopProfile := func() error { return nil }
	defer func() { err = errors.Join(err, stopProfile()) }()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-engine.Done():
			return false, engine.Err()
		case err := <-broken:
			return false, err
		case next, more := <-instructions:
			switch {
			case !more:
				return true, nil
			case next.Finish:
				return false, nil
			case next.Halt:
				stop()
			case next.Begin > 0:
				l.memory.begin()
				l.cpu = testbed.OwnCPU()
				l.meter.on.Store(true)
				if stopProfile, err = startProfile(l.load); err != nil {
					return false, err
				}
				parts.Go(func() { l.trigger.perform(ctx, halt, time.Unix(0, next.Begin)) })
				parts.Go(func() { report(broken, l.ends.follow(ctx)) })
				parts.Go(func() { report(broken, p.tell(ctx, l)) })
			}
			for ; given < next.Returned; given++ {
				l.trigger.release()
			}
		}
	}
}

// startProfile starts a CPU profile of this pod, if there is to be one.
func startProfile(l Load) (stop func() error, err error) {
	if l.Profiles == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(filepath.Join(l.Profiles, fmt.Sprintf("pod-%d.pprof", l.Index+1)))
	if err != nil {
		return nil, fmt.Errorf("create the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

func report(to chan<- error, err error) {
	if err != nil {
		to <- err
	}
}

// tell sends tallies: now and then, and soon after runs of other pods have
// ended, because those wait for their permits.
func (p *Pod) tell(ctx context.Context, l *loaded) error {
	soon := make(chan struct{}) // never, unless permits are waited for
	if l.trigger.permits != nil {
		soon = l.ends.foreign
	}
	for ticks := time.NewTicker(tallyEvery); ; {
		select {
		case <-ctx.Done():
			ticks.Stop()
			return nil
		case <-ticks.C:
		case <-soon:
		}
		l.memory.look()
		sum := l.tally()
		if err := p.say(news{Tally: &sum}); err != nil {
			return err
		}
		if l.trigger.permits != nil {
			_ = pause(ctx, returnEvery(l.load.Pods)) // what ends meanwhile goes into the next line
		}
	}
}

// returnEvery is how often permits are passed on between pods: often enough
// for few runs, and not so often that it costs the machine much.
func returnEvery(pods int) time.Duration {
	return min(20*time.Millisecond, 2*time.Millisecond*time.Duration(pods))
}

func (l *loaded) tally() tally {
	sum := tally{
		Idle:  l.trigger.idle.Load(), // before the counts, which are final if it is
		Steps: l.worker.steps.Load(), Elements: l.worker.elements.Load(), Retried: l.worker.failed.Load(),
		Failed: l.ends.failed.Load(), Ends: l.ends.counts(), LastEnd: l.ends.last.Load(),
		Errored: l.meter.errored.Load(), Lost: l.meter.lost.Load(),
	}
	sum.Triggered, sum.Refused = l.trigger.triggered.Load(), l.trigger.refused.Load()
	if text := l.trigger.refusal.Load(); text != nil {
		sum.Refusal = *text
	}
	return sum
}

// close adds up what the load has used.
func (l *loaded) close() {
	l.account.Tally = l.tally()
	l.account.Triggers, l.account.Claims, l.account.Records = l.meter.triggers.sum(), l.meter.claims.sum(), l.meter.recorded.sum()
	l.account.Wakes, l.account.Activations = l.meter.wakes.Load(), l.meter.activations.Load()
	l.account.Looks = l.ends.looks.Load()
	l.account.CPU = int64(testbed.OwnCPU() - l.cpu)
	l.account.Memory = l.memory.sum()
}

func (p *Pod) say(n news) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return json.NewEncoder(p.Out).Encode(n)
}

// readInstructions hands on what the parent says until its end of the pipe
// closes, which the kernel does if it dies.
func readInstructions(in io.Reader) <-chan instruction {
	instructions := make(chan instruction)
	go func() {
		defer close(instructions)
		for decoder := json.NewDecoder(in); ; {
			var next instruction
			if decoder.Decode(&next) != nil {
				return
			}
			instructions <- next
		}
	}()
	return instructions
}
