package orders

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/troupe-dev/troupe"
	example "github.com/troupe-dev/troupe/examples/orders"
)

// orderMax bounds the body of an order, in bytes.
const orderMax = 16 << 10

// Handler serves orders and probes.
func Handler(engine *troupe.Engine, orders *troupe.Handle[example.Order, example.Receipt]) http.Handler {
	mux := http.NewServeMux()
	health := engine.HealthHandler()
	mux.Handle("/livez", health)
	mux.Handle("/readyz", health)
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) { place(w, r, orders) })
	mux.HandleFunc("GET /orders/{run}", func(w http.ResponseWriter, r *http.Request) { show(w, r, engine) })
	return mux
}

// place starts a run. The order's id is the idempotency key: placing an order
// again finds its run.
func place(w http.ResponseWriter, r *http.Request, orders *troupe.Handle[example.Order, example.Receipt]) {
	var order example.Order
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, orderMax))
	body.DisallowUnknownFields()
	if err := body.Decode(&order); err != nil || order.ID == "" || body.More() {
		answer(w, http.StatusBadRequest, map[string]any{"error": `send one order: {"ID": "o-1", "Cents": 4200}`})
		return
	}
	run, err := orders.RunNoWait(r.Context(), order, troupe.Key(order.ID))
	switch {
	case err == nil:
		answer(w, http.StatusAccepted, map[string]any{"run": run.ID().String(), "existing": run.Existing()})
	case errors.Is(err, troupe.ErrKeyConflict):
		answer(w, http.StatusConflict, map[string]any{"error": "another order has this ID"})
	case errors.Is(err, troupe.ErrRefused) && !errors.Is(err, troupe.ErrUnavailable):
		answer(w, http.StatusUnprocessableEntity, map[string]any{"error": err.Error()})
	default:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusServiceUnavailable, map[string]any{"error": "try again: the same ID is safe"})
	}
}

// show tells where a run stands.
func show(w http.ResponseWriter, r *http.Request, engine *troupe.Engine) {
	id, err := troupe.ParseRunID(r.PathValue("run"))
	if err != nil {
		answer(w, http.StatusNotFound, map[string]any{"error": "no run has this id"})
		return
	}
	status, err := engine.Status(r.Context(), "", id)
	switch {
	case errors.Is(err, troupe.ErrRunNotFound):
		answer(w, http.StatusNotFound, map[string]any{"error": "no run has this id"})
	case err != nil:
		answer(w, http.StatusServiceUnavailable, map[string]any{"error": "try again"})
	default:
		steps := map[string]string{}
		for _, step := range status.Steps {
			steps[step.Name] = step.State.String()
		}
		answer(w, http.StatusOK, map[string]any{"order": status.Key, "state": status.State.String(), "steps": steps})
	}
}

func answer(w http.ResponseWriter, code int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone
}
