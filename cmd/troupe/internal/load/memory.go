package load

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
)

// memory is that of a pod, in bytes; 0: not known.
type memory struct {
	Before     int64 `json:"before"`      // resident, before the load
	Peak       int64 `json:"peak"`        // the same, at most
	LiveBefore int64 `json:"live_before"` // of the heap in use, before the load
	LivePeak   int64 `json:"live_peak"`   // the same, at most
}

// memoryMeter keeps the most of what the garbage collector found in use. It does not make it
// collect during the load, which would change what is measured.
type memoryMeter struct {
	before, liveBefore int64
	livePeak           atomic.Int64
}

// begin measures before the load.
func (m *memoryMeter) begin() {
	runtime.GC() // what the runs before the load have left is none of it
	m.before, m.liveBefore = testbed.Memory(), liveHeap()
	m.livePeak.Store(m.liveBefore)
}

// look is called all the time from one goroutine.
func (m *memoryMeter) look() { m.livePeak.Store(max(m.livePeak.Load(), liveHeap())) }

func (m *memoryMeter) sum() memory {
	return memory{Before: m.before, Peak: testbed.PeakMemory(), LiveBefore: m.liveBefore, LivePeak: m.livePeak.Load()}
}

// liveHeap is what the last collection found in use.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(sample); sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(sample[0].Value.Uint64())
}
