package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/internal/sim/swarm"
)

const (
	failuresShown = 5    // of a batch, in full
	linesShown    = 25   // of the history of each
	shrinkTries   = 1000 // at most, for each
	gcPercent     = 400  // worlds are small and soon forgotten
)

// Run simulates, and returns an error if a promise was broken.
func Run(ctx context.Context, o Options) error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	switch {
	case o.Replay != "":
		return o.replay()
	case o.Trace:
		return o.trace(ctx)
	}
	result := Result{}
	var problems []string
	if o.Seeds > 0 || o.For > 0 {
		problems = o.seeds(ctx, &result)
	}
	if o.Planted && ctx.Err() == nil {
		found, err := o.plants(ctx, &result)
		if err != nil {
			return err
		}
		problems = append(problems, found...)
	}
	if o.JSON {
		line, err := json.Marshal(result)
		if err != nil {
			return err
		}
		o.say("%s", line)
	}
	if len(problems) > 0 {
		return &brokenError{problems}
	}
	return ctx.Err()
}

// brokenError says what the simulation has found.
type brokenError struct{ problems []string }

// Error implements error.
func (e *brokenError) Error() string {
	text := e.problems[0]
	for _, p := range e.problems[1:] {
		text += "; " + p
	}
	return text
}

func (o Options) say(format string, args ...any) { _, _ = fmt.Fprintf(o.Out, format+"\n", args...) }

// seeds runs the batch and tells what came of it.
func (o Options) seeds(ctx context.Context, result *Result) (problems []string) {
	if o.For > 0 {
		within, cancel := context.WithTimeout(ctx, o.For)
		defer cancel()
		ctx = within
	}
	count := o.Seeds
	if count == 0 {
		count = 1 << 40
	}
	d, began := newDisplay(o.Out), time.Now()
	failed, done := 0, 0
	batch := swarm.Plan{
		From: o.Seed, Count: count, Workers: o.Workers, Options: swarm.Options{Classes: o.classes},
		Each: func(r *swarm.Report) bool {
			done++
			if r.Violation != nil {
				failed++
				d.clear()
				o.failure(r, failed)
			}
			d.show(progress{seeds: done, of: o.Seeds, failed: failed, passed: time.Since(began), limit: o.For})
			return !o.First || failed == 0
		},
	}.Run(ctx)
	d.clear()
	passed := time.Since(began)
	*result = Result{
		Seeds: batch.Seeds, Violations: len(batch.Failed), Nondeterministic: len(batch.Diverged),
		SeedsPerMinute: int(float64(batch.Seeds) / passed.Minutes()), SometimesUnmet: len(batch.Unmet()),
		Faults: batch.Faults, Messages: batch.Steps, Tasks: batch.Tasks, VirtualSeconds: int64(batch.Elapsed.Seconds()),
	}
	return o.summary(batch, passed)
}

// summary tells what came of a batch, and returns what is wrong.
func (o Options) summary(b *swarm.Batch, passed time.Duration) (problems []string) {
	o.say("%s from %d in %v, %.0f a minute with %s; every %dth was run twice", output.Count(b.Seeds, "seed"), o.Seed,
		passed.Round(100*time.Millisecond), float64(b.Seeds)/passed.Minutes(), output.Count(o.Workers, "worker"), swarm.TwiceEvery)
	o.say("%v of virtual time, %s, %s, %s", b.Elapsed.Round(time.Minute),
		output.Count(b.Tasks, "task"), output.Count(b.Steps, "message"), output.Count(b.Faults, "fault"))
	if n := len(b.Failed); n > 0 {
		problems = append(problems, fmt.Sprintf("%d of %s broke a promise", n, output.Count(b.Seeds, "seed")))
	} else {
		o.say("every promise held")
	}
	if n := len(b.Diverged); n > 0 {
		problems = append(problems, output.Count(n, "seed")+" gave two histories")
		for _, d := range b.Diverged[:min(n, failuresShown)] {
			o.say("seed %d gave two histories, which part at line %d:\n  %s\n  %s", d.Seed, d.Line, d.First, d.Second)
		}
	}
	unmet := b.Unmet()
	if b.Seeds < swarm.SometimesAfter || len(o.Faults) > 0 {
		if len(unmet) > 0 {
			o.say("%s not seen; %d seeds with all faults must have seen everything", output.Several(len(unmet), "thing was", "things were"), swarm.SometimesAfter)
		}
		return problems
	}
	for _, what := range unmet {
		o.say("not seen: %s", what)
	}
	if len(unmet) > 0 {
		problems = append(problems, fmt.Sprintf("%s never seen in %s", output.Several(len(unmet), "thing was", "things were"), output.Count(b.Seeds, "seed")))
	}
	return problems
}

// failure tells of a seed that broke a promise.
func (o Options) failure(r *swarm.Report, nth int) {
	if nth > failuresShown {
		if nth == failuresShown+1 {
			o.say("further violations are counted only")
		}
		return
	}
	o.say("seed %d broke %v", r.Seed, r.Violation)
	o.say("  cluster: %s", r.Setting)
	o.say("  %s in %v of virtual time", output.Count(len(r.Faults), "fault"), r.Elapsed.Round(time.Millisecond))
	replay := swarm.Replay{Seed: r.Seed, Promise: r.Violation.Promise, Note: r.Violation.Text}
	lab, options := swarm.NewLab(), swarm.Options{Seed: r.Seed, Classes: o.classes}
	if o.Shrink {
		replay = lab.Shrink(options, r, shrinkTries)
		replay.Note = r.Violation.Text
		o.say("  %v", replay)
		options = replay.Options()
		options.Classes = o.classes
	}
	for _, line := range last(lab, options) {
		o.say("  %v", line)
	}
	o.say("  again: troupe sim --seed %d --seeds 1 --trace", r.Seed)
	if o.Save != "" {
		if err := save(o.Save, replay); err != nil {
			o.say("  not saved: %v", err)
		}
	}
}

// last returns the last lines of the history of a seed.
func last(lab *swarm.Lab, options swarm.Options) []sim.Line {
	var lines []sim.Line
	options.Trace = func(line sim.Line) {
		if lines = append(lines, line); len(lines) > 4*linesShown {
			lines = append(lines[:0], lines[len(lines)-linesShown:]...)
		}
	}
	lab.Run(options)
	return lines[max(len(lines)-linesShown, 0):]
}

// save writes a replay file.
func save(dir string, replay swarm.Replay) error {
	text, err := json.MarshalIndent(replay, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("seed-%d.json", replay.Seed)), append(text, '\n'), 0o600)
}

// trace prints whole histories, one seed after the other.
func (o Options) trace(ctx context.Context) error {
	var problems []string
	for i := range o.Seeds {
		if ctx.Err() != nil {
			break
		}
		options := swarm.Options{Seed: o.Seed + uint64(i), Classes: o.classes}
		if problem := o.tell(options); problem != "" {
			problems = append(problems, problem)
		}
	}
	if len(problems) > 0 {
		return &brokenError{problems}
	}
	return nil
}

// replay runs what a file says, and prints its history.
func (o Options) replay() error {
	text, err := os.ReadFile(o.Replay)
	if err != nil {
		return err
	}
	var replay swarm.Replay
	if err := json.Unmarshal(text, &replay); err != nil {
		return fmt.Errorf("%s is not a replay: %w", o.Replay, err)
	}
	options := replay.Options()
	options.Classes = o.classes
	if problem := o.tell(options); problem != "" {
		return &brokenError{[]string{problem}}
	}
	return nil
}

// tell prints the history of a seed, and returns what is wrong with it.
func (o Options) tell(options swarm.Options) (problem string) {
	options.Trace = func(line sim.Line) { o.say("%v", line) }
	r := swarm.NewLab().Run(options)
	o.say("seed %d, hash %016x: %s; faults: %s", r.Seed, r.Hash, r.Setting, r.Rates)
	if r.Violation != nil {
		return fmt.Sprintf("seed %d broke %v", r.Seed, r.Violation)
	}
	return ""
}
