package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/persistence"
)

// sessionTimeout is how long the session of a leader lasts that does not ping.
const sessionTimeout = 3 * time.Second

// bus is what wakes the pods: the replication stream, the notifications, and
// the election, as far as PostgreSQL plays them.
type bus struct {
	world   *World
	without bool // this database offers no stream
	ears    []*ear
	taps    []*tap
	term    *term     // the session that holds the lock; nil: none
	silent  time.Time // until then no notification arrives
	commits uint64    // with wakes in them or not, so far
}

func newBus(w *World) *bus {
	b := &bus{world: w}
	_, b.without = w.Happens(NoStream, "database")
	return b
}

// subscription waits in its coroutine until it ends.
type subscription struct {
	pod *Pod
	c   *coroutine
	err error // why it ended
}

func (s *subscription) wait(ctx context.Context) error {
	s.c = s.pod.current
	for s.err == nil && ctx.Err() == nil {
		s.c.wait()
	}
	if s.err != nil {
		return s.err
	}
	return context.Cause(ctx)
}

// cut ends the subscription from the database's side.
func (s *subscription) cut() {
	if s.err == nil {
		s.err = errDown
		s.pod.world.After(0, func() { s.pod.run(s.c) })
	}
}

// ear is the cluster.Listener of a pod, and one subscription of it.
type ear struct {
	subscription

	sink func(cluster.Notice)
}

// Listen implements cluster.Listener.
func (e *ear) Listen(ctx context.Context, connected func(), sink func(cluster.Notice)) error {
	b := e.pod.world.bus
	if b.world.database.down() {
		return errLost
	}
	own := &ear{subscription: subscription{pod: e.pod}, sink: sink}
	b.ears = append(b.ears, own)
	connected()
	err := own.wait(ctx)
	b.ears = slices.DeleteFunc(b.ears, func(x *ear) bool { return x == own })
	return err
}

// tap is the cluster.Stream of a pod, and one subscription of it.
type tap struct {
	subscription

	sink func([]cluster.Wake)
}

// Read implements cluster.Stream.
func (t *tap) Read(ctx context.Context, connected func(), sink func([]cluster.Wake)) error {
	b := t.pod.world.bus
	if b.world.database.down() {
		return errLost
	}
	own := &tap{subscription: subscription{pod: t.pod}, sink: sink}
	b.taps = append(b.taps, own)
	connected()
	err := own.wait(ctx)
	b.taps = slices.DeleteFunc(b.taps, func(x *tap) bool { return x == own })
	return err
}

// mouth is the cluster.Notifier of a pod.
type mouth struct{ pod *Pod }

// Notify implements cluster.Notifier.
func (m *mouth) Notify(_ context.Context, notice cluster.Notice) error {
	_, err := meet(m.pod.store, "notify", func() (struct{}, error) {
		m.pod.world.bus.notify(notice)
		return struct{}{}, nil
	}, nil)
	return err
}

// hop is how long a wake takes to a pod, unless something goes wrong.
func (b *bus) hop(to *Pod) time.Duration {
	to.hops++
	h := mix(mix(b.world.seed, hashText(hashStart, to.Name)), to.hops)
	return 100*time.Microsecond + time.Duration(h%900)*time.Microsecond
}

// spread brings one wake to one pod, or fails to.
func (b *bus) spread(to *Pod, deliver func()) {
	w := b.world
	if w.Visit(WakeLost, to.Name) {
		return
	}
	after := b.hop(to)
	if d, ok := w.Happens(WakeLate, to.Name); ok {
		after = d.Between(time.Millisecond, 20*time.Second)
	}
	run := func() {
		if !to.dead {
			deliver()
		}
	}
	w.After(after, run)
	if w.Visit(WakeDoubled, to.Name) {
		w.After(after+b.hop(to), run)
	}
}

// committed sends the wakes of a transaction down the streams.
func (b *bus) committed(wake *persistence.Wake) {
	b.commits++
	wakes := wakesOf(wake, b.commits)
	if len(wakes) == 0 {
		return
	}
	for _, t := range b.taps {
		b.spread(t.pod, func() {
			if t.err == nil {
				t.sink(wakes)
			}
		})
	}
}

// notify sends a notice to every pod that listens, the sender too.
func (b *bus) notify(notice cluster.Notice) {
	if b.silent.After(b.world.Now()) {
		return
	}
	for _, e := range b.ears {
		b.spread(e.pod, func() {
			if e.err == nil {
				e.sink(notice)
			}
		})
	}
}

func wakesOf(wake *persistence.Wake, commit uint64) []cluster.Wake {
	var wakes []cluster.Wake
	for _, r := range wake.Ready {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeReady, Queue: r.Queue, Count: r.Count, Key: commit})
	}
	if wake.Submitted {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeSubmitted})
	}
	if !wake.NextTimer.IsZero() {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeTimer, At: wake.NextTimer})
	}
	for _, run := range wake.Ended {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeEnded, Run: run})
	}
	for _, run := range wake.Canceling {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeCanceling, Run: run})
	}
	return wakes
}

// candidate is the cluster.Elector of a pod.
type candidate struct{ pod *Pod }

// Campaign implements cluster.Elector.
func (c *candidate) Campaign(ctx context.Context) (cluster.Term, error) {
	b := c.pod.world.bus
	var won *term
	_, err := meet(c.pod.store, "campaign", func() (int64, error) {
		if b.term.holds() {
			return 0, cluster.ErrNotElected
		}
		epoch, err := b.world.store.BumpEpoch(ctx, c.pod.number)
		if err != nil {
			return 0, fmt.Errorf("bump the epoch: %w", err)
		}
		won = &term{pod: c.pod, epoch: epoch, pinged: b.world.Now()}
		b.term = won
		return epoch, nil
	}, nil)
	if err != nil {
		if won != nil { // the winner does not hear of it, and hangs up
			won.over = true
		}
		return nil, err
	}
	return won, nil
}

// term is a session that holds the lock.
type term struct {
	pod    *Pod
	epoch  int64
	pinged time.Time
	over   bool // for the database
}

// holds reports whether the session holds the lock now. The database ends it
// when it is idle for too long.
func (t *term) holds() bool {
	if t != nil && !t.over && t.pod.world.Now().Sub(t.pinged) > sessionTimeout {
		t.over = true
	}
	return t != nil && !t.over
}

// Epoch implements cluster.Term.
func (t *term) Epoch() int64 { return t.epoch }

// Ping implements cluster.Term.
func (t *term) Ping(_ context.Context, ping cluster.Ping) error {
	ping.Epoch = t.epoch
	_, err := meet(t.pod.store, "ping", func() (struct{}, error) {
		if !t.holds() {
			return struct{}{}, errOver
		}
		t.pinged = t.pod.world.Now()
		t.pod.world.bus.notify(cluster.Notice{Ping: &ping, From: t.pod.number})
		return struct{}{}, nil
	}, nil)
	if err != nil {
		t.over = true
	}
	return err
}

// Resign implements cluster.Term.
func (t *term) Resign(context.Context) error {
	if t.over {
		return nil
	}
	_, err := meet(t.pod.store, "resign", func() (struct{}, error) {
		t.pod.world.bus.notify(cluster.Notice{Ping: &cluster.Ping{Epoch: t.epoch, Resigned: true}, From: t.pod.number})
		return struct{}{}, nil
	}, nil)
	t.over = true
	return err
}

// hangUp ends the connections of a pod that is gone. A lock may be kept until
// the server notices.
func (b *bus) hangUp(p *Pod) {
	b.ears = slices.DeleteFunc(b.ears, func(e *ear) bool { return e.pod == p })
	b.taps = slices.DeleteFunc(b.taps, func(t *tap) bool { return t.pod == p })
	if b.term != nil && b.term.pod == p && b.world.random.IntN(2) == 0 {
		b.term.over = true
	}
}

// cutAll ends every connection.
func (b *bus) cutAll() {
	for _, e := range b.ears {
		e.cut()
	}
	for _, t := range b.taps {
		t.cut()
	}
	if b.term != nil {
		b.term.over = true
	}
}

// second visits what happens at most so often.
func (b *bus) second() {
	w := b.world
	for _, t := range slices.Clone(b.taps) {
		if w.Visit(StreamLost, t.pod.Name) {
			t.cut()
		}
	}
	for _, e := range slices.Clone(b.ears) {
		if w.Visit(ListenerLost, e.pod.Name) {
			e.cut()
		}
	}
	if d, ok := w.Happens(RelaySilent, "database"); ok {
		b.silent = w.Now().Add(d.Between(100*time.Millisecond, 20*time.Second))
	}
	if w.Visit(TermLost, "database") && b.term != nil {
		b.term.over = true
	}
}
