package cases

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/peer"
)

// Case is one measurement.
type Case struct {
	Name   string
	What   string // for the reader
	Kind   peer.Kind
	Shapes []peer.Shape // that a peer needs
	Only   []string     // peers; none: all that have a setting for the kind
	Slow   bool         // on a server with slow flushes
	Spare  bool         // with a second database
	Side   bool         // all peers at once, because each is nearly idle
	Full   bool         // left out of quick comparisons unless asked for by name
	Brief  bool         // ours is measured with its fastest settings only in quick comparisons
	take   func(context.Context, *Bench) ([]Figure, error)
}

// Figure is one number that a case gave. The first of a case has no name.
type Figure struct {
	Name   string  `json:"name,omitempty"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Higher bool    `json:"higher,omitempty"` // is better
}

const (
	perSecond    = "/s"
	milliseconds = "ms"
)

// Take makes the measurement.
func (c Case) Take(ctx context.Context, b *Bench) ([]Figure, error) { return c.take(ctx, b) }

// Wants reports whether a peer with a setting takes part.
func (c Case) Wants(e peer.Entry, s peer.Setting) bool {
	if len(c.Only) > 0 && !slices.Contains(c.Only, e.Name) {
		return false
	}
	for _, shape := range c.Shapes {
		if !slices.Contains(e.Shapes, shape) {
			return false
		}
	}
	return s.Serves(c.Kind)
}

// All returns the cases in the order in which they are made.
func All() []Case {
	single, diamonds, chain := []peer.Shape{peer.Single}, []peer.Shape{peer.Diamond}, []peer.Shape{peer.Chain}
	const fewClients, manyClients = 16, 1000
	return []Case{
		{Name: "drain", What: "single-step jobs, enqueued in bulk beforehand: jobs/s from the worker's start to the last durable end", Kind: peer.Drain, Shapes: single, take: drain},
		{Name: "e2e", What: "single-step jobs from 16 clients that each wait until their trigger is durable", Kind: peer.Throughput, Shapes: single, take: flow(peer.Single, fewClients, 0)},
		{Name: "latency", What: "50 triggers a second whatever happens: from the call to the first line of the function, one process", Kind: peer.Latency, Shapes: single, take: openLoop},
		{Name: "latency-alone", What: "one job at a time: from the call to the first line of the function, one process", Kind: peer.Latency, Shapes: single, take: alone(peer.Single)},
		{Name: "diamond", What: "diamonds from 16 clients that each wait until their trigger is durable", Kind: peer.Throughput, Shapes: diamonds, take: flow(peer.Diamond, fewClients, 0)},
		{Name: "diamond-many", What: "diamonds from 1000 clients, as above", Kind: peer.Throughput, Shapes: diamonds, Brief: true, take: flow(peer.Diamond, manyClients, 0)},
		{Name: "diamond-alone", What: "one diamond at a time: from the call to the start of its last step, one process", Kind: peer.Latency, Shapes: diamonds, take: alone(peer.Diamond)},
		{Name: "signal", What: "a run that waits for a signal, one at a time: from the call that sends it to the start of the step behind", Kind: peer.Latency, Shapes: []peer.Shape{peer.Wait}, Full: true, take: signals},
		{Name: "chain-1", What: "100 steps one after the other, one run at a time: executed steps/s", Kind: peer.Graph, Shapes: chain, Full: true, take: chains(peer.Chain, 1)},
		{Name: "chain-16", What: "the same with 16 runs at once", Kind: peer.Graph, Shapes: chain, Brief: true, take: chains(peer.Chain, 16)},
		{Name: "chain-200", What: "the same with 200 runs at once", Kind: peer.Graph, Shapes: chain, Full: true, take: chains(peer.Chain, 200)},
		{Name: "fanout-1000", What: "a step, then 1,000 at once, then one that waits for all, one run at a time: executed steps/s, and from the call to the start of the last", Kind: peer.Graph, Shapes: []peer.Shape{peer.FanOut}, Full: true, take: fanOut},
		{Name: "children", What: "a step, then 200 child runs of one step each, then a step that waits for all, one parent at a time: from the call to the durable end", Kind: peer.Graph, Shapes: []peer.Shape{peer.Parent}, Full: true, take: oneByOne(peer.Parent, 2+2*peer.Children)}, // a child run is a step of its parent, and has one
		{Name: "machines-200", What: "state machines that start 20 activities one after the other, each of which gives 100 bytes, 200 runs at once: executed activities/s", Kind: peer.Graph, Shapes: []peer.Shape{peer.Machine}, Full: true, take: chains(peer.Machine, 200)},
		{Name: "machine-alone", What: "the same, one run at a time: from the call to the durable end", Kind: peer.Latency, Shapes: []peer.Shape{peer.Machine}, Full: true, take: oneByOne(peer.Machine, float64(peer.Machine.Steps()))},
		{Name: "start-1000", What: "an engine with 1,000 definitions: from its making to the first durable end of a run", Kind: peer.Latency, Shapes: diamonds, Only: []string{"troupe", "river", "dbos", "go-workflows"}, Brief: true, take: start},
		{Name: "across", What: "50 triggers a second in one process: until the function's first line in another", Kind: peer.Across, Shapes: single, take: across},
		{Name: "idle", What: "nothing to do: what a process asks of the server", Kind: peer.Idle, Shapes: single, Side: true, Spare: true, take: idle},
		{Name: "backlog-1k", What: "1,000 jobs wait: functions/s from the worker's start, in a window or until all ends are durable", Kind: peer.Drain, Shapes: single, Full: true, take: backlog(1000)},
		{Name: "backlog-100k", What: "the same with 100,000", Kind: peer.Drain, Shapes: single, Full: true, take: backlog(100_000)},
		{Name: "backlog-1m", What: "the same with 1,000,000", Kind: peer.Drain, Shapes: single, Full: true, take: backlog(1_000_000)},
		{Name: "fairness", What: "999 tenants have a backlog, then another enqueues one job: its wait from the worker's start", Kind: peer.Fairness, Shapes: single, Brief: true, take: fairness},
		{Name: "payload-2k", What: "e2e with 2 kB in and out", Kind: peer.Throughput, Shapes: single, Full: true, take: flow(peer.Single, fewClients, 2<<10)},
		{Name: "payload-64k", What: "e2e with 64 kB in and out", Kind: peer.Throughput, Shapes: single, Brief: true, take: flow(peer.Single, fewClients, 64<<10)},
		{Name: "orders", What: "branches, skipped steps and a merge: executed tasks/s, against this engine's diamond", Kind: peer.Throughput, Shapes: []peer.Shape{peer.Orders, peer.Diamond}, Brief: true, take: orders},
		{Name: "timers", What: "durable sleeps of 500 ms beside diamonds: how late they end by the server's clock", Kind: peer.Throughput, Shapes: []peer.Shape{peer.Nap, peer.Diamond}, Only: []string{"troupe"}, Brief: true, take: timers},
		{Name: "slow-disk-e2e", What: "e2e with every flush of the log 1 ms longer", Kind: peer.Throughput, Shapes: single, Slow: true, Full: true, take: flow(peer.Single, fewClients, 0)},
		{Name: "slow-disk-diamond", What: "diamond-many with every flush of the log 1 ms longer", Kind: peer.Throughput, Shapes: diamonds, Slow: true, Brief: true, take: flow(peer.Diamond, manyClients, 0)},
	}
}

// Find finds one by name.
func Find(name string) (Case, bool) {
	all := All()
	i := slices.IndexFunc(all, func(c Case) bool { return c.Name == name })
	if i < 0 {
		return Case{}, false
	}
	return all[i], true
}

// size is how long and how often things are done in a quick and in a full
// comparison.
type size struct {
	warm    time.Duration // a worker that has started is left alone
	flow    time.Duration // clients trigger
	drain   time.Duration // that a drain is meant to take
	samples int           // of a latency in an open loop
	alone   int           // of a latency alone
	calm    time.Duration // before an idle process is looked at
	look    time.Duration // at an idle process
	window  time.Duration // of a backlog
	tenant  int           // jobs of each tenant
}

func sizeOf(quick bool) size {
	if quick {
		return size{
			warm: 300 * time.Millisecond, flow: 500 * time.Millisecond, drain: 4 * time.Second, samples: 50, alone: 12,
			calm: 12 * time.Second, look: 10 * time.Second, window: time.Second, tenant: 3,
		}
	}
	return size{
		warm: time.Second, flow: 4 * time.Second, drain: 5 * time.Second, samples: 300, alone: 60,
		calm: 12 * time.Second, look: 20 * time.Second, window: 5 * time.Second, tenant: 20,
	}
}
