//go:build unix

package postgres

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// BenchmarkBatch measures what the pod spends on a task in batches of 200, apart for each
// call of the store: allocations, bytes and CPU. The server's work does not count. One
// operation is a batch of 200 runs from their triggers to their ends. In taken, the
// trigger grants the first tasks.
//
//	go test ./persistence/postgres -run - -bench Batch -benchtime 100x
func BenchmarkBatch(b *testing.B) {
	for _, c := range []struct {
		name  string
		graph *workflow.Graph
		taken bool
	}{{"one", storetest.Chain(1), false}, {"taken", storetest.Chain(1), true}, {"diamond", storetest.Diamond(), false}} {
		b.Run(c.name, func(b *testing.B) {
			l, spent := newLoad(b, c.graph, 1), &batchCosts{}
			l.batch(false, &batchCosts{}) // then the tenant is known, and statements are prepared
			l.batch(c.taken, &batchCosts{})
			b.ResetTimer()
			for range b.N {
				l.batch(c.taken, spent)
			}
			spent.trigger.report(b, "trigger")
			if !c.taken {
				spent.claim.report(b, "claim")
			}
			spent.record.report(b, "record")
		})
	}
}

// batch has 200 runs triggered, claimed and recorded.
func (l *load) batch(taken bool, spent *batchCosts) {
	const runs = 200
	request := persistence.GrantRequest{Pod: l.pod, Claim: l.claimID(), Queues: []string{registry.DefaultQueue}, Handlers: l.handlers, Limit: runs}
	take := persistence.GrantRequest{}
	if taken {
		take = request
	}
	triggers := l.draft(runs)
	var out persistence.Triggers
	var err error
	spent.trigger.of(runs, func() { out, err = l.store.TriggerRuns(l.ctx, triggers, take) })
	l.check(err)
	held := out.Grants
	if !taken {
		var claimed persistence.Claimed
		spent.claim.of(runs, func() {
			claimed, err = l.store.ClaimTasks(l.ctx, persistence.ClaimRequest{GrantRequest: request, Suspects: true})
		})
		l.check(err)
		held = claimed.Grants
	}
	require.Len(l.b, held, runs)
	for len(held) > 0 {
		n := min(len(held), runs)
		record := l.record(held[:n])
		record.Spare = l.window // no task is left for a claim
		var recorded persistence.Recorded
		spent.record.of(n, func() { recorded, err = l.store.RecordTransitions(l.ctx, record) })
		l.check(err)
		held = append(held[n:], recorded.Grants...)
	}
}

// batchCosts are what the pod has spent, by call.
type batchCosts struct{ trigger, claim, record cost }

// cost is what calls have spent.
type cost struct {
	tasks                int
	mallocs, bytes, nano uint64
}

// of adds what a call spends on some tasks.
func (c *cost) of(tasks int, call func()) {
	mallocs, bytes := allocated()
	begun := ownCPU()
	call()
	c.nano += uint64(ownCPU() - begun)
	mallocsAfter, bytesAfter := allocated()
	c.mallocs, c.bytes, c.tasks = c.mallocs+mallocsAfter-mallocs, c.bytes+bytesAfter-bytes, c.tasks+tasks
}

func (c *cost) report(b *testing.B, call string) {
	b.Helper()
	b.ReportMetric(float64(c.mallocs)/float64(c.tasks), call+"-allocs/task")
	b.ReportMetric(float64(c.bytes)/float64(c.tasks), call+"-B/task")
	b.ReportMetric(float64(c.nano)/1000/float64(c.tasks), call+"-µs/task")
}

func allocated() (mallocs, bytes uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs, m.TotalAlloc
}

// ownCPU is what this process has used, of which the server is none.
func ownCPU() time.Duration {
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err != nil {
		return 0
	}
	return time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
}
