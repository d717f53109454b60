package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe"
)

const (
	// callersMax is how many goroutines of a pod trigger. More at once would
	// find their triggers in the same transactions.
	callersMax = 256
	// refusedPause is how long a caller waits after a refusal.
	refusedPause = 50 * time.Millisecond
)

// ticket asks a caller to trigger a run.
type ticket struct {
	n  int64
	at time.Time // zero: now
}

// trigger puts the load of one pod on the engine.
type trigger struct {
	load    Load
	handle  *troupe.Handle[order, result]
	pad     string
	tenants []troupe.TriggerOption
	acks    *Histogram
	permits chan struct{} // one per open run of this pod; nil: as many as the rate makes

	triggered, refused atomic.Int64
	refusal            atomic.Pointer[string]
	idle               atomic.Bool
}

func newTrigger(l Load, acks *Histogram) *trigger {
	t := &trigger{load: l, acks: acks, pad: newPad(l.Payload), tenants: make([]troupe.TriggerOption, l.Tenants)}
	for i := range t.tenants {
		t.tenants[i] = troupe.Tenant(fmt.Sprintf("tenant-%d", i+1))
	}
	if l.Rate == 0 {
		t.permits = make(chan struct{}, l.Concurrent)
	}
	return t
}

// release gives the permit of a run back.
func (t *trigger) release() {
	select {
	case <-t.permits:
	default: // nil, or executed again after a loss: the permit was given back
	}
}

// perform triggers until the load is over or halt ends. Triggers that are under
// way then are waited for, for as long as ctx lasts.
func (t *trigger) perform(ctx, halt context.Context, begin time.Time) {
	defer t.idle.Store(true)
	if t.load.Duration > 0 {
		var cancel context.CancelFunc
		halt, cancel = context.WithDeadline(halt, begin.Add(t.load.Duration))
		defer cancel()
	}
	tickets := make(chan ticket)
	var callers sync.WaitGroup
	for range t.callers() {
		callers.Go(func() {
			for asked := range tickets {
				t.call(ctx, asked)
			}
		})
	}
	t.issue(halt, begin, tickets)
	close(tickets)
	callers.Wait()
}

func (t *trigger) callers() int {
	if t.permits == nil {
		return callersMax
	}
	return min(callersMax, cap(t.permits))
}

// issue hands out tickets: at their time in the schedule, or whenever there is
// a permit. Pods share the numbers of runs like cards.
func (t *trigger) issue(halt context.Context, begin time.Time, tickets chan<- ticket) {
	waitUntil(halt, begin)
	for n := int64(t.load.Index); t.load.Runs == 0 || n < t.load.Runs; n += int64(t.load.Pods) {
		next := ticket{n: n}
		if t.permits == nil {
			next.at = begin.Add(time.Duration(float64(n) / t.load.Rate * float64(time.Second)))
			if t.load.Duration > 0 && next.at.Sub(begin) >= t.load.Duration {
				return
			}
			waitUntil(halt, next.at)
		} else {
			select {
			case t.permits <- struct{}{}:
			case <-halt.Done():
				return
			}
		}
		select {
		case tickets <- next:
		case <-halt.Done():
			return
		}
	}
}

// call triggers one run and waits until it is durable.
func (t *trigger) call(ctx context.Context, asked ticket) {
	if asked.at.IsZero() {
		asked.at = time.Now()
	}
	in := order{N: asked.n, At: asked.at.UnixNano(), Pod: t.load.Index, Pad: t.pad}
	_, err := t.handle.RunNoWait(ctx, in, t.tenants[asked.n%int64(len(t.tenants))])
	if err != nil {
		t.refused.Add(1)
		text := err.Error()
		t.refusal.CompareAndSwap(nil, &text)
		t.release()
		_ = pause(ctx, refusedPause) // a caller that tries again at once would only be refused again
		return
	}
	t.acks.Record(time.Since(asked.at))
	t.triggered.Add(1)
}
