package actors

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// written is what a log handler wrote.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *written) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// of returns the lines with a message.
func (l *written) of(message string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, message) {
			lines = append(lines, line)
		}
	}
	return lines
}

// logs has the pods to come log everything.
func (w *world) logs() *written {
	l := &written{}
	w.log = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return l
}

// failingTask is a way in which a task fails for good, and what its record says.
type failingTask struct {
	do      body
	change  func(f *StepFunction)
	config  Config
	before  func(w *world)
	during  func(w *world)
	attempt string
	class   string
	text    string
	retries int
}

// loseFirstRecord has the answer to the first record get lost.
func loseFirstRecord(also func(w *world)) func(w *world) {
	return func(w *world) {
		w.faults.failAfter(func(call string) error {
			if call == "record" && w.count(call) == 1 {
				also(w)
				return persistence.ErrUnavailable
			}
			return nil
		})
	}
}

func failingTasks() map[string]failingTask {
	broken := func(context.Context, Inputs) (Output, error) {
		return Output{}, WithClass("stock", errors.New("none is left"))
	}
	return map[string]failingTask{
		"error": {do: broken, attempt: "1", class: "stock", text: "none is left"},
		"last of three attempts": {
			do: broken, change: func(f *StepFunction) { f.Options.Retry = workflow.RetryPolicy{Attempts: 3, First: time.Second} },
			attempt: "3", class: "stock", text: "none is left", retries: 2,
		},
		"answer lost": {do: broken, before: loseFirstRecord(func(*world) {}), attempt: "1", class: "stock", text: "none is left"},
		"answer lost, journal restarted": {
			do: broken, before: loseFirstRecord(func(w *world) { kill(w.pods[0], "journal") }), attempt: "1", class: "stock", text: "none is left",
		},
		"attempt timeout": {
			do: newGauge().work(time.Hour), change: func(f *StepFunction) { f.Options.AttemptTimeout = time.Second },
			attempt: "1", class: "timed_out", text: "attempt timed out",
		},
		"poison pill": {
			do: newGauge().work(time.Hour), config: Config{MaxLost: 1},
			during: func(w *world) { kill(w.pods[0], "runs") }, attempt: "0", class: "lost", text: "poison pill",
		},
	}
}

// A task that fails for good is logged once, with its cause, whatever became of the answer
// of the database; a retry is logged for a close look.
func TestAFailureForGoodIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range failingTasks() {
		t.Run(name, bubble(func(t *testing.T, w *world) {
			l := w.logs()
			if c.before != nil {
				c.before(w)
			}
			w.register(storetest.Single(), c.do, func(f *StepFunction) {
				if c.change != nil {
					c.change(f)
				}
			})
			run := w.trigger(w.start(c.config), "single")
			if c.during != nil {
				pass(time.Second)
				c.during(w)
			}
			w.ended(run)
			pass(time.Minute)
			lines := l.of("step failed for good")
			require.Len(t, lines, 1)
			for _, want := range []string{
				"level=WARN", "run_id=" + run.String(), "workflow=single", "step=a", "tenant=default", "attempt=" + c.attempt, "class=" + c.class, c.text,
			} {
				require.Contains(t, lines[0], want)
			}
			retries := l.of("is tried again")
			require.Len(t, retries, c.retries)
			for _, line := range retries {
				require.Contains(t, line, "level=DEBUG")
				require.Contains(t, line, "retry_in=")
			}
		}))
	}
}

// A task that no pod executes is logged by the pod whose call fails it.
func TestATaskThatWaitedForTooLongIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.logs()
		w.register(storetest.Impatient(time.Minute), newGauge().work(time.Millisecond))
		clear(w.functions) // no pod registers it
		p, other := w.start(Config{}), w.start(Config{})
		run := w.trigger(p, "impatient")
		w.ended(run)
		pass(time.Minute)
		require.NotEqual(t, p.Stats().Leading, other.Stats().Leading)
		lines := l.of("step failed for good")
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "workflow=impatient step=a tenant=default attempt=0 class=timed_out")
	})
}

// What completes, or is canceled, is no failure.
func TestWhatDoesNotFailIsNotLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.logs()
		causes := make(chan error, 1)
		w.register(storetest.Diamond(), newGauge().work(time.Millisecond))
		w.register(storetest.Single(), untilEnded(causes))
		p := w.start(Config{})
		w.completed(w.many(p, "diamond", 20)...)
		run := w.trigger(p, "single")
		pass(time.Second)
		w.cancel(p, persistence.Cancel{Run: run, Tenant: "default", Grace: time.Minute})
		require.ErrorIs(t, <-causes, ErrCanceled)
		w.ended(run)
		pass(time.Minute)
		for _, message := range []string{"step failed for good", "is tried again", "panicked"} {
			require.Empty(t, l.of(message))
		}
	})
}

// A panic is logged each time, whatever follows from it, and leaves the frames for the
// embedder's code.
func TestAPanicIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.logs()
		w.register(storetest.Single(), func(context.Context, Inputs) (Output, error) { panic(strings.Repeat("x", 1<<20)) },
			func(f *StepFunction) { f.Options.Retry = workflow.RetryPolicy{Attempts: 2, First: time.Second} })
		row := w.ended(w.trigger(w.start(Config{}), "single"))
		require.Less(t, len(row.Error), 8<<10)
		lines := l.of("step function panicked")
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], "level=ERROR")
		require.Contains(t, lines[0], "attempt=1 panic=xxx")
		require.Less(t, len(lines[0]), 4<<10)
		require.Len(t, l.of("step failed for good"), 1)
	})
}

// The mode changes with the load: a pod that is alone needs no stream, which is no news.
func TestAChangeOfTheModeAtLowTrafficIsNoNews(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.logs()
		w.start(Config{})
		pass(time.Minute)
		other := w.start(Config{})
		pass(time.Minute)
		require.NoError(t, other.Stop(t.Context()))
		pass(time.Minute)
		lines := l.of("feed mode changed")
		require.NotEmpty(t, lines)
		for _, line := range lines {
			if !strings.Contains(line, "to=none") {
				require.Contains(t, line, "level=DEBUG")
			}
			require.NotContains(t, line, "level=WARN")
		}
	})
}
