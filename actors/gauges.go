package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// GaugesFor is how long the values of ReadGauges are used: however often and from
// however many places it is called, a pod reads them once in that time at most.
const GaugesFor = 10 * time.Second

// parkedMax bounds how many steps the gauge of parked tasks names, those with most of them
// first. The others are counted together.
const parkedMax = 100

// Measure is the value of a gauge, with the values of its labels in the order of the
// table.
type Measure struct {
	Metric Metric
	Value  float64
	Labels []string
}

// gauges reads the gauges of the database for callers that are no actors. It is safe for
// concurrent use.
type gauges struct {
	store persistence.Backlogs
	turn  chan struct{} // holds the token of the caller that reads
	at    time.Time     // of the last read; zero: there was none
	last  []Measure
	err   error
}

func newGauges(store persistence.Backlogs) *gauges {
	return &gauges{store: store, turn: make(chan struct{}, 1)}
}

// read returns the gauges, and whether they were read now.
func (g *gauges) read(ctx context.Context, now func() time.Time) (list []Measure, fresh bool, err error) {
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	defer func() { <-g.turn }()
	if !g.at.IsZero() && now().Sub(g.at) < GaugesFor {
		return g.last, false, g.err
	}
	backlog, err := g.store.Backlog(ctx)
	if err != nil && ctx.Err() != nil { // the caller was in a hurry, which says nothing to the next one
		return nil, false, errors.Join(context.Cause(ctx), err)
	}
	g.at, g.last, g.err = now(), nil, err
	if err == nil {
		g.last = measuresOf(&backlog)
	}
	return g.last, true, err
}

// measuresOf turns a backlog into gauges.
func measuresOf(b *persistence.Backlog) []Measure {
	age := func(since time.Time) float64 {
		if since.IsZero() {
			return 0
		}
		return max(b.Now.Sub(since), 0).Seconds()
	}
	var list []Measure
	add := func(metric Metric, value float64, labels ...string) {
		list = append(list, Measure{metric, value, labels})
	}
	for _, q := range b.Queues {
		add(MetricReady, float64(q.Ready), q.Queue)
		add(MetricReadyOldest, age(q.Oldest), q.Queue)
	}
	parked := slices.SortedStableFunc(slices.Values(b.Parked), func(x, y persistence.ParkedBacklog) int { return cmp.Compare(y.Count, x.Count) })
	others := 0
	for i, p := range parked {
		if i < parkedMax {
			add(MetricParkedTasks, float64(p.Count), p.Workflow, p.Step)
			continue
		}
		others += p.Count
	}
	if others > 0 {
		add(MetricParkedTasks, float64(others), otherLabel, otherLabel)
	}
	dead := map[lifecycle.DeadReason]int{}
	for _, d := range b.Dead {
		dead[d.Reason] = d.Count
	}
	for _, reason := range lifecycle.DeadReasons() {
		add(MetricDeadLetters, float64(dead[reason]), reason.String())
	}
	add(MetricIntakeOldest, age(b.Intake))
	add(MetricOldestTx, b.OldTx.Seconds())
	return list
}
