package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// desk is where the elements of a map are counted.
type desk struct {
	mu    sync.Mutex
	open  int
	most  int
	calls map[string]int // by idempotency key
	bad   map[int]bool   // items that fail
}

// read is the function of an element: it takes a second.
func (d *desk) read(ctx context.Context, in, item int) (int, error) {
	task := troupe.Task(ctx)
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[task.IdempotencyKey]++
	d.open++
	d.most = max(d.most, d.open)
	bad := d.bad[item]
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open--
	}()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	switch {
	case task.Item < 0, task.Step != fmt.Sprintf("read[%d]", task.Item), in > 0 && item != task.Item*10:
		return 0, fmt.Errorf("task %v has item %d", task, item)
	case bad:
		return 0, troupe.Class("torn", errBusy)
	}
	return item + 1, nil
}

func list(_ context.Context, n int) ([]int, error) {
	items := make([]int, n)
	for i := range items {
		items[i] = i * 10
	}
	return items, nil
}

// reading is list → read, a map.
func (d *desk) reading(options ...troupe.MapOption) *troupe.Workflow[int, []int] {
	return troupe.Define("reading", func(b *troupe.Builder[int]) troupe.StepRef[[]int] {
		return troupe.Map(b, "read", troupe.Step0(b, "list", list), d.read, options...)
	})
}

// settling is list → read, a settled map.
func (d *desk) settling(options ...troupe.SettledMapOption) *troupe.Workflow[int, []troupe.ElementOutcome[int]] {
	return troupe.Define("settling", func(b *troupe.Builder[int]) troupe.StepRef[[]troupe.ElementOutcome[int]] {
		return troupe.MapSettled(b, "read", troupe.Step0(b, "list", list), d.read, options...)
	})
}

// A map has the results of its elements in the order of the items, and as many are executed at once
// as MaxConcurrency says, all the time.
func TestAMapGathersItsResults(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{}
		_, handle := start(t, d.reading(troupe.MaxConcurrency(7)), slots(50))
		run := begin(t, handle, 250)
		require.Equal(t, "running list=completed read=waiting", states(t, run))
		began := time.Now()
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Duration((250+6)/7)*time.Second, time.Since(began).Round(time.Millisecond))
		require.Equal(t, 7, d.most)
		require.Len(t, d.calls, 250)
		require.Equal(t, 1, d.calls[run.ID().String()+"/read[17]"])
		require.Len(t, out, 250)
		for i, got := range out {
			require.Equal(t, i*10+1, got)
		}
		require.Equal(t, "completed list=completed read=completed", states(t, run))
		require.Equal(t, "queued started waiting queued started completed", trail(t, run, "read"))
		require.Equal(t, "queued started completed", trail(t, run, "read[249]"))
	})
}

// Without the option a hundred elements are open at once.
func TestTheWindowOfAMap(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{}
		_, handle := start(t, d.reading(), slots(500))
		_, err := handle.Run(t.Context(), 300)
		require.NoError(t, err)
		require.Equal(t, 100, d.most)
	})
}

func TestAMapOverAnEmptyList(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{}
		_, handle := start(t, d.reading())
		run := begin(t, handle, 0)
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int{}, out)
		require.Equal(t, "queued started completed", trail(t, run, "read"))

		none := troupe.Define("none", func(b *troupe.Builder[int]) troupe.StepRef[[]int] {
			items := troupe.Step0(b, "list", func(context.Context, int) ([]int, error) { return nil, nil })
			read := troupe.Map(b, "read", items, d.read)
			some, empty := troupe.If(read, func(list []int) bool { return len(list) > 0 })
			troupe.Step0(b, "some", list, some)
			return troupe.Step0(b, "empty", list, empty)
		})
		_, other := start(t, none)
		run = begin(t, other, 3)
		require.Equal(t, "completed list=completed read=completed some=skipped empty=completed", states(t, run))
		require.Equal(t, "[]", string(stepOf(t, run, "read").Output))
	})
}

// The first element that fails stops the others, and the map fails when those that run have ended.
// What continues the run executes only what has not completed, under the same keys.
func TestAMapOfWhichAnElementFails(t *testing.T) {
	t.Parallel()
	for name, codec := range map[string]troupe.Codec{"json": troupe.JSON{}, "sealed": sealed{troupe.JSON{}}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				d := &desk{bad: map[int]bool{50: true}}
				engine, handle := start(t, d.reading(troupe.MaxConcurrency(4)), slots(50), coded(codec))
				run := begin(t, handle, 20)
				_, err := run.Await(t.Context())
				require.ErrorIs(t, err, troupe.ErrElementFailed)
				require.ErrorContains(t, err, `step "read": element 5 of 20 failed: busy`)
				require.Len(t, d.calls, 8)
				letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
				require.NoError(t, err)
				require.Len(t, letters.Letters, 1)
				require.Equal(t, "read", letters.Letters[0].Step)

				d.bad = nil
				requeued, err := engine.DeadLetters().RequeueRun(t.Context(), "", run.ID(), troupe.RequeueOptions{})
				require.NoError(t, err)
				out, err := handle.Get("", requeued.Run).Await(t.Context())
				require.NoError(t, err)
				require.Len(t, out, 20)
				for i, got := range out {
					require.Equal(t, i*10+1, got)
				}
				require.Len(t, d.calls, 20)
				for key, n := range d.calls {
					require.True(t, strings.HasPrefix(key, run.ID().String()), key)
					want := 1
					if strings.HasSuffix(key, "[5]") {
						want = 2
					}
					require.Equal(t, want, n, key)
				}
			})
		})
	}
}

// A settled map says how each element ended.
func TestASettledMap(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{bad: map[int]bool{50: true, 60: true}}
		engine, handle := start(t, d.settling(), slots(50))
		run := begin(t, handle, 20)
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Len(t, out, 20)
		for i, got := range out {
			value, err := got.Value()
			if i != 5 && i != 6 {
				require.NoError(t, err)
				require.Equal(t, i*10+1, value)
				require.True(t, got.Completed())
				continue
			}
			require.Equal(t, troupe.ElementOutcome[int]{State: troupe.StateFailed, Class: "torn", Error: errBusy.Error()}, got)
			require.EqualError(t, err, "an element failed (torn): busy")
		}
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Empty(t, letters.Letters)
		require.Equal(t, "queued started failed", trail(t, run, "read[5]"))
	})
}

func TestASettledMapOfWhichTooManyFail(t *testing.T) {
	t.Parallel()
	for failures, fails := range map[int]bool{2: false, 3: true} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				d := &desk{bad: map[int]bool{}}
				for i := range failures {
					d.bad[i*100] = true
				}
				_, handle := start(t, d.settling(troupe.ToleratedFailures(0.05), troupe.MaxConcurrency(4)), slots(50))
				_, err := handle.Run(t.Context(), 59)
				if !fails {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, troupe.ErrElementFailed)
				require.ErrorContains(t, err, "3 of 59 elements failed, where 2 may: the last is element 20: busy")
				require.Len(t, d.calls, 24)
			})
		})
	}
}

// Options of functions are for each element.
func TestElementsAreRetriedAndTimeOut(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{bad: map[int]bool{10: true}}
		run := func(options ...troupe.MapOption) error {
			_, handle := start(t, d.reading(options...), slots(50), func(c *troupe.Config) { c.AttemptTimeout = time.Minute })
			_, err := handle.Run(t.Context(), 3)
			return err
		}
		require.Error(t, run(troupe.Retry{Attempts: 3, First: time.Second, Jitter: -1}))
		slow := 0
		for _, n := range d.calls {
			if n == 3 {
				slow++
			}
		}
		require.Equal(t, 1, slow)
		d.bad = nil
		require.NoError(t, run())
		require.ErrorContains(t, run(troupe.AttemptTimeout(500*time.Millisecond)), "failed: attempt timed out")
		require.ErrorContains(t, run(troupe.HeartbeatTimeout(500*time.Millisecond)), "failed: ")
	})
}

// Wrap goes around the elements, and not around what the map itself does.
func TestWrapGoesAroundElements(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var mu sync.Mutex
		var steps []string
		d := &desk{}
		_, handle := start(t, d.reading(), func(c *troupe.Config) {
			c.Wrap = func(ctx context.Context, task troupe.TaskInfo, next func(context.Context) error) error {
				mu.Lock()
				steps = append(steps, fmt.Sprintf("%s %d", task.Step, task.Item))
				mu.Unlock()
				return next(ctx)
			}
		})
		_, err := handle.Run(t.Context(), 3)
		require.NoError(t, err)
		slices.Sort(steps)
		require.Equal(t, []string{"list -1", "read[0] 0", "read[1] 1", "read[2] 2"}, steps)
	})
}

// A list that is too long, and results that are too large, fail the map with numbers and a remedy.
func TestMapsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	const (
		refer = "pass references to what is stored elsewhere"
		split = "let an item stand for a part of the list, such as a hundred entries that one element handles"
	)
	for name, c := range map[string]struct {
		items []string
		fn    func(context.Context, int, string) (string, error)
		text  string
	}{
		"too many":     {items: make([]string, 100_001), text: "the list has 100001 items, a map takes 100000: " + split},
		"a large item": {items: []string{"", strings.Repeat("x", 64<<10)}, text: "item 1 has 65538 bytes, an item of a map has at most 65536: " + refer},
		"large together": {
			items: slices.Repeat([]string{strings.Repeat("x", 60<<10)}, 150), text: "the first 137 of 150 items have 8417554 bytes, those of a map have at most 8388608 together: " + refer + ", or " + split,
		},
		"large results": {
			items: make([]string, 300), fn: func(context.Context, int, string) (string, error) { return strings.Repeat("x", 100<<10), nil },
			text: "the results of 198 of 300 elements have 20275596 bytes together, the limit is 20000000: return references to results that are stored elsewhere, " +
				"or raise Config.PayloadLimit and requeue the run, which keeps the elements that have completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				fn := c.fn
				if fn == nil {
					fn = func(context.Context, int, string) (string, error) { return "", nil }
				}
				w := troupe.Define("large", func(b *troupe.Builder[int]) troupe.StepRef[[]string] {
					items := troupe.Step0(b, "list", func(context.Context, int) ([]string, error) { return c.items, nil })
					return troupe.Map(b, "read", items, fn, troupe.Retry{Attempts: 5})
				})
				_, handle := start(t, w, slots(50), func(c *troupe.Config) { c.PayloadLimit = 20_000_000 })
				run := begin(t, handle, 0)
				_, err := run.Await(t.Context())
				var failed *troupe.RunError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, "too_large", failed.Class)
				require.Equal(t, c.text, failed.Text)
				require.EqualValues(t, 1, stepOf(t, run, "read").Attempt)
			})
		})
	}
}

// What conditions look at is the list.
func TestAConditionOnAMap(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{bad: map[int]bool{20: true}}
		w := troupe.Define("judged", func(b *troupe.Builder[int]) troupe.StepRef[string] {
			read := troupe.MapSettled(b, "read", troupe.Step0(b, "list", list), d.read)
			all, some := troupe.If(read, func(list []troupe.ElementOutcome[int]) bool {
				return !slices.ContainsFunc(list, func(o troupe.ElementOutcome[int]) bool { return !o.Completed() })
			})
			say := func(text string) func(context.Context, int) (string, error) {
				return func(context.Context, int) (string, error) { return text, nil }
			}
			return troupe.Step2(b, "tell", func(_ context.Context, _ int, a, c troupe.Opt[string]) (string, error) { return a.Or(c.Or("")), nil },
				troupe.Maybe(troupe.Step0(b, "all", say("all"), all)), troupe.Maybe(troupe.Step0(b, "some", say("some"), some)))
		})
		_, handle := start(t, w)
		for n, want := range map[int]string{0: "all", 2: "all", 3: "some"} {
			out, err := handle.Run(t.Context(), n)
			require.NoError(t, err)
			require.Equal(t, want, out)
		}
	})
}
