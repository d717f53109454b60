package swarm

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
)

// setting is what a seed draws about its cluster and load.
type setting struct {
	pods    int
	slots   int
	limit   int // running tasks of one tenant; 0: none
	runs    int
	tenants int
	lease   time.Duration
	faults  time.Duration // how long they last
	order   sim.Order
	deploy  bool // of the second version, pod after pod
	partial bool // one pod does not register every workflow
	maxLost int  // losses after which a task is a poison pill
	random  *rand.Rand
}

func draw(seed uint64, fifo bool) setting {
	r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // seeded on purpose
	s := setting{
		pods: 1 + r.IntN(4), slots: 1 + r.IntN(8), runs: 8 + r.IntN(8), tenants: 1 + r.IntN(4),
		lease: time.Duration(5+r.IntN(11)) * time.Second, faults: time.Duration(10+r.IntN(50)) * time.Second,
		order: sim.Order(r.IntN(4)), deploy: r.IntN(4) == 0, partial: r.IntN(5) == 0, random: r,
		maxLost: 1 + int(min(seed%6, 2)),
	}
	if r.IntN(4) == 0 {
		s.limit = 1 + r.IntN(3)
	}
	if seed%8 == 5 {
		s = s.crowded()
	}
	if fifo {
		s.order = sim.FIFO
	}
	return s
}

// crowded is a cluster with much more work than slots, for the promises about
// fairness.
func (s setting) crowded() setting {
	s.pods, s.slots, s.limit, s.partial, s.deploy = 1, 1+s.slots%3, 0, false, false
	s.runs, s.tenants = s.runs+4, max(s.tenants, 3)
	return s
}

// String lists what was drawn.
func (s setting) String() string {
	return fmt.Sprintf("pods %d, slots %d, tenant limit %d, runs %d, tenants %d, lease %v, faults for %v, order %d, deploy %v, partial %v, poison after %d losses",
		s.pods, s.slots, s.limit, s.runs, s.tenants, s.lease, s.faults, s.order, s.deploy, s.partial, s.maxLost)
}

// stopGrace is how long a stop lets tasks go on.
const stopGrace = 8 * time.Second

// spareAfter is how long all pods must be busy before the stream is spared:
// less than usual, or seeds would end before.
const spareAfter = 2 * time.Second

// config is that of every pod.
func (s setting) config(name string) actors.Config {
	return actors.Config{
		Slots: s.slots, Queues: []string{actors.DefaultQueue, "gpu"}, TenantLimit: s.limit, MaxLost: s.maxLost, LeaseTTL: s.lease, Pulse: s.lease / 3,
		StopGrace: stopGrace, CancelGrace: 10 * time.Second, StreamSpare: spareAfter, PayloadLimit: payloadLimit, PodName: name,
	}
}

// load draws the runs that are triggered.
func (s *seed) load() []*order {
	r, t := s.setting.random, s.setting
	var list []*order
	for i := range t.runs {
		o := &order{
			name: fmt.Sprintf("run-%d", i), shape: s.old[r.IntN(len(s.old)-wides-machineShapes)], tenant: fmt.Sprintf("tenant-%d", r.IntN(t.tenants)),
			after: time.Duration(r.Int64N(int64(t.faults))), doubled: r.IntN(5) == 0, inTx: r.IntN(6) == 0,
			input: fmt.Appendf(nil, "%d", r.IntN(1000)),
		}
		if i < t.runs/2 {
			o.after /= 20
		}
		if s.number%3 == 1 && s.drawn(2, "map "+o.name) == 0 { // the other seeds go as they would without
			o.shape = s.old[len(s.old)-machineShapes-1-int(s.drawn(wides, "which "+o.name))]
		}
		if s.number%3 == 2 && s.drawn(2, "machine "+o.name) == 0 {
			o.shape = s.old[len(s.old)-1-int(s.drawn(machineShapes, "which "+o.name))]
		}
		waits := len(o.shape.graph.Signals()) > 0 // each run needs its signals, also a second one
		o.keyless = i%3 == 0 && !o.doubled && !o.inTx && !waits
		if r.IntN(8) == 0 {
			o.at = o.after + time.Duration(r.IntN(20))*time.Second
		}
		if r.IntN(6) == 0 {
			o.cancel = o.after + time.Duration(r.Int64N(int64(15*time.Second)))
		}
		list = append(list, o)
	}
	return list
}
