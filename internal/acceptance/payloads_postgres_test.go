package acceptance

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// allocated is how many bytes were ever allocated.
func allocated() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.TotalAlloc)
}

// TestAJoinNeedsItsPayloadsTwice counts what is allocated between the end of the last parent
// of a join and the beginning of its function: the bytes that are read, and the values that
// they become. Nothing else runs beside it.
func TestAJoinNeedsItsPayloadsTwice(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	if testing.Short() {
		t.Skip("counts allocations of 64 MiB, which is slow under the race detector")
	}
	const width, size = 64, 1<<20 - 2
	const payloads, buffers = width * (size + 2), 8 << 20 // those of connections are as large as a few payloads, whatever the width
	pool := migratedPool(t, pgtest.Database(t), nil)
	engine, err := troupe.New(pool, troupe.Config{Slots: 4})
	require.NoError(t, err)
	var before atomic.Int64
	text := strings.Repeat("x", size)
	flow := troupe.Define("join", func(b *troupe.Builder[int]) troupe.StepRef[int64] {
		var parts []troupe.StepRef[string]
		var all []troupe.Dependency
		for i := range width {
			parts = append(parts, troupe.Step0(b, fmt.Sprintf("part-%d", i), func(context.Context, int) (string, error) { return text, nil }))
			all = append(all, parts[i])
		}
		gate := troupe.Step0(b, "gate", func(context.Context, int) (int, error) {
			runtime.GC()
			debug.SetGCPercent(-1)
			before.Store(allocated())
			return 0, nil
		}, troupe.After(all...))
		return troupe.StepN(b, "join", func(n *troupe.Needs) func(context.Context, int, troupe.Values) (int64, error) {
			read := make([]func(troupe.Values) string, width)
			for i, part := range parts {
				read[i] = troupe.Need(n, part)
			}
			return func(_ context.Context, _ int, values troupe.Values) (int64, error) {
				used := allocated() - before.Load()
				for _, part := range read {
					if len(part(values)) != size {
						return 0, fmt.Errorf("a part has %d bytes", len(part(values)))
					}
				}
				return used, nil
			}
		}, troupe.After(gate))
	})
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	handle := join(t, engine, flow)
	used, err := handle.Run(t.Context(), 1)
	require.NoError(t, err)
	t.Logf("%.2f bytes are allocated for each byte of the payloads", float64(used)/payloads)
	require.LessOrEqual(t, used, int64(2*payloads+buffers))
}
