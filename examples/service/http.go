package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/observe/otel"
	observe "github.com/troupe-dev/troupe/observe/prometheus"
)

type service struct {
	engine  *troupe.Engine
	orders  *troupe.Handle[Order, string]
	metrics *prometheus.Registry
	traces  *trace.TracerProvider
}

// newService makes an engine that serves the workflow, with metrics, and traces that go to w.
func newService(pool *pgxpool.Pool, schema string, w io.Writer) (*service, error) {
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(w))
	if err != nil {
		return nil, err
	}
	s := &service{metrics: prometheus.NewRegistry(), traces: trace.NewTracerProvider(trace.WithBatcher(exporter))}
	telemetry, err := otel.New(s.traces, nil)
	if err != nil {
		return nil, err
	}
	metrics := observe.New()
	s.engine, err = troupe.New(pool, troupe.Config{
		Schema:       schema,
		Logger:       slog.Default(),
		Metrics:      metrics,
		Wrap:         telemetry.Wrap,
		TraceContext: telemetry.TraceContext,
	})
	if err != nil {
		return nil, err
	}
	metrics.Watch(s.engine)
	s.orders, err = troupe.Register(s.engine, Orders)
	return s, errors.Join(err, s.metrics.Register(metrics))
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.place)
	mux.HandleFunc("GET /orders/{run}", s.show)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}))
	mux.Handle("GET /livez", s.engine.HealthHandler())
	mux.Handle("GET /readyz", s.engine.HealthHandler())
	return mux
}

// place answers once the order is durable. A request that is sent again with its
// Idempotency-Key places no second order.
func (s *service) place(w http.ResponseWriter, r *http.Request) {
	ctx, span := s.traces.Tracer("service").Start(r.Context(), "POST /orders")
	defer span.End()
	var order Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&order); err != nil {
		http.Error(w, "the body is no order: "+err.Error(), http.StatusBadRequest)
		return
	}
	run, err := s.orders.RunNoWait(ctx, order, troupe.Key(r.Header.Get("Idempotency-Key")))
	var refused *troupe.TriggerError
	switch {
	case errors.Is(err, troupe.ErrKeyConflict):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.As(err, &refused):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case err != nil:
		http.Error(w, "the order was not stored: send it again", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Location", "/orders/"+run.ID().String())
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *service) show(w http.ResponseWriter, r *http.Request) {
	id, err := troupe.ParseRunID(r.PathValue("run"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, err := s.engine.Status(r.Context(), "", id)
	switch {
	case errors.Is(err, troupe.ErrRunNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, "the order cannot be read now: ask again", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status) // the caller has gone away
	}
}
