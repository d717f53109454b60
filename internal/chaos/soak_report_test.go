package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

// soakPrinter shows a soak: for people, or as lines of JSON, which are kept in
// any case.
type soakPrinter struct {
	json bool
	out  io.Writer
	kept io.Writer
	last time.Time // when a sample was shown to people
}

func (p *soakPrinter) line(kind string, value any) {
	text, err := json.Marshal(map[string]any{kind: value})
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(p.kept, "%s\n", text) // it is what it is
	if p.json {
		_, _ = fmt.Fprintf(p.out, "%s\n", text) // the reader has gone
	}
}

func (p *soakPrinter) say(format string, args ...any) {
	if !p.json {
		_, _ = fmt.Fprintf(p.out, format+"\n", args...) // the reader has gone
	}
}

func (p *soakPrinter) begin(o soakOptions) {
	p.line("soak", map[string]any{
		"minutes": o.minutes, "rate": o.rate, "every_s": o.every.Seconds(), "burst": o.burst, "warm": o.warm, "seed": o.seed,
		"sample_s": o.sampleEvery().Seconds(), "brisk": o.brisk(),
	})
	p.say("soak: %g min, %g runs/s on 3 pods, a fault every %v, seed %d, after %d runs to warm up", o.minutes, o.rate, o.every, o.seed, o.warm)
}

// sample shows people one sample a minute.
func (p *soakPrinter) sample(s *soak, found soakSample) {
	p.line("sample", found)
	if time.Since(p.last) < time.Minute || found.Server == nil || len(found.Pods) == 0 {
		return
	}
	p.last = time.Now()
	p.say("%6.0f s  %d runs acked, %d ended, %d under way; p50 to start %.1f ms; %s: %.0f MiB, %d goroutines; %d dead tuples, WAL %.0f MiB",
		found.Seconds, total(s.sampler.acked), total(s.sampler.ended), found.Server.Open, found.StartMs["p50"],
		found.Pods[0].Pod, float64(found.Pods[0].RSS)/(1<<20), found.Pods[0].Goroutines, found.Server.Dead, float64(found.Server.WAL)/(1<<20))
}

func (p *soakPrinter) fault(f faultLine) {
	p.line("fault", f)
	p.say("%6.0f s  %s: %s; healed after %.1f s, then a run took %d ms", f.Seconds, f.Fault, f.Done, f.Healed-f.Seconds, f.ProbeMs)
}

// trends shows the slopes.
func (p *soakPrinter) trends(trends []trend) {
	for _, t := range trends {
		p.line("trend", t.finite())
	}
	if p.json {
		return
	}
	p.say("")
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "series\tfirst\tmedian\tmost\tper hour\t±\tlimit\t") // as say
	for _, t := range trends {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%+.3g\t%.2g\t%s\t%s\n",
			t.Name, amount(t.First, t.Unit), amount(t.Median, t.Unit), amount(t.Most, t.Unit), t.PerHour, t.Margin, amount(t.Limit, ""), t.verdict())
	}
	_ = table.Flush() // as say
	p.say("\nGROWS: the 95 %% interval of the least-squares slope over the second half (medians of %d blocks)\n"+
		"lies above the limit, and the line rises by more than buffers do that reach their size.\n"+
		"unclear: the interval reaches above the limit; a longer soak tells.", fitBlocks)
}

// end shows the judgement.
func (p *soakPrinter) end(s *soak, v verdict) {
	p.line("verdict", map[string]any{
		"acked": v.acked, "ended": v.ended, "runs": v.runs, "executions": v.executions, "repeated": v.repeated,
		"losses": v.losses, "released": v.released, "faults": len(s.faults),
	})
	p.say("%d faults in %.0f s at %.1f runs/s; %v", len(s.faults), s.seconds(), rateOf(int64(v.acked-s.options.warm), s.options.duration()), v)
}

// finite returns a trend that JSON can carry: what is not known is -1.
func (t trend) finite() trend {
	for _, value := range []*float64{&t.First, &t.Median, &t.Most, &t.PerHour, &t.Margin, &t.Limit, &t.RiseMost} {
		if math.IsNaN(*value) || math.IsInf(*value, 0) {
			*value = -1
		}
	}
	return t
}

func amount(value float64, unit string) string {
	if math.IsNaN(value) {
		return "–"
	}
	text := fmt.Sprintf("%.4g", value)
	if value >= 10_000 {
		text = fmt.Sprintf("%.0f", value)
	}
	if unit != "" {
		text += " " + unit
	}
	return text
}
