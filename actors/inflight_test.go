package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A function that still runs after the pod has lost its lease, or after runs has failed,
// keeps its slot until it returns.
func TestFunctionsThatOutliveTheirActors(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, p *Pod){
		"the pod joins again": func(w *world, p *Pod) {
			w.faults.failBefore(failing("renew 1", persistence.ErrPodDead))
			for p.Stats().Pod == 1 {
				pass(100 * time.Millisecond)
			}
		},
		"runs fails": func(_ *world, p *Pod) { kill(p, "runs") },
	} {
		for what, test := range map[string]struct {
			ignores time.Duration // how long they go on
			most    int64
			stuck   int
		}{"for a while": {4 * time.Second, 2, 0}, "for long": {time.Hour, 3, 1}} {
			t.Run(name+", "+what, bubble(func(t *testing.T, w *world) {
				var now, peak atomic.Int64
				var heeds atomic.Bool
				w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
					peak.Store(max(peak.Load(), now.Add(1)))
					defer now.Add(-1)
					if !heeds.Load() {
						<-ctx.Done()
						select {
						case <-time.After(test.ignores):
						case <-w.done:
						}
					}
					return Output{Payload: []byte("1")}, nil
				})
				p := w.start(Config{Slots: 2, StuckMax: 1, Pulse: time.Second, LeaseTTL: 5 * time.Second})
				var runs []workflow.RunID
				for range 6 {
					runs = append(runs, w.trigger(p, "single"))
				}
				pass(time.Second)
				require.EqualValues(t, 2, now.Load())
				heeds.Store(true)
				end(w, p)
				pass(2 * time.Second)
				require.EqualValues(t, 2, peak.Load())
				if test.stuck > 0 {
					pass(10 * time.Second)
					require.EqualValues(t, 2, now.Load(), "the other one keeps its slot")
					require.Equal(t, 2, p.Stats().Stuck)
				}
				w.completed(runs...)
				require.LessOrEqual(t, peak.Load(), test.most)
				pass(10 * time.Second)
				require.Equal(t, 2-test.stuck, p.Stats().Free)
			}))
		}
	}
}
