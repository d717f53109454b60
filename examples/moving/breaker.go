package moving

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe"
)

// Breaker is a circuit breaker. It opens when too large a share of what has ended had failed, and
// stays open for a while. Then it lets work through again, and what ends next decides: it closes if
// that has succeeded, and opens if one has failed. It is safe for concurrent use.
type Breaker struct {
	Share     float64       // of what has ended; more failures than that open it
	Least     int64         // so many have to have ended, before it judges
	Window    time.Duration // for so long, what has ended is judged together
	Rest      time.Duration // for so long it stays open
	Successes int64         // so many close it again

	mu            sync.Mutex
	trying        bool // it was open
	until         time.Time
	began         time.Time // of the window
	ended, failed int64
}

// Allow reports whether the breaker is closed, or tries.
func (b *Breaker) Allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !now.Before(b.until)
}

// Record notes how many have ended since the last call, and how many of them had failed.
func (b *Breaker) Record(now time.Time, ended, failed int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.until) {
		return // these had begun before
	}
	if now.Sub(b.began) >= b.Window && !b.trying {
		b.began, b.ended, b.failed = now, 0, 0
	}
	b.ended, b.failed = b.ended+ended, b.failed+failed
	tooMany := b.ended >= b.Least && float64(b.failed) > b.Share*float64(b.ended)
	switch {
	case b.trying && b.failed > 0, !b.trying && tooMany:
		b.trying, b.until = true, now.Add(b.Rest)
	case b.trying && b.ended >= b.Successes:
		b.trying = false
	default:
		return
	}
	b.began, b.ended, b.failed = now, 0, 0
}

// Watch gives the breaker, every so often, how many runs of a workflow have ended, on all pods.
func (b *Breaker) Watch(ctx context.Context, reader *troupe.Reader, workflow string, every time.Duration) error {
	var ended, failed int64
	for first := true; ; first = false {
		counts, err := reader.Counts(ctx, troupe.CountFilter{
			Workflow: workflow, States: []troupe.State{troupe.StateCompleted, troupe.StateFailed},
		})
		if err == nil { // otherwise the next look counts these, too
			all := map[troupe.State]int64{}
			for _, c := range counts {
				all[c.State] += c.Runs
			}
			total := all[troupe.StateCompleted] + all[troupe.StateFailed]
			if !first {
				b.Record(time.Now(), max(0, total-ended), max(0, all[troupe.StateFailed]-failed))
			}
			ended, failed = total, all[troupe.StateFailed]
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}
