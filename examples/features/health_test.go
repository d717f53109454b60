package features_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// One line gives a process what Kubernetes asks for: /livez and /readyz.
func TestHealth(t *testing.T) {
	inMemory(t, troupe.Config{}, double("healthy"), func(t *testing.T, engine *troupe.Engine, _ *troupe.Handle[int, int]) {
		mux := http.NewServeMux() // the embedder's own
		mux.Handle("/", engine.HealthHandler())

		for _, path := range []string{"/livez", "/readyz"} {
			answer := httptest.NewRecorder()
			mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
			require.Contains(t, answer.Body.String(), `"ready":true`)
		}
	})
}
