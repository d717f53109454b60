package load

import (
	"fmt"
	"strings"
	"time"
)

// describe says in a line what load it is.
func (l Load) describe() string {
	s, _ := parseShape(l.Shape) // validated
	parts := []string{l.Shape + ": " + s.steps()}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%s runs/s whatever happens", number(l.Rate)))
	} else {
		parts = append(parts, fmt.Sprintf("at most %s open", plural(int64(l.Concurrent), "run")))
	}
	if l.AtOnce > 0 {
		parts = append(parts, fmt.Sprintf("%s at once in each", plural(l.AtOnce, "element")))
	}
	if l.Runs > 0 {
		parts = append(parts, plural(l.Runs, "run"))
	}
	if l.Duration > 0 {
		parts = append(parts, fmt.Sprintf("for %v", l.Duration))
	}
	parts = append(parts, fmt.Sprintf("%s of %s", plural(l.Pods, "pod"), plural(l.Slots, "slot")))
	if l.Tenants > 1 {
		parts = append(parts, plural(l.Tenants, "tenant"))
	}
	if l.Payload > 0 {
		parts = append(parts, grouped(int64(l.Payload))+" B a payload")
	}
	if l.StepLatency.Most > 0 {
		parts = append(parts, "steps take "+l.StepLatency.String())
	}
	if l.FailureRate > 0 {
		parts = append(parts, fmt.Sprintf("%s %% of steps fail once", number(100*l.FailureRate)))
	}
	if l.FatalRate > 0 {
		parts = append(parts, fmt.Sprintf("%s %% of runs fail", number(100*l.FatalRate)))
	}
	return strings.Join(parts, " · ")
}

// text renders the report for people.
func (r Report) text() string {
	var t strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&t, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	t.WriteString("\n")
	line("throughput", "%s runs/s, %s steps/s, over %.1f s", number(r.RunsPerSecond), number(r.StepsPerSecond), r.Seconds)
	if r.Elements > 0 {
		line("elements", "%s of the steps, %s a second", grouped(r.Elements), number(r.ElementsPerSecond))
	}
	if r.Activations > 0 {
		line("activations", "%s, %s a second; the steps are the activities", grouped(r.Activations), number(r.ActivationsPerSecond))
	}
	line("runs", "%s", r.Runs.text())
	if r.Load.Rate > 0 && r.Seconds > 0 {
		if wanted := r.wanted(); float64(r.Runs.Triggered) < 0.99*wanted && !r.Interrupted {
			line("", "the rate was not reached: %s runs were to be triggered", number(wanted))
		}
	}
	if r.Runs.Refused > 0 {
		line("", "%s refused, the first so: %s", plural(r.Runs.Refused, "trigger"), r.Runs.Refusal)
	}
	line("attempts", "%s", r.attempts())
	if r.Interrupted {
		line("", "stopped by a signal: this is the report so far")
	}
	t.WriteString("\n")
	r.writeLatencies(&t)
	if r.Ended.Count > 0 {
		t.WriteString("\n")
	}
	line("per step", "%s B of WAL, %s transactions", number(r.WALPerStep), number(r.TransactionsPerStep))
	server := ""
	if r.ServerCPUPerStep > 0 {
		server = fmt.Sprintf(", %s µs of the server's", number(r.ServerCPUPerStep))
	}
	line("", "%s µs of the pods' CPU%s", number(r.PodCPUPerStep), server)
	line("batches", "%s triggers, %s claimed tasks, %s recorded ends in a transaction, on average",
		number(r.Triggers.average()), number(r.Claims.average()), number(r.Records.average()))
	for _, p := range r.Pods {
		line(p.Name, "%s triggered, %s executed, %.2f cores", plural(p.Triggered, "run"), plural(p.Steps, "step"), p.Cores)
		line("", "%s", p.memory())
	}
	line("machine", "%s", r.Host)
	line("PostgreSQL", "%s", r.Server)
	return t.String()
}

// memory says what the pod had before the load, and at most.
func (p PodReport) memory() string {
	text := fmt.Sprintf("%s MiB of the heap in use before the load, %s at most", number(p.LiveMiB), number(p.PeakLiveMiB))
	if p.PeakMemoryMiB > 0 {
		text += fmt.Sprintf("; %s MiB resident, %s at most", number(p.MemoryMiB), number(p.PeakMemoryMiB))
	}
	return text
}

// wanted is how many runs the schedule had.
func (r Report) wanted() float64 {
	wanted := r.Load.Rate * r.Load.Duration.Seconds()
	if runs := float64(r.Load.Runs); wanted == 0 || runs > 0 && runs < wanted {
		wanted = runs
	}
	return wanted
}

func (r Runs) text() string {
	parts := []string{fmt.Sprintf("%s triggered: %s completed", grouped(r.Triggered), grouped(r.Completed))}
	switch asked := r.Failed - r.Unasked; {
	case r.Failed == 0:
		parts = append(parts, "none failed")
	case r.Unasked == 0:
		parts = append(parts, grouped(asked)+" failed, all as asked")
	default:
		parts = append(parts, fmt.Sprintf("%s failed, %s of them UNASKED", grouped(r.Failed), grouped(r.Unasked)))
	}
	if r.Canceled > 0 {
		parts = append(parts, grouped(r.Canceled)+" canceled")
	}
	if r.Open > 0 {
		parts = append(parts, grouped(r.Open)+" STILL OPEN")
	}
	return strings.Join(parts, ", ")
}

func (r Report) attempts() string {
	parts := []string{grouped(r.Steps+r.Retried+r.Errored) + " made"}
	if r.Retried > 0 {
		parts = append(parts, grouped(r.Retried)+" failed as asked and were repeated")
	}
	if r.Errored > 0 {
		parts = append(parts, grouped(r.Errored)+" failed UNASKED")
	}
	if r.Lost > 0 {
		parts = append(parts, grouped(r.Lost)+" lost")
	}
	return strings.Join(parts, ", ")
}

// latencies are the columns of the table, and what they mean.
func (r Report) latencies() []struct {
	name string
	of   Latency
} {
	return []struct {
		name string
		of   Latency
	}{{"acknowledged", r.Acknowledged}, {"started", r.Started}, {"ended", r.Ended}}
}

// writeLatencies writes the table of quantiles, and below it how latencies are
// spread: a row for each range, and only as many as are needed.
func (r Report) writeLatencies(t *strings.Builder) {
	const column, drawn = 20, 10
	columns := r.latencies()
	row := func(name string, cell func(Latency) string) {
		fmt.Fprintf(t, "  %-12s", name)
		for _, c := range columns {
			fmt.Fprintf(t, " %*s", column, cell(c.of))
		}
		t.WriteString("\n")
	}
	t.WriteString("  from when a run was to be triggered until it was …\n")
	fmt.Fprintf(t, "  %-12s", "")
	for _, c := range columns {
		fmt.Fprintf(t, " %*s", column, c.name)
	}
	t.WriteString("\n")
	for _, q := range []struct {
		name string
		at   func(Latency) float64
	}{
		{"p50", func(l Latency) float64 { return l.P50 }},
		{"p95", func(l Latency) float64 { return l.P95 }},
		{"p99", func(l Latency) float64 { return l.P99 }},
		{"max", func(l Latency) float64 { return l.Max }},
	} {
		row(q.name, func(l Latency) string {
			if l.Count == 0 {
				return "–"
			}
			return milliseconds(q.at(l))
		})
	}
	t.WriteString("\n")
	below := time.Duration(0)
	for _, limit := range r.limits() {
		row("≤ "+limit.String(), func(l Latency) string {
			if l.Count == 0 {
				return ""
			}
			within := l.histogram.UpTo(limit)
			if below > 0 {
				within -= l.histogram.UpTo(below)
			}
			if within == 0 {
				return ""
			}
			share := float64(within) / float64(l.Count)
			return fmt.Sprintf("%s %6.2f %%", bar(share, drawn), 100*share)
		})
		below = limit
	}
}

// limits are the ranges of the histogram: 1, 2, 5, 10 and so on, from the first
// that has something in it to the last.
func (r Report) limits() []time.Duration {
	var limits []time.Duration
	total := r.Acknowledged.Count + r.Started.Count + r.Ended.Count
	if total == 0 {
		return nil
	}
	for unit := 10 * time.Microsecond; unit < 100*time.Hour; unit *= 10 {
		for _, limit := range []time.Duration{unit, 2 * unit, 5 * unit} {
			within := int64(0)
			for _, c := range r.latencies() {
				within += c.of.histogram.UpTo(limit)
			}
			if within > 0 {
				limits = append(limits, limit)
			}
			if within == total {
				return limits
			}
		}
	}
	return limits
}

// milliseconds renders a time with as many digits as are worth reading.
func milliseconds(ms float64) string {
	switch {
	case ms >= 10_000:
		return fmt.Sprintf("%.0f s", ms/1e3)
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", ms/1e3)
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// number renders one with about three digits that matter.
func number(v float64) string {
	switch {
	case v >= 1000:
		return grouped(int64(v + 0.5))
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// grouped renders a number in groups of three digits.
func grouped(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func plural[N int | int64](n N, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return grouped(int64(n)) + " " + of + "s"
}
