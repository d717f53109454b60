package prometheus

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
)

var update = flag.Bool("update", false, "rewrite the files of deploy that are made from the table of metrics")

// upToDate compares a generated file with the committed one.
func upToDate(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, want, 0o600))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "%s is out of date: go test ./observe/prometheus -update", path)
}

// byTarget are labels that Prometheus itself adds to all series of a target.
var byTarget = []string{"job", "instance"}

var (
	selector = regexp.MustCompile(`\b(troupe_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
)

// misnamed finds the metrics and labels of a query that the table does not have. A
// grouping may name labels of any metric of the query.
func misnamed(query string) (findings []string) {
	described := map[string]actors.MetricDescription{}
	for _, d := range actors.MetricTable() {
		described[d.Name] = d
	}
	known := slices.Clone(byTarget)
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		d, bucket, found := descriptionOf(described, m[1])
		if !found {
			findings = append(findings, "there is no metric "+m[1])
			continue
		}
		own := append(slices.Clone(byTarget), d.Labels...)
		if bucket {
			own = append(own, "le")
		}
		for _, pair := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(own, pair[1]) {
				findings = append(findings, fmt.Sprintf("%s has no label %s", m[1], pair[1]))
			}
		}
		known = append(known, own...)
	}
	for _, m := range grouping.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(known, label) {
				findings = append(findings, "no metric of the query has the label "+label)
			}
		}
	}
	return findings
}

// descriptionOf finds the metric of a series. Those of a histogram have an ending.
func descriptionOf(described map[string]actors.MetricDescription, series string) (d actors.MetricDescription, bucket, found bool) {
	if d, found = described[series]; found {
		return d, false, d.Kind != actors.Distribution
	}
	for _, ending := range []string{"_bucket", "_sum", "_count"} {
		if name, is := strings.CutSuffix(series, ending); is {
			d, found = described[name]
			return d, ending == "_bucket", found && d.Kind == actors.Distribution
		}
	}
	return d, false, false
}

func TestMisnamed(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		`sum by (job, workflow) (rate(troupe_runs_ended_total{state="failed", job=~"$job"}[5m])) > 0`:             nil,
		`histogram_quantile(0.99, sum by (le, tenant) (rate(troupe_queue_wait_seconds_bucket{tenant!="a"}[5m])))`: nil,
		`troupe_queue_wait_seconds`:                   {"there is no metric troupe_queue_wait_seconds"},
		`troupe_pods_bucket`:                          {"there is no metric troupe_pods_bucket"},
		`sum(troupe_attempts)`:                        {"there is no metric troupe_attempts"},
		`troupe_pods{tenant="a"}`:                     {"troupe_pods has no label tenant"},
		`sum by (tenant) (troupe_pods)`:               {"no metric of the query has the label tenant"},
		`sum by (le) (troupe_queue_wait_seconds_sum)`: {"no metric of the query has the label le"},
	} {
		require.Equal(t, want, misnamed(query), query)
	}
}
