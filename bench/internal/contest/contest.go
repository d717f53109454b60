package contest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/cases"
	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/process"
	"github.com/troupe-dev/troupe/bench/internal/report"
	"github.com/troupe-dev/troupe/bench/internal/server"
)

// cellMax bounds one measurement; beyond it something is stuck.
const cellMax = 3 * time.Minute

// quickMax is when a quick comparison begins no further case, on a machine that
// is too busy for all of them: the last one may take half a minute then.
const quickMax = 210 * time.Second

var errNoTime = errors.New("no time was left in a quick comparison; ask for it by name")

// contest is a comparison under way.
type contest struct {
	options Options
	news    io.Writer
	usual   *server.Server
	slow    *server.Server // started when first needed

	mu      sync.Mutex
	results report.Collection
	missing []string
	failed  error
}

// Result is what a comparison gave.
type Result struct {
	About   string // what all measurements have in common
	Lines   []report.Line
	Missing []string // measurements that there are no lines of, and why
}

// Run compares. News tells how far it has come. A measurement that fails is an
// error beside the result of the others; one that cannot be made on this machine
// is only missing.
func Run(ctx context.Context, o Options, field []peer.Entry, news io.Writer) (result Result, err error) {
	c := &contest{options: o, news: news}
	if c.usual, err = server.Start(ctx); err != nil {
		return result, err
	}
	defer func() {
		err = errors.Join(err, c.usual.Stop(ctx))
		if c.slow != nil {
			err = errors.Join(err, c.slow.Stop(ctx))
		}
	}()
	text, err := c.usual.Describe(ctx)
	if err != nil {
		return result, err
	}
	text = fmt.Sprintf("GOGC=%d in every process that is measured; %s", o.GOGC, text)
	c.say("%s", text)
	began := time.Now()
	for _, r := range plan(o, field) {
		if o.Quick && time.Since(began) > quickMax {
			c.miss(r.of.Name, errNoTime)
			continue
		}
		if err := c.round(ctx, r); err != nil {
			c.failed = errors.Join(c.failed, err)
			break // what has been measured is still worth showing
		}
	}
	return Result{About: text, Lines: c.results.Lines(), Missing: c.missing}, c.failed
}

// round lets the cells of a case take turns: A B C, A B C.
func (c *contest) round(ctx context.Context, r round) error {
	on, err := c.server(ctx, r.of)
	if errors.Is(err, server.ErrNoCompiler) {
		c.miss(r.of.Name, err)
		return nil
	}
	if err != nil {
		return err
	}
	began := time.Now()
	for range c.options.Repeats {
		if r.of.Side {
			c.sideBySide(ctx, on, r.cells)
		} else {
			for _, each := range r.cells {
				c.measure(ctx, on, each)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	c.say("%s: %.0f s", r.of.Name, time.Since(began).Seconds())
	return nil
}

func (c *contest) server(ctx context.Context, of cases.Case) (*server.Server, error) {
	if !of.Slow {
		return c.usual, nil
	}
	var err error
	if c.slow == nil {
		c.slow, err = server.StartSlow(ctx)
	}
	return c.slow, err
}

func (c *contest) sideBySide(ctx context.Context, on *server.Server, cells []cell) {
	var all sync.WaitGroup
	for _, each := range cells {
		all.Go(func() { c.measure(ctx, on, each) })
	}
	all.Wait()
}

// measure makes one measurement. A failure is reported, and the other measurements are made.
func (c *contest) measure(ctx context.Context, on *server.Server, one cell) {
	limited, cancel := context.WithTimeoutCause(ctx, cellMax, fmt.Errorf("not over after %v", cellMax))
	defer cancel()
	what := fmt.Sprintf("%s %s %s", one.of.Name, one.entry.Name, one.setting.Name)
	began := time.Now()
	figures, err := c.take(limited, on, one)
	if err != nil {
		c.mu.Lock()
		c.failed = errors.Join(c.failed, fmt.Errorf("measure %s: %w", what, err))
		c.mu.Unlock()
		c.miss(what, err)
		return
	}
	c.say("%s: %.1f s", what, time.Since(began).Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range figures {
		name := one.of.Name
		if f.Name != "" {
			name += "." + f.Name
		}
		c.results.Add(report.Sample{
			Key:  report.Key{Case: name, Peer: one.entry.Name, Setting: one.setting.Name},
			Says: one.setting.Says, Role: role(one.entry), Value: f.Value, Unit: f.Unit, Higher: f.Higher,
		})
	}
}

func (c *contest) take(ctx context.Context, on *server.Server, one cell) (figures []cases.Figure, err error) {
	spec := cases.Spec{Case: one.of.Name, Peer: one.entry.Name, Setting: one.setting.Name, Quick: c.options.Quick, GOGC: c.options.GOGC}
	if c.options.Profile != "" {
		spec.Profile = filepath.Join(c.options.Profile, fmt.Sprintf("%s-%s-%s.pprof", spec.Case, spec.Peer, spec.Setting))
	}
	for _, place := range []*server.Place{&spec.Place, &spec.Spare} {
		if place == &spec.Spare && !one.of.Spare {
			continue
		}
		c.mu.Lock() // side by side they would number databases alike
		*place, err = on.Create(ctx, one.of.Kind == peer.Idle)
		c.mu.Unlock()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, on.Drop(ctx, *place)) }()
	}
	return process.Run(ctx, spec)
}

// limit is the limit that ratios are taken to.
const limit = "limit-sql"

func role(e peer.Entry) report.Role {
	switch {
	case e.Role == peer.Ours:
		return report.Ours
	case e.Name == limit:
		return report.Limit
	case e.Role == peer.Limit:
		return report.Bound
	}
	return report.Peer
}

func (c *contest) miss(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = append(c.missing, what+": "+err.Error())
	_, _ = fmt.Fprintf(c.news, "# %s: %v\n", what, err) // the report tells it again
}

func (c *contest) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.news, "# "+format+"\n", args...) // nothing depends on it
}
