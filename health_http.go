package troupe

import (
	"encoding/json"
	"net/http"
	"strings"
)

// HealthHandler answers probes: GET /livez and /readyz, wherever it is mounted.
//
//	go http.ListenAndServe(":8081", engine.HealthHandler())
//
// /livez is 503 if the pod has ended with an error, or if every slot is held by a step
// function that ignores the end of its context: only a new process mends either. It
// does not depend on the database, and does not wait for it: its body tells what the
// last question was answered with. /readyz is 200 while the pod claims
// tasks and takes triggers, and 503 before Start, while it stops, without a
// lease, and within two seconds of losing the database. The body is the JSON of
// [Health] in both; a pod that hears of work later than it could is ready and
// says so under "degraded". It names no address,
// no role, no database and no payload.
func (e *Engine) HealthHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "use GET", http.StatusMethodNotAllowed)
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/livez"):
			h := e.health((*probe).last)
			writeHealth(w, h, h.Live)
		case strings.HasSuffix(r.URL.Path, "/readyz"):
			h := e.Health(r.Context())
			writeHealth(w, h, h.Ready)
		default:
			http.Error(w, "there are /livez and /readyz", http.StatusNotFound)
		}
	})
}

func writeHealth(w http.ResponseWriter, h Health, well bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(h) // the prober has gone away
}
