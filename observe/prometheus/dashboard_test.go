package prometheus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
)

const dashboardPath = "../../deploy/grafana/troupe.json"

// section is a row of the dashboard: a panel for each of its metrics.
type section struct {
	title   string
	metrics []actors.Metric
}

func sections() []section {
	return []section{
		{"Runs", []actors.Metric{
			actors.MetricTriggers, actors.MetricRunsEnded, actors.MetricTriggerToStart, actors.MetricQueueWait,
			actors.MetricReady, actors.MetricReadyOldest, actors.MetricDeadLetters, actors.MetricParkedTasks, actors.MetricParked,
			actors.MetricSignals, actors.MetricSignalsDelivered, actors.MetricSignalsDropped,
			actors.MetricChildRuns,
		}},
		{"Steps", []actors.Metric{
			actors.MetricAttempts, actors.MetricAttemptSeconds, actors.MetricRetries, actors.MetricLosses,
			actors.MetricTimersFired, actors.MetricTimerLateness,
		}},
		{"Pods", []actors.Metric{
			actors.MetricPods, actors.MetricLeading, actors.MetricRunning, actors.MetricFree, actors.MetricStuck, actors.MetricMode,
			actors.MetricRenewals, actors.MetricRestarts, actors.MetricPayloadBytes, actors.MetricPayloadWaiting,
			actors.MetricUnknownMessages, actors.MetricLogDropped, actors.MetricBuildInfo,
		}},
		{"Database", []actors.Metric{
			actors.MetricStoreErrors, actors.MetricOldestTx, actors.MetricIntakeOldest, actors.MetricTriggerPending,
			actors.MetricJournalDepth, actors.MetricTriggerBatch, actors.MetricRecordBatch, actors.MetricClaims, actors.MetricClaimSize,
			actors.MetricClaimDiscarded, actors.MetricWakes, actors.MetricInlineGrants, actors.MetricFirstGrants, actors.MetricStale,
			actors.MetricTimersOrphaned, actors.MetricArchived, actors.MetricEventsKept, actors.MetricSpansDropped,
		}},
	}
}

// drawnBy are the labels by which a panel tells series apart, where all of the metric's
// would be too many.
var drawnBy = map[actors.Metric][]string{
	actors.MetricAttempts: {"workflow", "outcome"},
}

// perPod are gauges that say something about one pod, and of which a sum says nothing.
var perPod = []actors.Metric{actors.MetricPods, actors.MetricLeading, actors.MetricMode, actors.MetricBuildInfo}

const (
	ofJob    = `{job=~"$job"}`
	interval = `[$__rate_interval]`
)

// target is one query of a panel.
type target struct {
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
	RefID  string `json:"refId"`
}

// targets returns the queries that draw a metric.
func targets(d *actors.MetricDescription) []target {
	labels := d.Labels
	if by, few := drawnBy[d.Metric]; few {
		labels = by
	}
	switch d.Kind {
	case actors.Counter:
		return []target{{fmt.Sprintf("sum%s (rate(%s%s%s))", by(labels...), d.Name, ofJob, interval), legend("a second", labels), "A"}}
	case actors.Distribution:
		return []target{quantile(d, "0.5", "A", labels), quantile(d, "0.99", "B", labels)}
	case actors.Gauge:
		if slices.Contains(perPod, d.Metric) {
			labels = append([]string{"instance"}, labels...)
			return []target{{fmt.Sprintf("max%s (%s%s)", by(labels...), d.Name, ofJob), legend("", labels), "A"}}
		}
		return []target{{fmt.Sprintf("sum%s (%s%s)", by(labels...), d.Name, ofJob), legend("all pods", labels), "A"}}
	case actors.DatabaseGauge:
	}
	return []target{{fmt.Sprintf("max%s (%s%s)", by(labels...), d.Name, ofJob), legend("all pods", labels), "A"}}
}

// quantile draws a quantile of a distribution: of each label's worst ten.
func quantile(d *actors.MetricDescription, q, id string, labels []string) target {
	expr := fmt.Sprintf("histogram_quantile(%s, sum%s (rate(%s_bucket%s%s)))", q, by(append([]string{"le"}, labels...)...), d.Name, ofJob, interval)
	if len(labels) > 0 {
		expr = "topk(10, " + expr + ")"
	}
	return target{expr, strings.TrimSpace("p" + strings.TrimPrefix(strings.TrimPrefix(q, "0."), "0") + " " + legend("", labels)), id}
}

func by(labels ...string) string {
	if len(labels) == 0 {
		return ""
	}
	return " by (" + strings.Join(labels, ", ") + ")"
}

func legend(without string, labels []string) string {
	if len(labels) == 0 {
		return without
	}
	return "{{" + strings.Join(labels, "}} {{") + "}}"
}

// The parts of a dashboard that Grafana needs; it fills in the rest.
type (
	dashboard struct {
		UID           string     `json:"uid"`
		Title         string     `json:"title"`
		Description   string     `json:"description"`
		Tags          []string   `json:"tags"`
		SchemaVersion int        `json:"schemaVersion"`
		Refresh       string     `json:"refresh"`
		Time          span       `json:"time"`
		Templating    templating `json:"templating"`
		Panels        []panel    `json:"panels"`
	}
	span struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	templating struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name       string  `json:"name"`
		Label      string  `json:"label"`
		Type       string  `json:"type"`
		Query      string  `json:"query"`
		Datasource *source `json:"datasource,omitempty"`
		IncludeAll bool    `json:"includeAll,omitempty"`
		Multi      bool    `json:"multi,omitempty"`
		Refresh    int     `json:"refresh,omitempty"`
	}
	source struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	panel struct {
		ID          int         `json:"id"`
		Type        string      `json:"type"`
		Title       string      `json:"title"`
		Description string      `json:"description,omitempty"`
		Datasource  *source     `json:"datasource,omitempty"`
		GridPos     grid        `json:"gridPos"`
		FieldConfig *fieldSetup `json:"fieldConfig,omitempty"`
		Targets     []target    `json:"targets,omitempty"`
	}
	grid struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	fieldSetup struct {
		Defaults fieldDefaults `json:"defaults"`
	}
	fieldDefaults struct {
		Unit string `json:"unit"`
		Min  int    `json:"min"`
	}
)

// drawn makes the dashboard from the table of metrics.
func drawn() dashboard {
	prometheus := &source{"prometheus", "${datasource}"}
	board := dashboard{
		UID: "troupe", Title: "troupe", Tags: []string{"troupe"}, SchemaVersion: 39, Refresh: "30s", Time: span{"now-3h", "now"},
		Description: "Every metric of docs/metrics.md. Made from the table: go test ./observe/prometheus -update rewrites it.",
		Templating: templating{[]variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"},
			{Name: "job", Label: "Job", Type: "query", Query: "label_values(troupe_build_info, job)", Datasource: prometheus, IncludeAll: true, Multi: true, Refresh: 2},
		}},
	}
	const width, height, across = 8, 7, 3
	table, y := actors.MetricTable(), 0
	add := func(p panel) {
		p.ID = len(board.Panels) + 1
		board.Panels = append(board.Panels, p)
	}
	for _, s := range sections() {
		add(panel{Type: "row", Title: s.title, GridPos: grid{1, width * across, 0, y}})
		y++
		for n, metric := range s.metrics {
			d := &table[metric-1]
			add(panel{
				Type: "timeseries", Title: strings.TrimPrefix(d.Name, "troupe_"), Description: d.Help, Datasource: prometheus,
				GridPos: grid{height, width, n % across * width, y + n/across*height}, FieldConfig: &fieldSetup{fieldDefaults{unitOf(d), 0}}, Targets: targets(d),
			})
		}
		y += (len(s.metrics) + across - 1) / across * height
	}
	return board
}

// unitOf returns Grafana's name of a unit.
func unitOf(d *actors.MetricDescription) string {
	switch {
	case d.Kind == actors.Counter:
		return "cps"
	case d.Unit == "s":
		return "s"
	case strings.HasSuffix(d.Name, "_bytes"):
		return "bytes"
	}
	return "short"
}

// TestDashboard keeps deploy/grafana up to date, with a panel for every metric.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var shown []actors.Metric
	for _, s := range sections() {
		shown = append(shown, s.metrics...)
	}
	slices.Sort(shown)
	var all []actors.Metric
	for _, d := range actors.MetricTable() {
		all = append(all, d.Metric)
	}
	require.Equal(t, all, shown, "each metric of the table is on the dashboard once")
	board := drawn()
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			require.Empty(t, misnamed(q.Expr), "%s: %s", p.Title, q.Expr)
			for _, label := range legendLabels(q.Legend) {
				require.Contains(t, q.Expr, label, "the legend of %s", p.Title)
			}
		}
	}
	text, err := json.MarshalIndent(board, "", "  ")
	require.NoError(t, err)
	upToDate(t, dashboardPath, append(text, '\n'))
}

func legendLabels(legend string) (labels []string) {
	for part := range strings.SplitSeq(legend, "{{") {
		if label, _, found := strings.Cut(part, "}}"); found {
			labels = append(labels, label)
		}
	}
	return labels
}
