package prometheus_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
	observe "github.com/troupe-dev/troupe/observe/prometheus"
)

// diamond calls executed at the end of each run.
func diamond(executed func()) *troupe.Workflow[int, int] {
	return troupe.Define("diamond", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		add := func(_ context.Context, n int) (int, error) { return n + 1, nil }
		first := troupe.Step0(b, "a", add)
		left := troupe.Step0(b, "b", add, troupe.After(first))
		right := troupe.Step0(b, "c", add, troupe.After(first))
		return troupe.Step0(b, "d", func(_ context.Context, n int) (int, error) {
			executed()
			return n, nil
		}, troupe.After(left, right))
	})
}

// BenchmarkCost compares what a task costs the process of a pod without metrics and with
// Prometheus. Both pods take turns, 1,000 diamonds at a time, and one is scraped every ten
// seconds.
//
//	go test ./observe/prometheus -run - -bench Cost -benchtime 40x
func BenchmarkCost(b *testing.B) {
	url := pgtest.Database(b)
	metrics := observe.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	pods := []*benched{
		newBenched(b, url, "without_metrics", troupe.Config{}),
		newBenched(b, url, "with_metrics", troupe.Config{Metrics: metrics}),
	}
	metrics.Watch(pods[1].engine)
	for _, p := range pods {
		p.turn() // warm
	}
	var spent [2]time.Duration
	rounds, scraped := 0, time.Now()
	for b.Loop() {
		for n := range pods {
			which := (n + rounds) % len(pods)
			began := ownCPU()
			pods[which].turn()
			if which == 1 && time.Since(scraped) >= 10*time.Second {
				scraped = time.Now()
				_, err := registry.Gather()
				require.NoError(b, err)
			}
			spent[which] += ownCPU() - began
		}
		rounds++
	}
	tasks := float64(rounds * turnRuns * 4)
	b.ReportMetric(float64(spent[0].Nanoseconds())/tasks, "ns-cpu/task-without")
	b.ReportMetric(float64(spent[1].Nanoseconds())/tasks, "ns-cpu/task-with")
	b.ReportMetric(100*(float64(spent[1])/float64(spent[0])-1), "%-more")
}

// turnRuns is how many runs a pod executes in a turn.
const turnRuns = 1000

// benched is an engine on a schema of its own.
type benched struct {
	b        *testing.B
	engine   *troupe.Engine
	handle   *troupe.Handle[int, int]
	executed chan struct{}
}

func newBenched(b *testing.B, url, schema string, config troupe.Config) *benched {
	b.Helper()
	p := &benched{b: b, executed: make(chan struct{}, turnRuns)}
	pool, err := pgxpool.New(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	_, err = migrations.Migrate(b.Context(), pool, schema)
	require.NoError(b, err)
	config.Schema, config.Slots = schema, 500
	p.engine, err = troupe.New(pool, config)
	require.NoError(b, err)
	p.handle, err = troupe.Register(p.engine, diamond(func() { p.executed <- struct{}{} }))
	require.NoError(b, err)
	require.NoError(b, p.engine.Start(b.Context()))
	b.Cleanup(func() { _ = p.engine.Stop(context.WithoutCancel(b.Context())) })
	return p
}

// turn executes runs, and returns when the last step of each was.
func (p *benched) turn() {
	p.b.Helper()
	const atOnce = 250
	for range turnRuns / atOnce {
		_, err := p.handle.RunMany(p.b.Context(), make([]int, atOnce))
		require.NoError(p.b, err)
	}
	for range turnRuns {
		<-p.executed
	}
}

// ownCPU is what this process has used, of which the server is none.
func ownCPU() time.Duration {
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err != nil {
		return 0
	}
	return time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
}
