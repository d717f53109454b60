package actors

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// elementsRead is a store of which reads of elements fail at first.
type elementsRead struct {
	persistence.Store

	mu    sync.Mutex
	fails int
	err   error
}

func (s *elementsRead) Elements(ctx context.Context, tenant string, of workflow.TaskID, query persistence.ElementQuery) (persistence.ElementPage, error) {
	s.mu.Lock()
	fails := s.fails > 0
	s.fails--
	s.mu.Unlock()
	if fails {
		return persistence.ElementPage{}, s.err
	}
	return s.Store.Elements(ctx, tenant, of, query)
}

// mapping registers a workflow with a map of n items, each element of which does the same.
func (w *world) mapping(n int, do body, change ...func(*StepFunction)) {
	w.t.Helper()
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Appendf(nil, "item %d", i)
	}
	w.register(storetest.Mapped(), do, append([]func(*StepFunction){func(f *StepFunction) {
		if f.Step != "files" {
			f.Call = func(context.Context, Inputs) (Output, error) { return Output{Payload: []byte(f.Step)}, nil }
			return
		}
		f.Map = &MapFunction{
			Split: func(context.Context, Inputs) (Output, error) {
				return Output{Map: &persistence.Map{Items: items, Window: 5, Allowed: int32(n)}}, nil
			},
			Gather: func(_ context.Context, elements *Elements) (Output, error) {
				var all []byte
				for i := range elements.Len() {
					end := elements.At(i)
					all = append(append(append(all, end.Output...), end.Class...), ' ')
				}
				return Output{Payload: all}, nil
			},
		}
	}}, change...)...)
}

// echo returns the item of an element.
func echo(_ context.Context, in Inputs) (Output, error) { return Output{Payload: in.Item}, nil }

// A read of elements that fails hands the map back: it is claimed again, and knows where it is.
func TestAMapWhoseElementsCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, err := range []error{persistence.ErrUnavailable, persistence.ErrRunNotFound} {
		for fails := range 4 {
			t.Run(fmt.Sprint(err, fails), bubble(func(t *testing.T, w *world) {
				w.faults.Store = &elementsRead{Store: w.store, fails: fails, err: err}
				w.mapping(7, echo)
				p := w.start(Config{Slots: 3})
				run := w.trigger(p, "mapped")
				w.completed(run)
				require.Equal(t, "item 0 item 1 item 2 item 3 item 4 item 5 item 6 ", string(w.tasks(run)[1].Output))
				w.requireEmptied(p)
			}))
		}
	}
}

// Timeouts of the step are those of its elements; what the map itself does has the timeout of the
// pod.
func TestTimeoutsOfMaps(t *testing.T) {
	t.Parallel()
	slow := func(d time.Duration) func(*StepFunction) {
		return func(f *StepFunction) {
			if f.Map == nil {
				return
			}
			f.Options.AttemptTimeout, f.Options.HeartbeatLimit = time.Second, time.Second
			split := f.Map.Split
			f.Map.Split = func(ctx context.Context, in Inputs) (Output, error) {
				select {
				case <-time.After(d):
				case <-ctx.Done():
					return Output{}, context.Cause(ctx)
				}
				return split(ctx, in)
			}
		}
	}
	t.Run("in time", bubble(func(_ *testing.T, w *world) {
		w.mapping(3, echo, slow(5*time.Second))
		w.completed(w.trigger(w.start(Config{AttemptTimeout: 10 * time.Second}), "mapped"))
	}))
	t.Run("too late", bubble(func(t *testing.T, w *world) {
		w.mapping(3, echo, slow(20*time.Second))
		row := w.ended(w.trigger(w.start(Config{AttemptTimeout: 10 * time.Second}), "mapped"))
		require.Equal(t, []any{classTimedOut, "files"}, []any{row.Class, row.FailedStep})
	}))
	t.Run("an element", bubble(func(t *testing.T, w *world) {
		w.mapping(2, newGauge().work(time.Hour), slow(0))
		run := w.trigger(w.start(Config{}), "mapped")
		w.completed(run)
		require.Equal(t, "timed_out timed_out ", string(w.tasks(run)[1].Output))
	}))
}

// Results of several pages are gathered within the memory for payloads; those of more than the
// limit are not.
func TestResultsOfMapsTakeMemory(t *testing.T) {
	t.Parallel()
	large := func(_ context.Context, in Inputs) (Output, error) {
		return Output{Payload: bytes.Repeat(in.Item[:1], 600<<10)}, nil
	}
	t.Run("within the limit", bubble(func(t *testing.T, w *world) {
		w.mapping(7, large)
		p := w.start(Config{PayloadLimit: 8 << 20, PayloadMemory: 9 << 20})
		runs := w.many(p, "mapped", 4)
		w.completed(runs...)
		require.Len(t, w.tasks(runs[3])[1].Output, 7*(600<<10+1))
		w.requireEmptied(p)
	}))
	t.Run("more than the limit", bubble(func(t *testing.T, w *world) {
		w.mapping(7, large)
		p := w.start(Config{PayloadLimit: 4 << 20})
		run := w.trigger(p, "mapped")
		row := w.ended(run)
		require.Equal(t, []any{lifecycle.Failed, classTooLarge}, []any{row.State, row.Class})
		require.Contains(t, row.Error, "the results of 7 of 7 elements have 4300800 bytes together, the limit is 4194304: return references")
		w.requireEmptied(p)
	}))
	t.Run("as one output", bubble(func(t *testing.T, w *world) {
		w.mapping(7, large)
		row := w.ended(w.trigger(w.start(Config{PayloadLimit: 7 * 600 << 10}), "mapped"))
		require.Contains(t, row.Error, "the results of all elements have 4300807 bytes together")
	}))
}

// attemptLabels are the steps of the attempts that were counted.
type attemptLabels struct {
	NoMetrics

	mu    sync.Mutex
	steps map[string]int
}

func (m *attemptLabels) note(metric Metric, labels []string) {
	if metric == MetricAttempts || metric == MetricAttemptSeconds {
		m.mu.Lock()
		m.steps[labels[1]]++
		m.mu.Unlock()
	}
}

func (m *attemptLabels) Add(metric Metric, _ float64, labels ...string) { m.note(metric, labels) }

func (m *attemptLabels) Observe(metric Metric, _ float64, labels ...string) { m.note(metric, labels) }

// Elements are counted under the name of their map, whose number of series they do not add to.
func TestElementsAreCountedAsTheirMap(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		counted := &attemptLabels{steps: map[string]int{}}
		w.metrics = counted
		w.mapping(7, func(_ context.Context, in Inputs) (Output, error) {
			if string(in.Item) == "item 3" {
				return Output{}, WithClass("torn", errGoexit)
			}
			return Output{}, nil
		})
		w.completed(w.trigger(w.start(Config{}), "mapped"))
		require.Equal(t, []string{"files", "list", "side", "sum"}, slices.Sorted(maps.Keys(counted.steps)))
		require.Equal(t, 2*(7+2), counted.steps["files"])
	})
}
