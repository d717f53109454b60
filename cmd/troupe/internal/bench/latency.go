package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe"
)

const (
	// idleBefore is how long the pods are left alone before a sample.
	idleBefore = 5 * time.Millisecond
	// warmUp is how many samples are thrown away: connections are opened and
	// statements prepared by them.
	warmUp = 20
	// acquaintance is how long pods have to learn of each other, which they do
	// with their pulse.
	acquaintance = 6 * time.Second
	// startTimeout bounds one sample.
	startTimeout = time.Minute
)

func measureStart(ctx context.Context, l *lab) (sample, error) {
	began := make(chan time.Time, 1)
	var taken times
	err := onPod(ctx, l, l.options.Config, single(func() { began <- time.Now() }), func(handle *troupe.Handle[int, int]) error {
		var err error
		taken, err = starts(ctx, handle, began, l.options.Samples)
		return err
	})
	return taken.sample(), err
}

// measureStartAcross triggers on a pod that serves another queue only, so that
// what it makes ready is always the other pod's to find.
func measureStartAcross(ctx context.Context, l *lab) (sample, error) {
	began := make(chan time.Time, 1)
	w := single(func() { began <- time.Now() })
	elsewhere := l.options.Config
	elsewhere.QueueSlots = map[string]int{"elsewhere": 1}
	var taken times
	err := onPod(ctx, l, l.options.Config, w, func(*troupe.Handle[int, int]) error {
		return onPod(ctx, l, elsewhere, w, func(handle *troupe.Handle[int, int]) error {
			err := pause(ctx, acquaintance)
			if err != nil {
				return err
			}
			taken, err = starts(ctx, handle, began, l.options.Samples)
			return err
		})
	})
	return taken.sample(), err
}

// starts measures from before the call that triggers to the first line of the
// step function, on the same clock.
func starts(ctx context.Context, handle *troupe.Handle[int, int], began <-chan time.Time, samples int) (times, error) {
	taken := make(times, 0, samples)
	for n := range warmUp + samples {
		if err := pause(ctx, idleBefore); err != nil {
			return nil, err
		}
		asked := time.Now()
		if _, err := handle.RunNoWait(ctx, n); err != nil {
			return nil, err
		}
		select {
		case at := <-began:
			if n >= warmUp {
				taken = append(taken, at.Sub(asked))
			}
		case <-time.After(startTimeout):
			return nil, fmt.Errorf("a run has not started after %v", startTimeout)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return taken, nil
}

// measureAlone measures one diamond at a time, from the call to its output.
func measureAlone(ctx context.Context, l *lab) (sample, error) {
	var taken times
	err := onPod(ctx, l, l.options.Config, diamond(func() {}), func(handle *troupe.Handle[int, int]) error {
		for n := range warmUp + l.options.Samples {
			if err := pause(ctx, idleBefore); err != nil {
				return err
			}
			asked := time.Now()
			if _, err := handle.Run(ctx, n); err != nil {
				return err
			}
			if n >= warmUp {
				taken = append(taken, time.Since(asked))
			}
		}
		return nil
	})
	return taken.sample(), err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
