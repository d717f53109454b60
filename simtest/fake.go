package simtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
)

// ErrServiceFault is the error of a call of a [Service] that a fault hit. Like
// the errors of real services it does not tell whether the call took effect.
var ErrServiceFault = errors.New("no answer from the service")

// Service is the test's model of something outside of the cluster: a bank, a
// mail server. Its state survives the crashes of pods, and every call of it is
// a point at which things go wrong: it takes a while, it may fail before its
// effect or after it, and the pod may crash in between.
type Service[T any] struct {
	sim       *Sim
	name      string
	state     *T
	low, high time.Duration
}

// NewService makes a service of its state. A call takes 1 ms to 100 ms unless
// Latency says otherwise.
func NewService[T any](s *Sim, state *T) *Service[T] {
	name := reflect.TypeFor[T]().String()
	return &Service[T]{
		sim: s, name: strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]), state: state,
		low: time.Millisecond, high: 100 * time.Millisecond,
	}
}

// Latency sets how long a call takes: drawn between low and high, the order of
// magnitude first.
func (v *Service[T]) Latency(low, high time.Duration) *Service[T] {
	v.low, v.high = max(low, time.Microsecond), max(high, low)
	return v
}

// Do calls the service. effect is what it does to its state; it must not wait.
// Call it with the context of the step function. If the step's pod crashes
// meanwhile, Do does not return, and the effect may have happened or not. An
// error is effect's, ErrServiceFault, or why ctx has ended. After the last two it
// is unknown whether the effect happened.
func (v *Service[T]) Do(ctx context.Context, effect func(state *T) error) error {
	x := executionOf(ctx)
	if x == nil {
		return v.direct(effect)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	var answer error
	answered := make(chan struct{})
	call := &call{x: x, service: v.name, effect: func() error { return effect(v.state) }}
	v.sim.world.Enter("service "+x.about.AttemptID, func() {
		x.pod.After(0, func() {
			call.travel(v.delay(), v.delay(), func(err error) {
				answer = err
				close(answered)
			})
		})
	})
	select {
	case <-answered:
		if call.panicked != nil {
			panic(call.panicked)
		}
		return answer
	case <-x.pod.Pod.Done():
		runtime.Goexit()
	case <-v.sim.over:
		runtime.Goexit()
	case <-ctx.Done():
		if x.gone() {
			runtime.Goexit()
		}
	}
	return fmt.Errorf("%s: %w", v.name, context.Cause(ctx))
}

// direct is a call of the test itself, which nothing hits.
func (v *Service[T]) direct(effect func(state *T) error) (err error) {
	v.sim.visit("service", func(done func()) {
		err = effect(v.state)
		done()
	})
	return err
}

// delay draws half of a latency.
func (v *Service[T]) delay() time.Duration {
	span := math.Log(float64(v.high) / float64(v.low))
	return time.Duration(float64(v.low) * math.Exp(span*v.sim.random.Float64()) / 2)
}

// call is one call of a service by a step function.
type call struct {
	x        *execution
	service  string
	effect   func() error
	panicked any // what effect panicked with
}

// travel plays the way of a call to the service and back.
func (c *call) travel(out, back time.Duration, answer func(error)) {
	x, s := c.x, c.x.sim
	place := c.service + " " + x.step
	fails := s.world.Visit(sim.Class(ServiceFails), place)
	unsure := s.world.Visit(sim.Class(ServiceUnsure), place)
	lostWithPod := s.random.IntN(2) == 0
	s.world.After(out, func() {
		if !x.pod.Alive() && lostWithPod {
			return
		}
		err := fmt.Errorf("%s: %w", c.service, ErrServiceFault)
		if !fails {
			if done := c.carry(); !unsure {
				err = done
			}
		}
		x.pod.After(back, func() { answer(err) })
	})
}

// carry carries out the effect.
func (c *call) carry() (err error) {
	x := c.x
	defer func() {
		c.panicked = recover()
		text := c.service + " is called by " + x.name() + ", " + x.attempt()
		if err != nil {
			text += ": " + err.Error()
		} else {
			x.effects = append(x.effects, c.service)
		}
		x.sim.world.Note("service", x.pod.Name, text)
	}()
	return c.effect()
}
