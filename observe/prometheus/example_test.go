package prometheus_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/troupe-dev/troupe"
	observe "github.com/troupe-dev/troupe/observe/prometheus"
)

// engineWithMetrics makes an engine, and serves what it measures under /metrics.
func engineWithMetrics(pool *pgxpool.Pool, mux *http.ServeMux) (*troupe.Engine, error) {
	metrics := observe.New()
	engine, err := troupe.New(pool, troupe.Config{Metrics: metrics})
	if err != nil {
		return nil, err
	}
	metrics.Watch(engine)
	prometheus.MustRegister(metrics)
	mux.Handle("/metrics", promhttp.Handler())
	return engine, nil
}

var greet = troupe.Define("greet", func(b *troupe.Builder[string]) troupe.StepRef[string] {
	return troupe.Step0(b, "say", func(_ context.Context, name string) (string, error) { return "hello " + name, nil })
})

func Example() {
	metrics := observe.New()
	engine, err := troupe.NewInMemory(troupe.Config{Metrics: metrics})
	check(err)
	metrics.Watch(engine)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	handle, err := troupe.Register(engine, greet)
	check(err)
	check(engine.Start(context.Background()))
	defer func() { check(engine.Stop(context.Background())) }()
	_, err = handle.Run(context.Background(), "world")
	check(err)

	for line := range strings.Lines(scrape(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))) {
		if strings.HasPrefix(line, "troupe_runs_ended_total") || strings.HasPrefix(line, "troupe_attempts_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// troupe_attempts_total{class="",outcome="succeeded",step="say",workflow="greet"} 1
	// troupe_runs_ended_total{state="completed",workflow="greet"} 1
}

// scrape returns what a handler serves.
func scrape(handler http.Handler) string {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
