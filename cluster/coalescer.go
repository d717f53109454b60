package cluster

import "github.com/troupe-dev/troupe/workflow"

// WakeLimits bound what a Coalescer holds.
type WakeLimits struct {
	Queues int // beyond it, the wake is for any queue
	Runs   int // of each kind; beyond it, the wake is for any run
}

// DefaultWakeLimits returns bounds under which what is drained fits into a few
// notifications (of at most 8000 bytes each).
func DefaultWakeLimits() WakeLimits { return WakeLimits{Queues: 64, Runs: 1000} }

// Coalescer merges wakes until they are sent or acted on: by queue with their
// counts added, by run, and to the earliest timer. What it holds is bounded;
// beyond the limits it names nothing and means everything. It is for one
// goroutine. The zero value has no room: see NewCoalescer.
type Coalescer struct {
	limits    WakeLimits
	ready     []Wake // in the order of their first Add
	byQueue   map[string]int
	submitted bool
	timer     *Wake
	canceling runSet
	ended     runSet
}

// NewCoalescer returns an empty Coalescer.
func NewCoalescer(limits WakeLimits) *Coalescer {
	c := &Coalescer{limits: limits}
	c.clear()
	return c
}

// Add merges wakes in. A wake of an unknown kind is dropped.
func (c *Coalescer) Add(wakes ...Wake) {
	for _, w := range wakes {
		switch w.Kind {
		case WakeReady:
			c.addReady(w)
		case WakeSubmitted:
			c.submitted = true
		case WakeTimer:
			c.addTimer(w)
		case WakeCanceling:
			c.canceling.add(w.Run, c.limits.Runs)
		case WakeEnded:
			c.ended.add(w.Run, c.limits.Runs)
		}
	}
}

// Len is the number of wakes that Drain would return.
func (c *Coalescer) Len() int {
	n := len(c.ready) + c.canceling.wakes() + c.ended.wakes()
	if c.submitted {
		n++
	}
	if c.timer != nil {
		n++
	}
	return n
}

// Drain returns the merged wakes and forgets them. Queues and runs come in the
// order in which they were first added. The slice is the caller's.
func (c *Coalescer) Drain() []Wake {
	wakes := make([]Wake, 0, c.Len())
	wakes = append(wakes, c.ready...)
	if c.submitted {
		wakes = append(wakes, Wake{Kind: WakeSubmitted})
	}
	if c.timer != nil {
		wakes = append(wakes, *c.timer)
	}
	wakes = c.canceling.appendTo(wakes, WakeCanceling)
	wakes = c.ended.appendTo(wakes, WakeEnded)
	c.clear()
	return wakes
}

func (c *Coalescer) clear() {
	c.ready, c.byQueue = nil, map[string]int{}
	c.submitted, c.timer = false, nil
	c.canceling, c.ended = runSet{}, runSet{}
}

// addReady keeps the key of a queue's first wake: pods that cut a stream of
// wakes at other places still agree on most of them.
func (c *Coalescer) addReady(w Wake) {
	if i, ok := c.byQueue[""]; ok {
		w.Queue = ""
		c.ready[i].Count = addCounts(c.ready[i].Count, w.Count)
		return
	}
	if i, ok := c.byQueue[w.Queue]; ok {
		c.ready[i].Count = addCounts(c.ready[i].Count, w.Count)
		return
	}
	if w.Queue == "" || len(c.ready) >= c.limits.Queues {
		c.anyQueue(w)
		return
	}
	c.byQueue[w.Queue] = len(c.ready)
	c.ready = append(c.ready, w)
}

// anyQueue replaces all queues by one wake for any of them.
func (c *Coalescer) anyQueue(w Wake) {
	w.Queue = ""
	for i, r := range c.ready {
		if i == 0 {
			w.Key = r.Key
		}
		w.Count = addCounts(w.Count, r.Count)
	}
	c.ready = []Wake{w}
	c.byQueue = map[string]int{"": 0}
}

// addCounts adds two counts of which 0 means unknown.
func addCounts(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	return a + b
}

func (c *Coalescer) addTimer(w Wake) {
	if c.timer == nil || w.At.Before(c.timer.At) {
		c.timer = &w
	}
}

// runSet is a bounded set of runs in the order of their first add.
type runSet struct {
	order []workflow.RunID
	seen  map[workflow.RunID]struct{}
	all   bool // more than the limit, or a run without a name
}

func (s *runSet) add(run workflow.RunID, limit int) {
	if s.all {
		return
	}
	if _, ok := s.seen[run]; ok {
		return
	}
	if run.IsZero() || len(s.order) >= limit {
		*s = runSet{all: true}
		return
	}
	if s.seen == nil {
		s.seen = map[workflow.RunID]struct{}{}
	}
	s.seen[run] = struct{}{}
	s.order = append(s.order, run)
}

func (s *runSet) wakes() int {
	if s.all {
		return 1
	}
	return len(s.order)
}

func (s *runSet) appendTo(wakes []Wake, kind WakeKind) []Wake {
	if s.all {
		return append(wakes, Wake{Kind: kind})
	}
	for _, run := range s.order {
		wakes = append(wakes, Wake{Kind: kind, Run: run})
	}
	return wakes
}
