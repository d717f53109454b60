package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// measurement is one thing that is measured, Options.Repeats times.
type measurement struct {
	name  string
	title string
	how   func(Options) string // what a reader has to know to repeat it
	take  func(context.Context, *lab) (sample, error)
}

// sample is what one repetition gave, by the name of the figure.
type sample map[figure]float64

// measurements returns all of them, in order.
func measurements() []measurement {
	throughput := func(o Options) string {
		return fmt.Sprintf("%s, %s, %s that trigger one run at a time, at most %s open", output.Count(o.Tasks, "task"),
			output.Count(o.Slots, "slot"), output.Count(o.Callers, "caller"), output.Count(openRuns(o.Slots), "run"))
	}
	samples := func(o Options) string { return output.Count(o.Samples, "run") + ", one after the other on an idle pod" }
	return []measurement{
		{"single", "no-op runs of one step: trigger, claim, record", throughput, measureSingle},
		{"diamond", "no-op runs of a four-step diamond: trigger, claim, record", throughput, measureDiamond},
		{"naive", "the same diamond, a transaction for every transition", howNaive, measureNaive},
		{"start", "from the call that triggers to the start of the step, one pod", samples, measureStart},
		{
			"start-across", "the same across two pods: one triggers, the other serves the queue", samples, measureStartAcross,
		},
		{"alone", "one diamond alone, from the call to its output", samples, measureAlone},
		{"timers", "how late durable sleeps end", howTimers, measureTimers},
	}
}

// Run makes the measurements and prints the report.
func Run(ctx context.Context, o Options) (err error) {
	lab, err := openLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close(ctx)) }()
	stop, err := profile(o.Profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	report := Report{Host: lab.Host, Server: lab.Server, Repeats: o.Repeats}
	say(o.Out, "%s\n", report.heading())
	for _, m := range measurements() {
		if !o.wants(m.name) {
			continue
		}
		result, err := repeat(ctx, lab, m)
		if err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
		report.Results = append(report.Results, result)
		say(o.Out, "%s\n", result.text())
	}
	report.compare()
	say(o.Out, "%s", report.ending())
	if !o.JSON {
		return nil
	}
	line, err := json.Marshal(report)
	if err != nil {
		return err
	}
	say(o.Out, "%s\n", line)
	return nil
}

func repeat(ctx context.Context, lab *lab, m measurement) (Result, error) {
	result := Result{Name: m.name, Title: m.title, How: m.how(lab.options)}
	taken := map[figure][]float64{}
	for range lab.options.Repeats {
		if err := lab.Renew(ctx); err != nil {
			return result, err
		}
		one, err := m.take(ctx, lab)
		if err != nil {
			return result, err
		}
		for f, value := range one {
			taken[f] = append(taken[f], value)
		}
	}
	for _, f := range figures {
		if values := taken[f.figure]; len(values) > 0 {
			result.Figures = append(result.Figures, Figure{
				Name: string(f.figure), Unit: f.unit, Median: median(values), Lowest: slices.Min(values), Highest: slices.Max(values),
			})
		}
	}
	return result, nil
}

// profile starts a CPU profile of this process; the server is another.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
