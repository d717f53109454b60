package prometheus

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	alertsPath = "../../deploy/prometheus/alerts.yaml"
	pagePath   = "../../docs/operations.md"
)

// alert is a rule. Its section is a heading of docs/operations.md that says what to do.
type alert struct {
	name, severity, wait, section string
	expr, summary                 string
}

const (
	critical = "critical" // work stands still
	warning  = "warning"

	workWaits    = "Work waits"
	runsFail     = "Runs fail"
	podUnwell    = "A pod is unwell"
	noAnswers    = "The database does not answer"
	databaseGrow = "The database grows"
)

func alerts() []alert { return append(alertsOfWork(), alertsOfPods()...) }

func alertsOfWork() []alert {
	return []alert{
		{
			"TroupeNoLeader", critical, "30s", workWaits,
			`sum by (job) (troupe_leading) == 0`,
			"No pod leads: timers do not fire, and dead pods are not taken over",
		},
		{
			"TroupeTasksWait", warning, "2m", workWaits,
			`max by (job, queue) (troupe_tasks_ready_oldest_seconds) > 300`,
			"A task of queue {{ $labels.queue }} has waited for a slot for {{ $value | humanizeDuration }}",
		},
		{
			"TroupeTasksParked", warning, "5m", workWaits,
			`max by (job, workflow, step) (troupe_tasks_parked) > 0`,
			"{{ $value }} tasks of {{ $labels.workflow }}/{{ $labels.step }} wait for a pod that has this step",
		},
		{
			"TroupeIntakeWaits", warning, "1m", workWaits,
			`max by (job) (troupe_intake_oldest_seconds) > 60`,
			"A trigger of a transaction has waited for {{ $value | humanizeDuration }} for a pod to begin its run",
		},
		{
			"TroupeTimersLate", warning, "5m", workWaits,
			`histogram_quantile(0.99, sum by (job, le) (rate(troupe_timer_lateness_seconds_bucket[5m]))) > 5`,
			"One timer of a hundred fires {{ $value | humanizeDuration }} late",
		},
		{
			"TroupeRunsFail", warning, "15m", runsFail,
			`sum by (job, workflow) (rate(troupe_runs_ended_total{state="failed"}[15m])) / sum by (job, workflow) (rate(troupe_runs_ended_total[15m])) > 0.1`,
			"{{ $value | humanizePercentage }} of the runs of {{ $labels.workflow }} fail",
		},
		{
			"TroupeDeadLettersGrow", warning, "5m", runsFail,
			`max by (job, reason) (troupe_dead_letters) > max by (job, reason) (troupe_dead_letters offset 1h)`,
			"There are more dead letters ({{ $labels.reason }}) than an hour ago: {{ $value }}",
		},
	}
}

func alertsOfPods() []alert {
	return []alert{
		{
			"TroupeAttemptsLost", warning, "0s", podUnwell,
			`sum by (job, instance) (increase(troupe_losses_total[15m])) > 0`,
			"Pod {{ $labels.instance }} has lost attempts, which other pods execute again",
		},
		{
			"TroupePodDeclaredDead", warning, "0s", podUnwell,
			`sum by (job, instance) (increase(troupe_lease_renewals_total{result="dead"}[15m])) > 0`,
			"Pod {{ $labels.instance }} was taken for dead while its process lived",
		},
		{
			"TroupeFunctionsStuck", warning, "5m", podUnwell,
			`max by (job, instance) (troupe_tasks_stuck) > 0`,
			"{{ $value }} step functions of pod {{ $labels.instance }} still run after the end of their contexts",
		},
		{
			"TroupeActorsRestart", warning, "0s", podUnwell,
			`sum by (job, instance, actor) (increase(troupe_actor_restarts_total[15m])) > 5`,
			"Actor {{ $labels.actor }} of pod {{ $labels.instance }} fails again and again",
		},
		{
			"TroupeLogDropped", warning, "0s", podUnwell,
			`sum by (job, instance) (increase(troupe_log_records_dropped_total[15m])) > 0`,
			"The log handler of pod {{ $labels.instance }} is too slow: records are missing",
		},
		{
			"TroupeNoStream", warning, "10m", podUnwell,
			`max by (job, instance) (troupe_feed_mode) == 3`,
			"Pod {{ $labels.instance }} hears of work by notifications and sweeps only",
		},
		{
			"TroupeStoreErrors", warning, "5m", noAnswers,
			`sum by (job, call) (rate(troupe_store_errors_total[5m])) > 0.1`,
			"The call {{ $labels.call }} fails {{ $value }} times a second",
		},
		{
			"TroupeRenewalsFail", critical, "1m", noAnswers,
			`sum by (job, instance) (rate(troupe_lease_renewals_total{result="failed"}[1m])) > 0`,
			"Pod {{ $labels.instance }} cannot renew its lease: its tasks will be taken over",
		},
		{
			"TroupeHistoryStands", warning, "1h", databaseGrow,
			`sum by (job) (increase(troupe_runs_archived_total[1h])) == 0 and sum by (job) (increase(troupe_runs_ended_total[1h] offset 1h)) > 0`,
			"Runs end, and none was moved into history for an hour",
		},
		{
			"TroupeOldTransaction", warning, "5m", databaseGrow,
			`max by (job) (troupe_oldest_transaction_seconds) > 900`,
			"A transaction has been open for {{ $value | humanizeDuration }}: vacuum removes nothing that it may see",
		},
	}
}

// The rules as Prometheus reads them.
type (
	rules struct {
		Groups []group `yaml:"groups"`
	}
	group struct {
		Name  string      `yaml:"name"`
		Rules []alertRule `yaml:"rules"`
	}
	alertRule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
)

// TestAlerts keeps deploy/prometheus up to date: its queries name metrics and labels that
// exist, and each alert a section that says what to do.
func TestAlerts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(pagePath)
	require.NoError(t, err)
	file := rules{[]group{{Name: "troupe"}}}
	for _, a := range alerts() {
		require.Empty(t, misnamed(a.expr), a.name)
		for _, label := range shownLabels(a.summary) {
			require.Regexp(t, `by \([^)]*\b`+label+`\b`, a.expr, "%s shows the label %s", a.name, label)
		}
		section := sectionOf(string(page), a.section)
		require.NotEmpty(t, section, "docs/operations.md has no section %q", a.section)
		require.Contains(t, section, "`"+a.name+"`", "the section %q names the alert", a.section)
		file.Groups[0].Rules = append(file.Groups[0].Rules, alertRule{
			Alert: a.name, Expr: a.expr, For: a.wait, Labels: map[string]string{"severity": a.severity},
			Annotations: map[string]string{"summary": a.summary, "section": "docs/operations.md#" + anchor(a.section)},
		})
	}
	for _, name := range regexp.MustCompile("`(Troupe[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		require.Contains(t, names(), name[1], "docs/operations.md names an alert that there is not")
	}
	var text bytes.Buffer
	text.WriteString("# Rules for Prometheus, made from alerts_test.go: go test ./observe/prometheus -update rewrites them.\n")
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	require.NoError(t, encoder.Encode(file))
	upToDate(t, alertsPath, text.Bytes())
}

func names() (list []string) {
	for _, a := range alerts() {
		list = append(list, a.name)
	}
	return list
}

// shownLabels returns the labels that a text shows.
func shownLabels(text string) (labels []string) {
	for _, m := range regexp.MustCompile(`\$labels\.([a-z]+)`).FindAllStringSubmatch(text, -1) {
		labels = append(labels, m[1])
	}
	return labels
}

// sectionOf returns the text of a section of a page up to the next heading.
func sectionOf(page, title string) string {
	_, text, _ := strings.Cut(page, "\n### "+title+"\n")
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

// anchor is the link of a heading.
func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }
