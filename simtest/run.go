package simtest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
)

// twiceEvery is how often a seed is run twice, to see that it gives the same
// history.
const twiceEvery = 50

// Run simulates: it calls body once per seed, each time with a cluster of its
// own in which everything that options allow goes wrong. After body has
// returned the faults end, and every run that was started must end; the engine's
// own promises must hold. The first seed in which something does not hold ends
// the test, with a report that says how to see it again.
//
// Seeds that failed before are kept in testdata/simtest and run first. With
// TROUPE_SIM_SEED in the environment that seed is run only.
func Run(t *testing.T, options Options, body func(s *Sim)) {
	t.Helper()
	b := newBatch(t, options, body)
	if set, ok := named(t); ok {
		b.fatal(b.replayed(set))
		return
	}
	for _, kept := range b.load() {
		b.fatal(b.run(kept))
	}
	b.fatal(b.seeds())
	b.sometimes()
	b.t.Log(b.sum)
}

// Find does what Run does with its seeds, and returns the first failure instead
// of failing the test; nil: there was none. It keeps no file. A test shows with
// it that a simulation finds a mistake.
func Find(t *testing.T, options Options, body func(s *Sim)) *Failure {
	t.Helper()
	b := newBatch(t, options, body)
	if set, ok := named(t); ok {
		return b.replayed(set)
	}
	return b.seeds()
}

// Failure is a simulation in which something does not hold.
type Failure struct {
	Seed    uint64
	Promise string // that does not hold
	Text    string // what is wrong
	Report  string // what a test prints that fails with it
	outcome *outcome
	trace   []string
}

func newBatch(t *testing.T, options Options, body func(s *Sim)) *batch {
	return &batch{t: t, options: options.withDefaults(), body: body, saw: map[string]bool{}, lab: sim.NewLab()}
}

// batch is the simulations of one test.
type batch struct {
	t       *testing.T
	options Options
	body    func(*Sim)
	saw     map[string]bool
	lab     *sim.Lab
	sum     sum
}

// sum is what happened in all simulations of a test.
type sum struct {
	simulations, faults, executions, again int
	elapsed                                time.Duration
}

func (s *sum) add(o *outcome) {
	s.simulations++
	s.faults += len(o.faults)
	s.elapsed += o.elapsed
	s.executions += len(o.log)
	tasks := map[string]bool{}
	for _, x := range o.log {
		tasks[x.about.IdempotencyKey] = true
	}
	s.again += len(o.log) - len(tasks)
}

// String is what a test logs that passes.
func (s sum) String() string {
	return fmt.Sprintf("%d simulations, %v of virtual time: %d faults, %d executions of steps, of which %d again",
		s.simulations, s.elapsed.Round(time.Second), s.faults, s.executions, s.again)
}

// fatal ends the test with a failure, if there is one.
func (b *batch) fatal(f *Failure) {
	b.t.Helper()
	if f == nil {
		return
	}
	if file := b.keep(f.outcome); file != "" {
		f.Report += fmt.Sprintf("It is kept in %s and run first from now on; delete the file to forget it.\n", file)
	}
	b.t.Fatal(f.Report)
}

// seeds runs the seeds.
func (b *batch) seeds() *Failure {
	b.t.Helper()
	count := b.options.Seeds
	if n, ok := number(b.t, envSeeds); ok {
		count = int(min(n, 1<<40))
	}
	for i := range count {
		set := setting{Seed: uint64(i) + 1}
		if f := b.run(set); f != nil {
			return f
		}
		if i%twiceEvery == twiceEvery-1 {
			if text := b.again(set); text != "" {
				b.t.Fatal(text)
			}
		}
	}
	return nil
}

// replayed runs one simulation, as it is kept if it is.
func (b *batch) replayed(set setting) *Failure {
	b.t.Helper()
	for _, kept := range b.load() {
		if kept.name() == set.name() {
			set = kept
		}
	}
	if os.Getenv(envTrace) != "" {
		set.trace = func(line sim.Line) { b.t.Log(readable(line)) }
	}
	return b.run(set)
}

// run runs one simulation.
func (b *batch) run(set setting) *Failure {
	b.t.Helper()
	o := b.play(set)
	b.sum.add(o)
	for name, saw := range o.saw {
		b.saw[name] = b.saw[name] || saw
	}
	if o.violation == nil {
		return nil
	}
	return b.failure(o)
}

// again runs a simulation twice, and tells where the second differs from the
// first; "": nowhere.
func (b *batch) again(set setting) string {
	b.t.Helper()
	first := b.play(set)
	if second := b.play(set); second.hash == first.hash {
		return ""
	}
	one, two := b.history(set), b.history(set)
	line, was, is := 0, "(they differed once, and then did not)", ""
	for i := range max(len(one), len(two)) {
		if lineAt(one, i) != lineAt(two, i) {
			line, was, is = i+1, lineAt(one, i), lineAt(two, i)
			break
		}
	}
	return fmt.Sprintf(`seed %d gave two histories: something in the workflow or the test does not follow from the seed
(random numbers, the order of a map, a select over two ready channels, goroutines that race).
They part at line %d:
  %s
  %s`, set.Seed, line, was, is)
}

// history is the whole history of a simulation.
func (b *batch) history(set setting) []string {
	b.t.Helper()
	var lines []string
	set.trace = func(line sim.Line) { lines = append(lines, line.String()) }
	b.play(set)
	return lines
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "the end"
}

// sometimes fails the test if a Sometimes was never true.
func (b *batch) sometimes() {
	for _, name := range slices.Sorted(maps.Keys(b.saw)) {
		if !b.saw[name] {
			b.t.Errorf("sometimes %q: it never held in %d seeds: what is to be tested was not reached; run more seeds, or help it to happen",
				name, b.options.Seeds)
		}
	}
}

// failure makes the report of a simulation in which something does not hold,
// with as few faults as show it.
func (b *batch) failure(o *outcome) *Failure {
	b.t.Helper()
	small := b.shrink(o)
	lines := &tail{}
	set := small.setting
	set.trace = lines.add
	last := b.play(set)
	if last.violation == nil {
		b.t.Fatalf("seed %d failed (%v), and the same seed did not a second time: something does not follow from the seed",
			o.setting.Seed, o.violation)
	}
	f := &Failure{
		Seed: set.Seed, Promise: last.violation.Promise, Text: last.violation.Text,
		outcome: last, trace: lines.last(last.named),
	}
	f.Report = report(b.t.Name(), last, f.trace)
	return f
}
