package swarm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
)

// TwiceEvery is how often a seed of a batch is run twice, to compare.
const TwiceEvery = 50

// Plan says which seeds a batch runs, and how.
type Plan struct {
	From    uint64
	Count   int
	Workers int     // 0: one
	Twice   int     // every so manieth seed is run twice; 0: TwiceEvery
	Options Options // of every seed; its Seed counts for nothing
	// Each is called with every report, in the order of seeds, by the goroutine
	// that runs the batch; it ends the batch by returning false. May be nil.
	Each func(*Report) bool
}

// Batch is what came of the seeds of a plan.
type Batch struct {
	Seeds    int
	Failed   []*Report         // in the order of their seeds
	Diverged []Divergence      // seeds whose second run was another
	Saw      map[Sight]int     // in how many seeds
	Happened map[sim.Class]int // in how many seeds
	Faults   int
	Steps    int
	Tasks    int
	Elapsed  time.Duration // virtual
	plan     Plan
}

// Divergence is a seed that gave two histories.
type Divergence struct {
	Seed   uint64
	Line   int
	First  string // line of the history where they part
	Second string
}

// outcome is one seed of a batch.
type outcome struct {
	index    int
	report   *Report
	diverged *Divergence
}

// Run runs the seeds of the plan, each in a world of its own. What it returns
// does not depend on the number of workers, unless ctx ends: then it is about
// the seeds that were run until then.
func (p Plan) Run(ctx context.Context) *Batch {
	if p.Options.Classes == nil {
		p.Options.Classes = Classes()
	}
	p.Workers, p.Twice = max(p.Workers, 1), max(p.Twice, 0)
	if p.Twice == 0 {
		p.Twice = TwiceEvery
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &Batch{Saw: map[Sight]int{}, Happened: map[sim.Class]int{}, plan: p}
	next, outcomes := &counter{limit: p.Count}, make(chan outcome, p.Workers)
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Add(1)
		go func() {
			defer workers.Done()
			p.work(ctx, next, outcomes)
		}()
	}
	go func() {
		workers.Wait()
		close(outcomes)
	}()
	early := map[int]outcome{}
	ended := false
	for o := range outcomes {
		early[o.index] = o
		for now, ok := early[b.Seeds]; ok && !ended; now, ok = early[b.Seeds] {
			delete(early, b.Seeds)
			b.add(now)
			if p.Each != nil && !p.Each(now.report) {
				ended = true
				cancel()
			}
		}
	}
	return b
}

// counter hands out the indexes of a batch.
type counter struct {
	mu    sync.Mutex
	given int
	limit int
}

func (c *counter) next() (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given == c.limit {
		return 0, false
	}
	c.given++
	return c.given - 1, true
}

// work runs seeds until there are none left.
func (p Plan) work(ctx context.Context, next *counter, outcomes chan<- outcome) {
	lab := NewLab()
	for ctx.Err() == nil {
		i, ok := next.next()
		if !ok {
			return
		}
		options := p.Options
		options.Seed = p.From + uint64(i)
		o := outcome{index: i, report: lab.Run(options)}
		if i%p.Twice == p.Twice-1 || p.Twice == 1 {
			o.diverged = lab.again(options, o.report)
		}
		outcomes <- o
	}
}

func (b *Batch) add(o outcome) {
	r := o.report
	b.Seeds++
	b.Steps, b.Tasks, b.Faults, b.Elapsed = b.Steps+r.Steps, b.Tasks+r.Tasks, b.Faults+len(r.Faults), b.Elapsed+r.Elapsed
	for sight := range r.Saw {
		b.Saw[sight]++
	}
	classes := map[sim.Class]bool{}
	for _, f := range r.Faults {
		classes[f.Class] = true
	}
	for class := range classes {
		b.Happened[class]++
	}
	if r.Violation != nil {
		b.Failed = append(b.Failed, r)
	}
	if o.diverged != nil {
		b.Diverged = append(b.Diverged, *o.diverged)
	}
}

// again runs a seed a second time; nil: it was the same.
func (l *Lab) again(options Options, first *Report) *Divergence {
	if second := l.Run(options); second.Hash == first.Hash && fmt.Sprint(second.Violation) == fmt.Sprint(first.Violation) {
		return nil
	}
	one, two := l.history(options), l.history(options)
	d := &Divergence{Seed: options.Seed, First: "it did not happen again"}
	for i := range max(len(one), len(two)) {
		a, b := lineAt(one, i), lineAt(two, i)
		if a != b {
			d.Line, d.First, d.Second = i+1, a, b
			break
		}
	}
	return d
}

// history is the whole history of a seed.
func (l *Lab) history(options Options) []string {
	var lines []string
	options.Trace = func(line sim.Line) { lines = append(lines, line.String()) }
	l.Run(options)
	return lines
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "the end"
}
