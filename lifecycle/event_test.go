package lifecycle

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// TestEventKinds has the stored code, the name and the state of every kind.
func TestEventKinds(t *testing.T) {
	t.Parallel()
	kinds := map[EventKind]struct {
		name string
		next State
	}{
		1:  {"queued", Queued},
		2:  {"started", Running},
		3:  {"completed", Completed},
		4:  {"failed", Failed},
		5:  {"retrying", Backoff},
		6:  {"timed_out", Failed},
		7:  {"lost", Queued},
		8:  {"released", Queued},
		9:  {"skipped", Skipped},
		10: {"canceled", Canceled},
		11: {"sleeping", Sleeping},
		12: {"woken", Completed},
		13: {"activated", Waiting},
		15: {"trimmed", Waiting},
		16: {"waiting", Waiting},
		32: {"run_created", Pending},
		33: {"run_started", Running},
		34: {"cancel_requested", 0},
		35: {"run_completed", Completed},
		36: {"run_failed", Failed},
		37: {"run_canceled", Canceled},
		38: {"signaled", 0},
		39: {"signal_refused", 0},
	}
	for code := range EventKind(255) {
		want, ok := kinds[code]
		if !ok {
			want.name = "unknown"
		}
		require.Equal(t, want.name, code.String())
		require.Equal(t, want.next, code.Next(), code.String())
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	require.Equal(t, Pending, Fold(nil))
	require.Equal(t, Backoff, Fold([]EventKind{EventQueued, EventStarted, EventRetrying}))
	require.Equal(t, Running, Fold([]EventKind{EventRunCreated, EventRunStarted, EventCancelRequested}))
}

func TestCleanText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "nul and bytes\uFFFD", CleanText("nul\x00 and bytes\xff\xfe"))
	require.Len(t, CleanText(strings.Repeat("a", TextMax)), TextMax)
	require.Len(t, CleanText(strings.Repeat("a", TextMax+1)), TextMax)
	cut := CleanText("a" + strings.Repeat("€", TextMax))
	require.True(t, utf8.ValidString(cut), "cut between runes")
	require.Greater(t, len(cut), TextMax-3)
	require.LessOrEqual(t, len(CleanText(strings.Repeat("a\xff", TextMax/2))), TextMax, "it grows")
}

func TestALongTextCostsLittle(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	long := strings.Repeat("no\xff", 10_000_000)
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			require.LessOrEqual(b, len(CleanText(long)), TextMax)
		}
	})
	require.Less(t, result.AllocedBytesPerOp(), int64(40*TextMax))
	plain := strings.Repeat("a", 2*TextMax)
	require.NotSame(t, unsafe.StringData(plain), unsafe.StringData(CleanText(plain)), "the long one is kept in memory")
}

func TestDecideCleansTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{policy: workflow.FailFast, steps: []planStep{
		{name: "a"}, {name: "b", edges: []planEdge{{kind: workflow.Plain, conditioned: true}}}, {name: "c"},
	}})
	w.apply(RunStarted{})
	w.claim(0, 1)
	w.claim(2, 1)
	w.apply(w.report(0, TaskReported{Kind: Succeeded, Edges: []EdgeFlag{{Child: 1, Flags: FlagFail, Error: "x\x00y"}}}))
	require.Equal(t, "xy", w.tasks[1].Error)
	w.apply(w.report(2, TaskReported{Kind: Errored, Class: "c\x00", Error: "e\x00"}))
	require.Equal(t, "e", w.tasks[2].Error)
	require.Equal(t, "c", w.tasks[2].Class)

	w = newWorld(t, plan{policy: workflow.FailFast, steps: []planStep{{name: "a"}}})
	d := w.apply(CancelRequested{By: "b\x00", Reason: "r\x00"})
	require.Equal(t, "b", d.Events[0].By)
	require.Equal(t, "r", d.Events[0].Text)
}

func TestEventsCarryTheTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{policy: workflow.FailFast, steps: []planStep{{name: "a"}}})
	w.now = time.Unix(7, 0)
	for _, e := range w.apply(RunStarted{}).Events {
		require.Equal(t, w.now, e.At)
	}
	require.Equal(t, w.now, w.claim(0, 1).At)
}
