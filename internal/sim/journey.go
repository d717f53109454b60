package sim

import (
	"context"
	"time"
)

// journey is how one call of a pod gets to the database and back.
type journey struct {
	out, back   time.Duration
	fate        fate
	late        bool          // committed after the caller has given up
	extra       time.Duration // so much later
	lostWithPod bool          // if the pod crashes on the way, it never arrives
}

// fate is what becomes of a call.
type fate uint8

const (
	fateNone     fate = iota
	fateLost          // it never arrives; the caller knows nothing
	fateAnswer        // it is carried out; the caller knows nothing
	fateConflict      // it is rolled back, and the caller knows
	fateTimeout       // the caller has given up
)

// storeTimeout is the timeout of calls that do not name one.
const storeTimeout = 30 * time.Second

// sessionCall reports whether a call is made on a session of its own. That ends
// when a call on it is given up: nothing is committed afterwards.
func sessionCall(name string) bool {
	return name == "campaign" || name == "ping" || name == "resign" || name == "notify"
}

// journey draws what happens to a call. An idle database on the same network
// answers within a millisecond.
func (s *store) journey(name string, timeout time.Duration) journey {
	d := s.database
	w, place := d.world, s.pod.Name+" "+name
	s.calls[name]++
	h := mix(mix(w.seed, hashText(hashStart, place)), s.calls[name])
	j := journey{
		out:         100*time.Microsecond + time.Duration(h%400)*time.Microsecond,
		back:        50*time.Microsecond + time.Duration(h>>32%200)*time.Microsecond,
		lostWithPod: h>>60&1 == 0,
	}
	s.delay(&j, name, timeout)
	away := s.away(name)
	if away && s.awayMute { // a proxy that comes back resets what it finds
		j.out = min(timeout, s.awayUntil.Sub(w.Now()))
	}
	if draw, ok := w.Happens(StoreDown, "database"); ok {
		d.outage(draw.Between(100*time.Millisecond, 40*time.Second))
	}
	d.block()
	switch {
	case away && (!s.awayMute || j.out < timeout), w.Visit(StoreLost, place):
		j.fate = fateLost
	case w.Visit(StoreConflict, place):
		j.fate = fateConflict
	case w.Visit(StoreAnswer, place):
		j.fate = fateAnswer
	}
	if draw, ok := w.Happens(StoreLate, place); ok && !sessionCall(name) {
		j.late, j.extra = true, draw.Between(time.Millisecond, 30*time.Second)
	}
	if j.out+j.back >= timeout {
		j.out, j.back, j.extra = timeout, 0, time.Duration(h>>40%5000)*time.Millisecond
		if j.late = h>>61&1 == 0 && !sessionCall(name); !j.late {
			j.fate = fateTimeout
		}
	}
	return j
}

// delay draws how slow a journey is.
func (s *store) delay(j *journey, name string, timeout time.Duration) {
	w, place := s.database.world, s.pod.Name+" "+name
	if draw, ok := w.Happens(StorePool, s.pod.Name); ok {
		s.busyUntil = w.Now().Add(draw.Between(100*time.Millisecond, 20*time.Second))
	}
	j.out += max(s.busyUntil.Sub(w.Now()), 0)
	if draw, ok := w.Happens(StoreSlow, place); ok {
		slow := draw.Between(10*time.Millisecond, 20*time.Second)
		if draw.Chance(0.5) { // committed at once, and heard of late
			j.back += slow
		} else {
			j.out += slow
		}
	}
	if w.Visit(StoreFrozen, place) {
		j.out = timeout
	}
}

// away draws whether the proxy of the pod's pool is gone, and reports whether a
// call goes there.
func (s *store) away(name string) bool {
	w := s.database.world
	if draw, ok := w.Happens(StoreAway, s.pod.Name); ok {
		s.awayUntil, s.awayMute = w.Now().Add(draw.Between(100*time.Millisecond, 40*time.Second)), draw.Chance(0.5)
	}
	past := name == "renew_pod" || sessionCall(name) && name != "notify"
	return !past && !w.Healed() && s.awayUntil.After(w.Now())
}

// outage drops all connections, and lets none be made for a while.
func (d *database) outage(lasts time.Duration) {
	until := d.world.Now().Add(lasts)
	if until.After(d.downUntil) {
		d.downUntil = until
	}
	d.world.note("outage", "database", lasts.String())
	d.world.bus.cutAll()
}

// down reports whether the database refuses connections.
func (d *database) down() bool { return d.downUntil.After(d.world.Now()) }

// carry carries a call out at this instant, with a fate.
func (s *store) carry(f fate, call func() any) any {
	if s.database.down() && (f == fateNone || f == fateAnswer) {
		f = fateLost
	}
	before := s.fate
	s.fate = f
	defer func() { s.fate = before }()
	return call()
}

// travel plays a call's way to the database and back. answer gets what call
// returned, unless the pod has crashed.
func (s *store) travel(name string, timeout time.Duration, call func(ctx context.Context) any, answer func(any)) {
	w, p := s.database.world, s.pod
	j := s.journey(name, timeout)
	reply := func(message any) {
		if !p.dead {
			answer(message)
		}
	}
	w.After(j.out, func() {
		if p.dead && j.lostWithPod {
			return
		}
		live := func() any { return call(context.Background()) }
		if j.late { // the caller gives up, the database does not
			w.After(j.back, func() { reply(s.carry(fateTimeout, func() any { return call(timedOut()) })) })
			w.After(j.back+j.extra, func() { s.carry(fateNone, live) })
			return
		}
		message := s.carry(j.fate, live)
		w.After(j.back, func() { reply(message) })
	})
}

// timedOut returns the context of a call that took too long.
func timedOut() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errTimeout)
	return ctx
}

// await lets a call travel that a step function waits for.
func await[T any](ctx context.Context, p *Pod, name string, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	carried := func(context.Context) any {
		value, err := call()
		return result{value, err}
	}
	if c := p.current; c != nil {
		var got *result
		p.store.travel(name, storeTimeout, carried, func(message any) {
			r := message.(result) //nolint:errcheck // carried returns nothing else
			got = &r
			p.run(c)
		})
		for got == nil {
			c.wait()
		}
		return got.value, got.err
	}
	answers := make(chan result, 1)
	p.world.arrive(arrival{pod: p, run: func() {
		p.store.travel(name, storeTimeout, carried, func(message any) {
			answers <- message.(result) //nolint:errcheck // carried returns nothing else
		})
	}})
	select {
	case r := <-answers:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, errGivenUp
	}
}
