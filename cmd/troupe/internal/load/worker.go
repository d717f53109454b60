package load

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe"
)

// order is the input of a run.
type order struct {
	N   int64  `json:"n"`   // the run's number; negative: of the warm-up
	At  int64  `json:"at"`  // when it was to be triggered, in nanoseconds since 1970
	Pod int    `json:"pod"` // that triggered it
	Pad string `json:"pad,omitempty"`
}

// result is the output of a step.
type result struct {
	N   int64  `json:"n"`
	Pad string `json:"pad,omitempty"`
}

type stepN = func(context.Context, order, troupe.Values) (result, error)

// Failures that were asked for.
const askedClass = "bench"

var (
	errOnce    = errors.New("this attempt was asked to fail")
	errForGood = errors.New("this run was asked to fail")
)

// retryAfter is the wait after an attempt that was asked to fail.
const retryAfter = 100 * time.Millisecond

// worker has the step functions of one pod, which do nothing but take their
// time, fail if asked to, and count.
type worker struct {
	load    Load
	pad     string
	started *Histogram // from the intended trigger to the first line of the first step
	ends    *endings
	steps   atomic.Int64 // executed to their end
	failed  atomic.Int64 // attempts that failed because they were asked to, and are tried again

	elements atomic.Int64 // of the steps
}

func newWorker(l Load, ends *endings, started *Histogram) *worker {
	return &worker{load: l, pad: newPad(l.Payload), started: started, ends: ends}
}

// newPad makes what inflates inputs and outputs.
func newPad(bytes int) string { return strings.Repeat("x", bytes) }

func (w *worker) retry() troupe.Retry {
	return troupe.Retry{Attempts: 5, First: retryAfter, Jitter: -1}
}

func (w *worker) step0(last bool) func(context.Context, order) (result, error) {
	return func(ctx context.Context, in order) (result, error) { return w.work(ctx, in, 0, last) }
}

func (w *worker) step1(step int, last bool) func(context.Context, order, result) (result, error) {
	return func(ctx context.Context, in order, _ result) (result, error) { return w.work(ctx, in, step, last) }
}

func (w *worker) step2(step int) func(context.Context, order, result, result) (result, error) {
	return func(ctx context.Context, in order, _, _ result) (result, error) { return w.work(ctx, in, step, true) }
}

func (w *worker) pair(step int) func(context.Context, order, result, result) (result, error) {
	return func(ctx context.Context, in order, _, _ result) (result, error) { return w.work(ctx, in, step, false) }
}

func (w *worker) merge(step int) func(context.Context, order, troupe.Opt[result], troupe.Opt[result]) (result, error) {
	return func(ctx context.Context, in order, _, _ troupe.Opt[result]) (result, error) {
		return w.work(ctx, in, step, true)
	}
}

func (w *worker) stepN(step int) stepN {
	return func(ctx context.Context, in order, _ troupe.Values) (result, error) {
		return w.work(ctx, in, step, true)
	}
}

// work is what every step does.
func (w *worker) work(ctx context.Context, in order, step int, last bool) (result, error) {
	out := result{N: in.N, Pad: w.pad}
	if in.N < 0 {
		return out, nil
	}
	task := troupe.Task(ctx)
	if step == 0 && task.Attempt == 1 {
		w.started.Record(time.Duration(time.Now().UnixNano() - in.At))
	}
	if err := pause(ctx, w.load.StepLatency.at(chance(in.N, step, toTake))); err != nil {
		return out, err
	}
	if task.Attempt == 1 && chance(in.N, step, toFail) < w.load.FailureRate {
		w.failed.Add(1)
		return out, troupe.Class(askedClass, errOnce)
	}
	w.steps.Add(1)
	if !last {
		return out, nil
	}
	fatal := chance(in.N, 0, toFailForGood) < w.load.FatalRate
	w.ends.expect(task.Run, in, fatal)
	if fatal {
		return out, troupe.Terminal(troupe.Class(askedClass, errForGood))
	}
	return out, nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
