package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
)

// figure names one number of a measurement.
type figure string

const (
	perSecond     figure = "tasks_per_second"
	runsPerS      figure = "runs_per_second"
	walPerTask    figure = "wal_bytes_per_task"
	txPerTask     figure = "transactions_per_task"
	cpuPerTask    figure = "pod_cpu_us_per_task"
	serverPerTask figure = "server_cpu_us_per_task"
	p50           figure = "p50_ms"
	p99           figure = "p99_ms"
)

// figures is the order in which figures are shown, and their units.
var figures = []struct {
	figure figure
	unit   string
}{
	{perSecond, "tasks/s"},
	{runsPerS, "runs/s"},
	{p50, "ms p50"},
	{p99, "ms p99"},
	{walPerTask, "B of WAL/task"},
	{txPerTask, "transactions/task"},
	{cpuPerTask, "µs of the pod's CPU/task"},
	{serverPerTask, "µs of the server's CPU/task"},
}

// Report is everything that one call measured.
type Report struct {
	Host    testbed.Host   `json:"host"`
	Server  testbed.Server `json:"postgresql"`
	Repeats int            `json:"runs"`
	Results []Result       `json:"results"`
	Ratio   float64        `json:"diamond_to_naive,omitempty"`
}

// Result is one measurement.
type Result struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	How     string   `json:"how"`
	Figures []Figure `json:"figures"`
}

// Figure is one number of a measurement, over its repetitions.
type Figure struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// Median returns the median of a figure, or 0 if it was not measured.
func (r Result) Median(name string) float64 {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return 0
	}
	return r.Figures[i].Median
}

// compare sets the engine beside the straightforward implementation.
func (r *Report) compare() {
	byName := map[string]Result{}
	for _, result := range r.Results {
		byName[result.Name] = result
	}
	ours, naive := byName["diamond"].Median(string(perSecond)), byName["naive"].Median(string(perSecond))
	if naive > 0 {
		r.Ratio = ours / naive
	}
}

func (r *Report) heading() string {
	return fmt.Sprintf("\ntroupe bench figures  medians of %d runs, each on a fresh database (lowest to highest)\n  host        %s\n  PostgreSQL  %s\n",
		r.Repeats, r.Host, r.Server)
}

func (r *Report) ending() string {
	if r.Ratio == 0 {
		return ""
	}
	return fmt.Sprintf("diamond ÷ naive = %.1f\n", r.Ratio)
}

func (r Result) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n  %s\n", r.Name, r.Title, r.How)
	for _, f := range r.Figures {
		fmt.Fprintf(&text, "  %12s %-28s", readable(f.Median), f.Unit)
		if f.Lowest != f.Highest {
			fmt.Fprintf(&text, " (%s to %s)", readable(f.Lowest), readable(f.Highest))
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// readable renders a number with about three digits that matter.
func readable(v float64) string {
	switch {
	case v >= 1000:
		digits := fmt.Sprintf("%.0f", v)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

func say(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, format, args...) // the reader is gone
}
