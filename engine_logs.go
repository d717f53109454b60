package troupe

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/internal/logqueue"
)

const (
	// logsStuck is how long the log handler may make no progress before the pod
	// reports it.
	logsStuck = 10 * time.Second
	// logsFlush bounds how long Stop waits for the log handler, logsFlushLate
	// how long it does once its context has ended.
	logsFlush, logsFlushLate = time.Second, 100 * time.Millisecond
)

// queueLogs puts a queue before the embedder's log handler, so that no actor
// waits for it. Engines in virtual time have none: a simulation runs on one
// goroutine, and a test reads its log at once.
func (e *Engine) queueLogs() {
	if e.config.Logger.Handler() == slog.DiscardHandler {
		return
	}
	e.logs = logqueue.New(logqueue.Options{
		Handler: e.config.Logger.Handler(), Clock: clock.System{},
		Dropped: func() { e.config.Metrics.Add(actors.MetricLogDropped, 1) },
	})
	e.unqueued, e.config.Logger = e.config.Logger, slog.New(e.logs.Handler())
}

// flushLogs waits until what was logged is written, as long as the context
// lasts, but for no longer than a second. A pod that is stopped at once still
// writes its last lines if its handler works.
func (e *Engine) flushLogs(ctx context.Context) {
	if e.logs == nil {
		return
	}
	within := logsFlush
	if ctx.Err() != nil {
		ctx, within = context.WithoutCancel(ctx), logsFlushLate
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_ = e.logs.Flush(ctx) // there is no log to say it in
}

// logsTrouble says what is wrong with the log handler; "": nothing.
func (e *Engine) logsTrouble() string {
	if e.logs == nil {
		return ""
	}
	s := e.logs.State()
	consequence := "records are dropped"
	if !s.Dropping {
		consequence = "records wait, and are dropped when there are too many"
	}
	switch {
	case s.Held > logsStuck:
		return fmt.Sprintf("log handler takes nothing for %v: %s; look at where Config.Logger writes to", s.Held.Truncate(time.Second), consequence)
	case s.Overfull > logsStuck:
		return fmt.Sprintf("log handler is too slow for %v: %s; look at where Config.Logger writes to", s.Overfull.Truncate(time.Second), consequence)
	}
	return ""
}
