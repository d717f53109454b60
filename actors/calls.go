package actors

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/internal/panics"
)

// base is what all actors but the run actors have: their environment and their address.
// A new incarnation has a new one.
type base struct {
	rt   *runtime
	self *PID
}

// happened tells an actor that a timer has fired or a store call has ended.
type happened struct {
	of   *base // of the incarnation that waits for it
	then func()
}

// handle acts on an event, unless it is a former incarnation's.
func (b *base) handle(m *happened) {
	if m.of == b {
		m.then()
	}
}

// later sets a timer.
func (b *base) later(d time.Duration, then func()) (stop func()) {
	return b.rt.after(d, b.self, &happened{of: b, then: then})
}

// timer is a timer that is replaced when it is set again.
type timer struct{ number int64 } // of the one that counts; 0: none

func (t *timer) isSet() bool { return t.number != 0 }

func (t *timer) clear() { t.number = 0 }

func (t *timer) set(b *base, d time.Duration, then func()) {
	number := b.rt.numbers.next()
	t.number = number
	b.later(d, func() {
		if t.number == number {
			t.number = 0
			then()
		}
	})
}

// call is a store call that an actor makes once at a time.
type call struct {
	number   int64 // of the one under way; 0: none
	failures int   // in a row
}

func (c *call) open() bool { return c.number != 0 }

// failed logs and counts the error of a call, and reports whether there was one. wait says
// when to call again.
func (c *call) failed(rt *runtime, name string, err error) (wait time.Duration, failed bool) {
	if err == nil {
		c.failures = 0
		return 0, false
	}
	c.failures++
	rt.storeFailed(name, err)
	return rt.retryDelay(c.failures), true
}

// ask makes a store call, through the pool. then acts on its result, on the goroutine of
// the actor. A panic of an adapter is an error of the call.
func ask[T any](b *base, c *call, name string, timeout time.Duration, do func(ctx context.Context) (T, error), then func(value T, err error)) {
	rt, number, asked := b.rt, b.rt.numbers.next(), b.rt.now()
	rt.vitals.with(func(v *vitals.Vitals) { v.Asked(number, name, asked) })
	carry(b, c, name, timeout, number, do, func(value T, err error) {
		var rejected error
		if part, is := any(value).(interface{ Refusal() error }); is {
			rejected = part.Refusal()
		}
		rt.vitals.with(func(v *vitals.Vitals) { v.CallEnded(number, name, asked, rt.now(), err, rejected) })
	}, then)
}

// askApart is ask for calls on connections of their own: their results say nothing about
// the pool.
func askApart[T any](b *base, c *call, name string, timeout time.Duration, do func(ctx context.Context) (T, error), then func(value T, err error)) {
	carry(b, c, name, timeout, b.rt.numbers.next(), do, func(T, error) {}, then)
}

func carry[T any](
	b *base, c *call, name string, timeout time.Duration, number int64,
	do func(ctx context.Context) (T, error), ended, then func(T, error),
) {
	c.number = number
	b.rt.executor.Call(b.self, name, timeout, func(ctx context.Context) any {
		value, err := contained(func() (T, error) { return do(ctx) })
		ended(value, err)
		return &happened{of: b, then: func() {
			if c.number == number {
				c.number = 0
				then(value, err)
			}
		}}
	})
}

// contained calls f and turns its panic into an error.
func contained[T any](f func() (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %s", panics.Text(r))
		}
	}()
	return f()
}

// containedLoop does the same for a subscription.
func containedLoop(loop func() error) error {
	_, err := contained(func() (none, error) { return none{}, loop() })
	return err
}

// asker is what questions of callers have in common: until when an answer is worth something.
type asker struct {
	deadline time.Time    // local; zero: none
	last     atomic.Value // of type struct{ error }: what the last call failed with
	gone     func() bool  // the caller has given up; nil: never
	taken    func() bool  // marks it as taken in, and reports whether it was before; nil: sent once
}

// left reports whether the caller has given up.
func (q *asker) left() bool { return q.gone != nil && q.gone() }

// late reports whether the deadline is over.
func (q *asker) late(now time.Time) bool { return !q.deadline.IsZero() && now.After(q.deadline) }

// again reports whether the question was taken in before.
func (q *asker) again() bool { return q.taken != nil && q.taken() }

// failed notes what a call failed with.
func (q *asker) failed(err error) { q.last.Store(struct{ error }{err}) }

// none is the result of a call that has none.
type none struct{}
