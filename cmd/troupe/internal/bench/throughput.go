package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe"
)

// openRuns is how many runs may be open at once: enough that no slot waits for
// a trigger, and few enough that the queue does not grow without end.
func openRuns(slots int) int { return 4 * slots }

// endedTimeout bounds the wait for what was triggered; beyond it something is
// stuck.
const endedTimeout = 2 * time.Minute

func measureSingle(ctx context.Context, l *lab) (sample, error) {
	return throughput(ctx, l, single, 1)
}

func measureDiamond(ctx context.Context, l *lab) (sample, error) {
	return throughput(ctx, l, diamond, 4)
}

// throughput triggers runs as fast as it can and waits until the last one has
// ended. The time is that from the first trigger to then.
func throughput(ctx context.Context, l *lab, shape func(func()) *troupe.Workflow[int, int], steps int) (sample, error) {
	runs := max(1, l.options.Tasks/steps)
	load := &load{runs: int64(runs), open: make(chan struct{}, openRuns(l.options.Slots)), last: make(chan struct{})}
	config := l.options.Config
	config.Slots, config.IntakePending = l.options.Slots, max(config.IntakePending, 10_000)

	before, err := l.Usage(ctx)
	if err != nil {
		return nil, err
	}
	var took time.Duration
	err = onPod(ctx, l, config, shape(load.ended), func(handle *troupe.Handle[int, int]) error {
		began := time.Now()
		if err := load.trigger(ctx, handle, l.options.Callers); err != nil {
			return err
		}
		if err := l.awaitEnd(ctx); err != nil {
			return err
		}
		took = time.Since(began)
		return nil
	})
	if err != nil {
		return nil, err
	}
	after, err := l.Usage(ctx) // the pod's sessions are over, so all of their transactions are counted
	if err != nil {
		return nil, err
	}
	tasks := float64(runs * steps)
	result := costs(after.Since(before), tasks)
	result[perSecond] = tasks / took.Seconds()
	if steps > 1 {
		result[runsPerS] = float64(runs) / took.Seconds()
	}
	return result, nil
}

// load is runs that are triggered by several callers, a bounded number open at
// once.
type load struct {
	runs  int64
	open  chan struct{} // a permit per open run
	next  atomic.Int64
	done  atomic.Int64
	last  chan struct{} // closed when the last step of the last run has started
	fails failure
}

// ended is called by the last step of each run.
func (l *load) ended() {
	if l.done.Add(1) == l.runs {
		close(l.last)
	}
	select {
	case <-l.open:
	default: // executed again after a loss; its permit was given back
	}
}

// trigger returns when all runs are triggered and have reached their last step.
func (l *load) trigger(ctx context.Context, handle *troupe.Handle[int, int], callers int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endedTimeout, fmt.Errorf("not all runs have ended after %v", endedTimeout))
	defer cancel()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := l.next.Add(1); n <= l.runs; n = l.next.Add(1) {
				select {
				case l.open <- struct{}{}:
				case <-ctx.Done():
					return
				}
				if _, err := handle.RunNoWait(ctx, int(n)); err != nil {
					l.fails.note(err)
					cancel()
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case <-l.last:
		return nil
	case <-ctx.Done():
		if err := l.fails.first(); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
}

// failure keeps the first of several errors.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *failure) first() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

const openRunsSQL = `select exists (select from troupe.workflow_runs where state < 10)`

// awaitEnd waits until every run is recorded as ended. It looks often, because
// the last steps have started already.
func (l *lab) awaitEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endedTimeout, fmt.Errorf("not all runs have ended after %v", endedTimeout))
	defer cancel()
	for ticks := time.NewTicker(2 * time.Millisecond); ; {
		var open bool
		if err := l.Pool.QueryRow(ctx, openRunsSQL).Scan(&open); err != nil || !open {
			ticks.Stop()
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
	}
}
