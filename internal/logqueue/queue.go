package logqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// Options is what a queue needs. Handler and Clock are required.
type Options struct {
	Handler slog.Handler
	Clock   clock.Clock
	Size    int    // records that may wait; 0: 1,024
	Dropped func() // called for each record that is dropped; must not block
}

// Queue holds records until a handler has taken them. It is safe for concurrent
// use.
type Queue struct {
	options Options

	mu       sync.Mutex
	waiting  []entry
	idle     chan struct{} // closed when the goroutine ends; nil: there is none
	given    time.Time     // when the handler got the record that it has; zero: it has none
	overfull time.Time     // since when records are dropped; zero: they are not
	dropped  int           // since then
}

// entry is a record with what the handler gets it with.
type entry struct {
	ctx    context.Context //nolint:containedctx // the values of the caller's; it does not end
	to     slog.Handler
	record slog.Record
}

const (
	sizeDefault = 1024
	// gap is the message of the line that stands for dropped records.
	gap = "log records were dropped, the log handler was too slow for them"
)

// New returns an empty queue.
func New(options Options) *Queue {
	if options.Size <= 0 {
		options.Size = sizeDefault
	}
	return &Queue{options: options}
}

// State is how a queue is.
type State struct {
	Held     time.Duration // for how long the handler has not returned with the record that it has; 0: it has none
	Dropping bool          // new records are dropped
	Overfull time.Duration // for how long
}

// State returns how the queue is now.
func (q *Queue) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Clock.Now()
	since := func(instant time.Time) time.Duration {
		if instant.IsZero() {
			return 0
		}
		return now.Sub(instant)
	}
	return State{Held: since(q.given), Dropping: !q.overfull.IsZero(), Overfull: since(q.overfull)}
}

// Flush waits until the handler has taken all that waits. When ctx ends first it
// returns the cause, and the waiting records are still written if the handler returns.
func (q *Queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// put adds a record, or drops it.
func (q *Queue) put(e entry) {
	if !q.add(e) {
		q.count()
	}
}

// count tells of a dropped record. What is told is the embedder's, too.
func (q *Queue) count() {
	defer func() { _ = recover() }()
	if q.options.Dropped != nil {
		q.options.Dropped()
	}
}

func (q *Queue) add(e entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.overfull.IsZero() && len(q.waiting) >= q.options.Size {
		q.overfull = q.options.Clock.Now()
	}
	if !q.overfull.IsZero() {
		q.dropped++
		return false
	}
	q.waiting = append(q.waiting, e)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.work()
	}
	return true
}

// work hands records to the handler until none waits. A handler that panics, or
// ends its goroutine, has lost its record; another goroutine continues.
func (q *Queue) work() {
	ended := false
	defer func() {
		if ended {
			return
		}
		_ = recover() // nil after a Goexit
		q.count()
		go q.work()
	}()
	for {
		e, ok := q.next()
		if !ok {
			ended = true
			return
		}
		if e.to.Enabled(e.ctx, e.record.Level) {
			_ = e.to.Handle(e.ctx, e.record) // there is nowhere to report it, as in slog itself
		}
	}
}

// next takes the record that the handler gets next; none: it ends the goroutine.
func (q *Queue) next() (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Clock.Now()
	if !q.overfull.IsZero() && len(q.waiting) <= q.options.Size/2 {
		record := slog.NewRecord(now, slog.LevelWarn, gap, 0)
		record.AddAttrs(slog.Int("records_dropped", q.dropped))
		q.waiting = append(q.waiting, entry{ctx: context.Background(), to: q.options.Handler, record: record})
		q.overfull, q.dropped = time.Time{}, 0
	}
	if len(q.waiting) == 0 {
		q.waiting, q.given = nil, time.Time{}
		close(q.idle)
		q.idle = nil
		return entry{}, false
	}
	e := q.waiting[0]
	q.waiting[0] = entry{} // its memory is the handler's now
	q.waiting = q.waiting[1:]
	q.given = now
	return e, true
}
