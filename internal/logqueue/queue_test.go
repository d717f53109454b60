package logqueue_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/internal/logqueue"
)

// sink is a handler that waits for a permit before it takes a record.
type sink struct {
	slog.Handler

	permits chan struct{} // closed: it waits for nothing
	reached chan struct{} // gets a token when it begins to wait; may be nil
}

// Handle implements slog.Handler.
func (s *sink) Handle(ctx context.Context, record slog.Record) error {
	if s.reached != nil {
		s.reached <- struct{}{}
	}
	<-s.permits
	return s.Handler.Handle(ctx, record)
}

// text is a log without times, that is read while it is written.
type text struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *text) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Split(strings.TrimSuffix(w.text.String(), "\n"), "\n")
}

func (w *text) handler(level slog.Level) slog.Handler {
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}})
}

// stuck returns a queue whose handler has the first record and waits.
func stuck(t *testing.T, size int, level slog.Level) (q *logqueue.Queue, log *slog.Logger, w *text, s *sink, dropped *atomic.Int64) {
	t.Helper()
	w, dropped = &text{}, &atomic.Int64{}
	s = &sink{Handler: w.handler(level), permits: make(chan struct{}), reached: make(chan struct{}, 10_000)}
	q = logqueue.New(logqueue.Options{Handler: s, Clock: clock.System{}, Size: size, Dropped: func() { dropped.Add(1) }})
	log = slog.New(q.Handler())
	log.Info("first")
	<-s.reached
	return q, log, w, s, dropped
}

func flush(t *testing.T, q *logqueue.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, q.Flush(ctx))
}

func TestAQueueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	q, log, w, s, dropped := stuck(t, 0, slog.LevelInfo)
	grouped := log.With(slog.String("of", "all")).WithGroup("g").With(slog.Int("m", 1))
	want := []string{"msg=first"}
	for i := range 500 {
		n := strconv.Itoa(i)
		log.Info("plain", slog.Int("n", i))
		grouped.Info("grouped", slog.Int("n", i))
		want = append(want, "msg=plain n="+n, "msg=grouped of=all g.m=1 g.n="+n)
	}
	log.Debug("not enabled")
	close(s.permits)
	flush(t, q)
	require.Equal(t, want, w.lines())
	require.Zero(t, dropped.Load())
}

func TestAFullQueueDropsAndSaysHowMany(t *testing.T) {
	t.Parallel()
	q, log, w, s, dropped := stuck(t, 4, slog.LevelInfo)
	for i := range 4 + 7 {
		log.Info("a", slog.Int("n", i))
	}
	require.EqualValues(t, 7, dropped.Load())
	require.True(t, q.State().Dropping)
	s.permits <- struct{}{}
	<-s.reached // there is room for one, and not yet for the next burst
	log.Info("dropped, too")
	for range 2 {
		s.permits <- struct{}{}
		<-s.reached
	}
	// Half is written.
	require.False(t, q.State().Dropping)
	log.Info("taken")
	close(s.permits)
	flush(t, q)
	require.Equal(t, []string{
		"msg=first", "msg=a n=0", "msg=a n=1", "msg=a n=2", "msg=a n=3",
		`msg="log records were dropped, the log handler was too slow for them" records_dropped=8`, "msg=taken",
	}, w.lines())
	require.EqualValues(t, 8, dropped.Load())
	require.Equal(t, logqueue.State{}, q.State())
}

// The line that stands for dropped records is a warning: a handler of errors only does
// not get it.
func TestTheLineOfAGapHasALevel(t *testing.T) {
	t.Parallel()
	w := &text{}
	s := &sink{Handler: w.handler(slog.LevelError), permits: make(chan struct{}), reached: make(chan struct{}, 10)}
	q := logqueue.New(logqueue.Options{Handler: s, Clock: clock.System{}, Size: 1})
	log := slog.New(q.Handler())
	log.Error("first")
	<-s.reached
	log.Error("second")
	log.Error("dropped")
	close(s.permits)
	flush(t, q)
	require.Equal(t, []string{"msg=first", "msg=second"}, w.lines())
}

// A caller that logs does not wait for a handler that never returns. Flush does, until its
// context ends.
func TestAStuckHandlerBlocksNoLogger(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Unix(0, 0))
	s := &sink{permits: make(chan struct{}), reached: make(chan struct{}, 1), Handler: slog.NewTextHandler(&text{}, nil)}
	q := logqueue.New(logqueue.Options{Handler: s, Clock: manual})
	log := slog.New(q.Handler())
	require.NoError(t, q.Flush(t.Context()), "nothing waits")
	for range 5000 {
		log.Info("x")
	}
	<-s.reached
	manual.Advance(11 * time.Second)
	require.Equal(t, logqueue.State{Held: 11 * time.Second, Dropping: true, Overfull: 11 * time.Second}, q.State())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGiveUp)
	require.ErrorIs(t, q.Flush(ctx), errGiveUp)
	s.reached = nil
	close(s.permits)
	flush(t, q)
}

var errGiveUp = errors.New("give up")

// spiteful is a handler that does what a message says.
type spiteful struct{ slog.Handler }

// Handle implements slog.Handler.
func (s spiteful) Handle(ctx context.Context, record slog.Record) error {
	how := ""
	record.Attrs(func(attr slog.Attr) bool {
		how = attr.Value.String()
		return true
	})
	switch how {
	case "panic":
		panic("a bad handler")
	case "goexit":
		runtime.Goexit()
	case "error":
		return errGiveUp
	}
	return s.Handler.Handle(ctx, record)
}

func TestAHandlerThatPanicsLosesOneRecord(t *testing.T) {
	t.Parallel()
	w, dropped := &text{}, atomic.Int64{}
	q := logqueue.New(logqueue.Options{Handler: spiteful{w.handler(slog.LevelInfo)}, Clock: clock.System{}, Dropped: func() {
		dropped.Add(1)
		panic("bad metrics, too")
	}})
	log := slog.New(q.Handler())
	for _, how := range []string{"one", "panic", "two", "goexit", "three", "error", "four", "panic"} {
		log.Info("x", slog.String("how", how))
	}
	flush(t, q)
	require.Equal(t, []string{"msg=x how=one", "msg=x how=two", "msg=x how=three", "msg=x how=four"}, w.lines())
	require.EqualValues(t, 3, dropped.Load())
}

// mutable changes after it was logged.
type mutable struct{ text string }

// LogValue implements slog.LogValuer.
func (m *mutable) LogValue() slog.Value { return slog.StringValue(m.text) }

// What was logged is what was there at the time; errors stay what they are.
func TestNothingIsReadLater(t *testing.T) {
	t.Parallel()
	q, log, w, s, _ := stuck(t, 0, slog.LevelInfo)
	valuer, plain := &mutable{"before"}, map[string]int{"n": 1}
	log.With(slog.Any("w", valuer)).Info("values", slog.Any("v", valuer), slog.Group("g", slog.Any("v", valuer)), slog.Any("p", plain), slog.Any("none", nil))
	valuer.text, plain["n"] = "after", 2
	close(s.permits)
	flush(t, q)
	require.Equal(t, "msg=values w=before v=before g.v=before p=map[n:1] none=<nil>", w.lines()[1])

	kept := make(chan any, 1)
	errs := logqueue.New(logqueue.Options{Clock: clock.System{}, Handler: slog.NewTextHandler(&text{}, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "error" {
				kept <- a.Value.Any()
			}
			return a
		},
	})})
	slog.New(errs.Handler()).Info("x", slog.Any("error", errGiveUp))
	require.Equal(t, errGiveUp, <-kept)
}

type traceKey struct{}

// valued writes what the context of a record holds.
type valued struct {
	slog.Handler

	got chan any
}

// Handle implements slog.Handler.
func (v valued) Handle(ctx context.Context, _ slog.Record) error {
	v.got <- ctx.Value(traceKey{})
	v.got <- ctx.Err()
	return nil
}

func TestAContextIsHandedOverAndDoesNotEnd(t *testing.T) {
	t.Parallel()
	got := make(chan any, 2)
	q := logqueue.New(logqueue.Options{Handler: valued{slog.NewTextHandler(&text{}, nil), got}, Clock: clock.System{}})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "a trace"))
	cancel()
	slog.New(q.Handler()).InfoContext(ctx, "x")
	require.Equal(t, "a trace", <-got)
	require.Nil(t, <-got)
}

// Many log at once, with a handler that is slower than they are: each record is
// written or counted, and those of one goroutine keep their order.
func TestManyLogAtOnce(t *testing.T) {
	t.Parallel()
	var dropped atomic.Int64
	w := &text{}
	q := logqueue.New(logqueue.Options{Handler: w.handler(slog.LevelInfo), Clock: clock.System{}, Size: 16, Dropped: func() { dropped.Add(1) }})
	var group sync.WaitGroup
	for g := range 8 {
		log := slog.New(q.Handler()).With(slog.Int("g", g))
		group.Go(func() {
			for i := range 500 {
				log.Info("x", slog.Int("n", i))
			}
		})
	}
	group.Wait()
	flush(t, q)
	written, announced, last := 0, int64(0), map[string]int{}
	for _, line := range w.lines() {
		if _, n, ok := strings.Cut(line, "records_dropped="); ok {
			count, err := strconv.ParseInt(n, 10, 64)
			require.NoError(t, err)
			announced += count
			continue
		}
		written++
		fields := strings.Fields(line)
		n, err := strconv.Atoi(strings.TrimPrefix(fields[2], "n="))
		require.NoError(t, err)
		before, seen := last[fields[1]]
		require.True(t, !seen || n > before, line)
		last[fields[1]] = n
	}
	require.Equal(t, dropped.Load(), announced)
	require.EqualValues(t, 8*500, int64(written)+announced)
}
