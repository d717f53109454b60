package actors

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A metric that is described and never measured is a graph that stays empty.
func TestEveryMetricIsMeasured(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var measured strings.Builder
	for _, path := range append(paths, "../engine_logs.go") { // what the engine itself measures
		if path != "metrics.go" && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			measured.Write(text)
		}
	}
	text, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?m)^\tMetric[A-Za-z]+$`).FindAllString(string(text), -1)
	require.Len(t, names, len(MetricTable()))
	for _, name := range names {
		require.Regexp(t, strings.TrimSpace(name)+`\b`, measured.String())
	}
}
