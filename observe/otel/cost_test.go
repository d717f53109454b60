package otel_test

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/observe/otel"
	"github.com/troupe-dev/troupe/workflow"
)

// nowhere is an exporter that sends nothing.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// sampled returns a provider that keeps a part of the traces and sends them nowhere.
func sampled(part float64) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{}), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(part))))
}

// BenchmarkWrap is the cost of a span alone.
func BenchmarkWrap(b *testing.B) {
	task := troupe.TaskInfo{
		Run: workflow.NewRunID(time.Now(), [10]byte{}), Workflow: "orders", Step: "charge", Tenant: "default", Attempt: 1,
		TraceContext: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	next := func(context.Context) error { return nil }
	unsampled := task
	unsampled.TraceContext = task.TraceContext[:len(task.TraceContext)-1] + "0"
	provider := sampled(1)
	for name, bench := range map[string]struct {
		task      troupe.TaskInfo
		telemetry func() (*otel.Telemetry, error)
	}{
		"sampled":   {task, func() (*otel.Telemetry, error) { return otel.New(provider, nil) }},
		"unsampled": {unsampled, func() (*otel.Telemetry, error) { return otel.New(provider, nil) }},
		"noop":      {task, func() (*otel.Telemetry, error) { return otel.New(noop.NewTracerProvider(), nil) }},
	} {
		b.Run(name, func(b *testing.B) {
			telemetry, err := bench.telemetry()
			require.NoError(b, err)
			bench.task.StartedAt = time.Now()
			b.ReportAllocs()
			for b.Loop() {
				_ = telemetry.Wrap(b.Context(), bench.task, next)
			}
		})
	}
}

// BenchmarkPod executes single jobs by turns on pods without and with tracing, each on a
// database of its own: a backlog of jobs, or jobs of 16 callers that wait for their ends, each
// in a span of its own. It reports the CPU time of this process for a task, and its ratio to
// that of the first pod in the same round: medians over all rounds.
//
//	go test ./observe/otel -run - -bench Pod -benchtime 20x
func BenchmarkPod(b *testing.B) {
	b.Run("backlog", func(b *testing.B) { benchPods(b, (*drained).backlog) })
	b.Run("callers", func(b *testing.B) { benchPods(b, (*drained).callers) })
}

func benchPods(b *testing.B, jobs func(p *drained, b *testing.B) int) {
	b.Helper()
	pods := []*drained{{name: "plain"}, {name: "sampled-1%"}, {name: "sampled-10%"}, {name: "sampled-all"}}
	for i, part := range []float64{0, .01, .1, 1} {
		config := troupe.Config{Slots: 1000}
		pods[i].jobs = jobs
		pods[i].provider = sampled(part)
		if part > 0 {
			telemetry, err := otel.New(pods[i].provider, nil)
			require.NoError(b, err)
			config.Wrap, config.TraceContext = telemetry.Wrap, telemetry.TraceContext
		}
		pods[i].start(b, config)
	}
	for _, pod := range pods { // sessions, statements and the heap are warm
		pod.round(b)
	}
	for b.Loop() {
		for _, pod := range pods {
			pod.cpu = append(pod.cpu, pod.round(b))
		}
	}
	for _, pod := range pods {
		ratios := make([]float64, len(pod.cpu))
		for i := range ratios {
			ratios[i] = pod.cpu[i] / pods[0].cpu[i]
		}
		b.ReportMetric(median(pod.cpu), pod.name+"-µs/task")
		b.ReportMetric(median(ratios), pod.name+"-ratio")
	}
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// drained is a pod that executes jobs which do nothing.
type drained struct {
	name     string
	jobs     func(p *drained, b *testing.B) int // executes those of one round, and returns how many they were
	provider trace.TracerProvider
	engine   *troupe.Engine
	handle   *troupe.Handle[int, int]
	left     atomic.Int64 // jobs of the round that were not executed
	done     chan struct{}
	cpu      []float64 // µs for a task, by round
}

func (p *drained) start(b *testing.B, config troupe.Config) {
	b.Helper()
	p.done = make(chan struct{}, 1)
	pool, err := pgxpool.New(b.Context(), pgtest.Database(b))
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	_, err = migrations.Migrate(b.Context(), pool, migrations.DefaultSchema)
	require.NoError(b, err)
	p.engine, err = troupe.New(pool, config)
	require.NoError(b, err)
	p.handle, err = troupe.Register(p.engine, troupe.Define("job", func(build *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(build, "work", func(_ context.Context, n int) (int, error) {
			if p.left.Add(-1) == 0 {
				p.done <- struct{}{}
			}
			return n, nil
		})
	}))
	require.NoError(b, err)
	require.NoError(b, p.engine.Start(b.Context()))
	b.Cleanup(func() { _ = p.engine.Stop(context.Background()) })
}

// round executes jobs and returns the CPU time of one in µs.
func (p *drained) round(b *testing.B) float64 {
	b.Helper()
	before := cpu(b)
	count := p.jobs(p, b)
	require.Eventually(b, func() bool { return p.engine.Stats().Running == 0 }, time.Minute, time.Millisecond, "all are recorded")
	return float64((cpu(b) - before).Microseconds()) / float64(count)
}

// backlog drains jobs of a few triggers.
func (p *drained) backlog(b *testing.B) int {
	b.Helper()
	const batches = 20
	inputs := make([]int, troupe.RunManyMax)
	p.left.Store(int64(batches * len(inputs)))
	for range batches {
		ctx, span := p.provider.Tracer("embedder").Start(b.Context(), "POST /jobs")
		_, err := p.handle.RunMany(ctx, inputs)
		span.End()
		require.NoError(b, err)
	}
	<-p.done
	return batches * len(inputs)
}

// callers executes jobs of callers that wait for each.
func (p *drained) callers(b *testing.B) int {
	b.Helper()
	const callers, each = 16, 150
	p.left.Store(-1) // the last one says nothing
	failed := make(chan error, callers)
	for range callers {
		go func() {
			var err error
			for i := 0; i < each && err == nil; i++ {
				ctx, span := p.provider.Tracer("embedder").Start(b.Context(), "POST /job")
				_, err = p.handle.Run(ctx, 1)
				span.End()
			}
			failed <- err
		}()
	}
	for range callers {
		require.NoError(b, <-failed)
	}
	return callers * each
}

// cpu returns the CPU time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
