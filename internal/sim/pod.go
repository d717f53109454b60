package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clock"
)

// Pod is one incarnation of a pod: from a start to its end. The next start is
// another one.
type Pod struct {
	Name  string
	Pod   *actors.Pod // nil until it has started
	world *World
	began time.Time
	skew  time.Duration
	drift float64 // 0.01: its clock goes one percent fast

	dead        bool
	closed      bool // its executor begins nothing
	pausedUntil time.Time
	slowUntil   time.Time
	slow        time.Duration // of each message, until then
	number      int64
	hops        uint64    // wakes that were brought to it
	disturbed   time.Time // when it was last paused, slow, or one of its actors failed
	root        string    // id of the actor with which the pod ends

	boxes      []*box
	held       []func() // until the world is thawed
	late       []func() // until the pod is paused no more
	coroutines map[*coroutine]struct{}
	current    *coroutine
	waiting    []waiting
	ended      func() // called once when it has crashed or stopped
	random     lockedRandom
	store      *store
	spots      spots
}

// spots are what every message of a pod visits.
type spots struct{ crash, pause, slow, panicStarted, panicBefore, panicAfter *Spot }

// waiting is a step function that waits for its context too.
type waiting struct {
	ctx context.Context //nolint:containedctx // the attempt's, to be looked at
	c   *coroutine
}

// lockedRandom is an actors.Random of its own seed.
type lockedRandom struct {
	mu     sync.Mutex
	source *rand.PCG
}

// Uint64 implements actors.Random.
func (r *lockedRandom) Uint64() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Uint64()
}

// NewPod makes a pod that has not started. ended is called once when it has
// crashed, stopped, or given up; it may be nil.
func (w *World) NewPod(name string, ended func(p *Pod)) *Pod {
	p := &Pod{Name: name, world: w, began: w.Now(), coroutines: map[*coroutine]struct{}{}}
	p.random.source = rand.NewPCG(w.seed, mix(hashText(hashStart, name), uint64(len(w.pods))))
	p.store = &store{Store: w.store, database: w.database, pod: p, calls: map[string]uint64{}}
	p.spots = spots{
		crash: w.Spot(PodCrash, name), pause: w.Spot(PodPause, name), slow: w.Spot(PodSlow, name),
		panicStarted: w.Spot(ActorPanic, name+" started"), panicBefore: w.Spot(ActorPanic, name+" before"),
		panicAfter: w.Spot(ActorPanic, name+" after"),
	}
	p.ended = func() {
		if ended != nil {
			ended(p)
		}
	}
	if d, ok := w.Happens(ClockSkew, name); ok {
		p.skew = d.Between(time.Millisecond, time.Minute)
		if d.Chance(0.5) {
			p.skew = -p.skew
		}
	}
	if d, ok := w.Happens(ClockDrift, name); ok {
		p.drift = float64(d.Between(time.Microsecond, 20*time.Millisecond)) / float64(time.Second)
		if d.Chance(0.5) {
			p.drift = -p.drift
		}
	}
	w.pods = append(w.pods, p)
	return p
}

// Host is what a pod of this world runs on: the part of actors.Options that is
// the world's.
func (p *Pod) Host() actors.Options {
	w := p.world
	options := actors.Options{
		System: w.system, Clock: p.clock(), Executor: &executor{pod: p}, Random: &p.random,
		Mailbox: func() actor.Mailbox { return &box{world: w, pod: p} },
		Ports: actors.Ports{
			Store: p.store, Listener: &ear{subscription: subscription{pod: p}},
			Notifier: &mouth{pod: p}, Elector: &candidate{pod: p},
		},
		Joined:  func(number int64) { p.number = number },
		Buggify: p.buggify,
		Arrive:  func(to *actors.PID, message any) { w.arrive(arrival{pod: p, to: to, message: message}) },
	}
	if !w.bus.without {
		options.Ports.Stream = &tap{subscription: subscription{pod: p}}
	}
	return options
}

// Start starts the actors with the options of Host, completed by the caller.
func (p *Pod) Start(ctx context.Context, options actors.Options) (*actors.Pod, error) {
	p.world.note("start", p.Name, "")
	pod, err := actors.Launch(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.Pod = pod
	p.root = pod.PID().GetId()
	return pod, nil
}

// Alive reports whether the pod has neither crashed nor stopped.
func (p *Pod) Alive() bool { return !p.dead }

func (p *Pod) disturb(until time.Time) {
	if until.After(p.disturbed) {
		p.disturbed = until
	}
}

// Disturbed is when the pod was paused, slow, or had an actor that failed, for
// the last time.
func (p *Pod) Disturbed() time.Time { return p.disturbed }

// Number is the pod's number in the database.
func (p *Pod) Number() int64 { return p.number }

// runs reports whether messages are delivered now.
func (p *Pod) runs() bool { return !p.dead && !p.world.frozen && p.blockedFor() <= 0 }

// blockedFor is how long the pod is paused.
func (p *Pod) blockedFor() time.Duration { return p.pausedUntil.Sub(p.world.Now()) }

// hold keeps an event of the pod until the world is thawed; false: it is not
// frozen.
func (p *Pod) hold(f func()) bool {
	if p.world.frozen {
		p.held = append(p.held, f)
	}
	return p.world.frozen
}

// Crash ends the pod as SIGKILL does: what it had in memory is gone, its
// connections break, and no other pod is told.
func (p *Pod) Crash() {
	if p.dead {
		return
	}
	p.world.note("crash", p.Name, "")
	p.die(errCrashed)
}

func (p *Pod) die(err error) {
	p.dead = true
	p.world.bus.hangUp(p)
	if p.Pod != nil {
		p.Pod.Abandon(err)
	}
	p.drop()
	p.ended()
}

// drop forgets what the pod had begun.
func (p *Pod) drop() {
	p.dead, p.closed = true, true
	for c := range p.coroutines {
		if c != p.current {
			c.unwind()
		}
	}
	clear(p.coroutines)
	p.boxes, p.waiting = nil, nil
}

// Pause freezes the pod: nothing of it runs for d, the rest of the world goes
// on.
func (p *Pod) Pause(d time.Duration) {
	until := p.world.Now().Add(d)
	if p.dead || !until.After(p.pausedUntil) {
		return
	}
	p.world.note("pause", p.Name, d.String())
	p.disturb(until)
	p.pausedUntil = until
	p.world.After(d, p.wakeAll)
}

// Slow makes each message of the pod take a while, for as long as lasts.
func (p *Pod) Slow(each, lasts time.Duration) {
	p.slow, p.slowUntil = each, p.world.Now().Add(lasts)
	p.disturb(p.slowUntil)
}

func (p *Pod) wakeAll() {
	if p.runs() {
		late := p.late
		p.late = nil
		for _, f := range late {
			p.world.After(0, f)
		}
		for _, b := range p.boxes {
			b.wake()
		}
	}
}

func (p *Pod) heal() {
	p.slowUntil = time.Time{}
	if p.blockedFor() > 0 {
		p.pausedUntil = p.world.Now()
		p.world.After(0, p.wakeAll)
	}
}

// beforeMessage is where the pod may crash or freeze.
func (p *Pod) beforeMessage() {
	if _, ok := p.spots.crash.Hit(); ok {
		p.Crash()
		return
	}
	if d, ok := p.spots.pause.Hit(); ok {
		p.Pause(d.Between(10*time.Millisecond, time.Minute))
	}
	if d, ok := p.spots.slow.Hit(); ok {
		p.Slow(d.Between(100*time.Microsecond, 50*time.Millisecond), d.Between(time.Second, 20*time.Second))
	}
}

// afterMessage makes the pod slow, wakes coroutines whose context the message
// ended, and sees whether the pod has ended by itself.
func (p *Pod) afterMessage(b *box) {
	if p.dead {
		return
	}
	if p.slowUntil.After(p.world.Now()) {
		p.pausedUntil = p.world.Now().Add(p.slow)
		p.world.After(p.slow, p.wakeAll)
	}
	p.wakeEnded()
	if b.id != p.root {
		return
	}
	select {
	case <-p.Pod.Done():
		err := p.Pod.Err()
		p.world.note("ended", p.Name, fmt.Sprint(err))
		p.die(err)
	default:
	}
}

// watch notes that a coroutine wants to be resumed when a context ends.
func (p *Pod) watch(ctx context.Context, c *coroutine) {
	p.waiting = append(p.waiting, waiting{ctx: ctx, c: c})
}

func (p *Pod) wakeEnded() {
	kept := p.waiting[:0]
	for _, x := range p.waiting {
		switch {
		case x.c.ended:
		case x.ctx.Err() != nil:
			p.world.After(0, func() { p.run(x.c) })
		default:
			kept = append(kept, x)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
}

// unwatch forgets what watch noted.
func (p *Pod) unwatch(c *coroutine) {
	p.waiting = slices.DeleteFunc(p.waiting, func(x waiting) bool { return x.c == c })
}

func (p *Pod) buggify(site string) bool {
	_, ok := p.world.Happens(Buggify, p.Name+" "+site)
	return ok
}

// mayPanic is where an actor may fail.
func (s *Spot) mayPanic() {
	if _, ok := s.Hit(); ok {
		panic(errPlanned)
	}
}

// clock returns the pod's clock.
func (p *Pod) clock() clock.Clock { return podClock{p} }

// podClock is the world's time as a pod sees it.
type podClock struct{ pod *Pod }

// Now implements clock.Clock.
func (c podClock) Now() time.Time {
	now := c.pod.world.Now()
	return now.Add(c.pod.skew + time.Duration(c.pod.drift*float64(now.Sub(c.pod.began))))
}

// After implements clock.Clock. What becomes due while the pod is paused is
// late.
func (c podClock) After(d time.Duration, f func()) (stop func()) {
	p := c.pod
	var stopped atomic.Bool
	var fire func()
	fire = func() {
		switch {
		case p.dead || stopped.Load() || p.hold(fire):
		case p.blockedFor() > 0:
			p.late = append(p.late, fire)
		default:
			f()
		}
	}
	if p.drift != 0 { // never before its own clock says so
		d = time.Duration(float64(d)/(1+p.drift)) + time.Microsecond
	}
	forget := p.world.After(d, fire)
	return func() {
		stopped.Store(true)
		forget()
	}
}
