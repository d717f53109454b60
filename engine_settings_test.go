package troupe

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
)

var update = flag.Bool("update", false, "rewrite the generated pages under docs")

// The table of settings names every field of Config, in its order, once.
func TestSettingsCoverConfig(t *testing.T) {
	var fields []string
	for field := range reflect.TypeFor[Config]().Fields() {
		fields = append(fields, field.Name)
	}
	var listed []string
	envs := map[string]bool{}
	for _, s := range Settings() {
		listed = append(listed, s.Field)
		require.NotEmpty(t, s.Meaning, s.Field)
		require.NotEmpty(t, s.Default, s.Field)
		if s.Env != "" {
			require.True(t, strings.HasPrefix(s.Env, "TROUPE_"), s.Env)
			require.False(t, envs[s.Env], s.Env)
			envs[s.Env] = true
		}
	}
	require.Equal(t, fields, listed)
}

// The defaults that the table promises are those that the code applies.
func TestSettingsDefaults(t *testing.T) {
	config := reflect.ValueOf(Config{}.withDefaults())
	for _, s := range Settings() {
		got := fmt.Sprint(config.FieldByName(s.Field).Interface())
		want, _, _ := strings.Cut(s.Default, " ")
		switch s.Field {
		case "DirectURL", "PodName", "QueueSlots", "Retry", "Codec", "Wrap", "TraceContext", "Tracer", "Logger", "Metrics", "System", "DeadReasons":
			continue // told in words
		case "AttemptTimeout":
			want = "0s"
		case "Retention":
			want = fmt.Sprint(Retention{})
		}
		require.Equal(t, want, got, s.Field)
	}
}

func TestConfigurationPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Configuration\n\nPrinted from `troupe.Settings()`; `go test . -run Page -update` rewrites it.\n" +
		"Every field of `troupe.Config` that is zero takes its default. `Validate` reports every problem at once.\n" +
		"An engine in a program of yours has only its `Config`: it reads no variables.\n" +
		"The command `troupe` reads them, and `TROUPE_DATABASE_URL` for the database; an unknown `TROUPE_…` variable is an error.\n" +
		"`TROUPE_PG_BIN` names a folder of PostgreSQL's programs for the demo and the tests; `TROUPE_TEST_…` are in CONTRIBUTING.md.\n" +
		"The column *specification* has the value of the design that troupe grew from, for comparison.\n\n" +
		"| field | variable | default | specification | meaning |\n|---|---|---|---|---|\n")
	for _, s := range Settings() {
		variable := "–"
		if s.Env != "" {
			variable = "`" + s.Env + "`"
		}
		spec := s.Spec
		if spec == "" {
			spec = "–"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", s.Field, variable, s.Default, spec, s.Meaning)
	}
	checkPage(t, "docs/configuration.md", page.String())
}

func TestMetricsPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(metricsIntroduction(t))
	page.WriteString("| name | kind | unit | labels | meaning |\n|---|---|---|---|---|\n")
	for _, m := range actors.MetricTable() {
		labels := strings.Join(m.Labels, ", ")
		if labels == "" {
			labels = "–"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, m.Unit, labels, m.Help)
	}
	checkPage(t, "docs/metrics.md", page.String())
}

// metricsIntroduction is how to get at the metrics, with code that is tested.
func metricsIntroduction(t *testing.T) string {
	t.Helper()
	const path = "observe/prometheus/example_test.go"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	_, code, found := strings.Cut(string(text), "\nfunc engineWithMetrics")
	require.True(t, found, path)
	code, _, _ = strings.Cut(code, "\n}\n")
	return "# Metrics\n\nServe them to Prometheus with `observe/prometheus`:\n\n```go\n" +
		"import (\n\t\"github.com/prometheus/client_golang/prometheus\"\n\t\"github.com/prometheus/client_golang/prometheus/promhttp\"\n" +
		"\tobserve \"github.com/troupe-dev/troupe/observe/prometheus\"\n)\n\nfunc engineWithMetrics" + code + "\n}\n```\n\n" +
		"A [dashboard for Grafana](../deploy/grafana/troupe.json) shows every metric. [Rules for alerts](../deploy/prometheus/alerts.yaml) " +
		"name the section of [operations](operations.md#when-an-alert-fires) that says what to do.\n\n" +
		"Another system gets them from a `troupe.Metrics` of yours in `Config.Metrics`, which makes its instruments from `actors.MetricTable()`. " +
		"Actors call it, so it must not block.\n\n" +
		"- A *database gauge* is about the whole database. No pod counts it; `Engine.ReadGauges` reads it when it is asked, on the pod that leads and at most every ten seconds. " +
		"An engine that is not asked sends no statement for it.\n" +
		"- Values of labels that callers choose are bounded: a pod names the first 500 tenants, 500 workflows of ended runs and 100 classes of errors that it meets. The rest is `other`.\n" +
		"- A run whose end was stored while the answer was lost is not counted in `troupe_runs_ended_total`.\n\n" +
		"This page is printed: `go test . -run Page -update` rewrites it.\n\n"
}

// checkPage compares a generated page with the committed one.
func checkPage(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "%s is out of date: go test . -run Page -update", path)
}

func TestConfigValidateReportsEverything(t *testing.T) {
	require.ErrorContains(t, Config{Schema: "pg_mine"}.Validate(), "PostgreSQL keeps those")
	err := Config{Schema: "Bad Schema", PodName: "a\x00b", Slots: -1, Pulse: -1, PoolSize: 1, PayloadLimit: 1 << 40, PayloadMemory: 1000}.Validate()
	require.Error(t, err)
	for _, field := range []string{"Schema", "PodName", "Slots", "Pulse", "PoolSize", "PayloadLimit", "PayloadMemory"} {
		require.ErrorContains(t, err, "config: "+field)
	}
	require.NoError(t, Config{}.Validate())
}
