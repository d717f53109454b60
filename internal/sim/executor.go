package sim

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/workflow"
)

// Execute runs one attempt of a pod. run calls deliver once; both may be used
// on any goroutine.
type Execute func(p *Pod, to *actors.PID, task workflow.TaskID, run func(deliver func(any)))

// executor is the actors.Executor of one incarnation of a pod.
type executor struct{ pod *Pod }

var _ actors.Executor = (*executor)(nil)

// errTimeout is the cause of a store call that took too long.
var errTimeout = errors.New("store call timed out")

// Call implements actors.Executor.
func (e *executor) Call(to *actors.PID, name string, timeout time.Duration, call func(ctx context.Context) any) {
	p := e.pod
	if p.closed {
		return
	}
	p.store.travel(name, timeout, call, func(message any) { p.world.system.Root.Send(to, message) })
}

// Execute implements actors.Executor.
func (e *executor) Execute(to *actors.PID, task workflow.TaskID, run func(deliver func(any))) {
	if execute := e.pod.world.options.Execute; execute != nil {
		execute(e.pod, to, task, run)
		return
	}
	p := e.pod
	c := begin(func(*coroutine) {
		run(func(message any) {
			if !p.dead {
				p.world.system.Root.Send(to, message)
			}
		})
	})
	p.coroutines[c] = struct{}{}
	p.world.After(0, func() { p.run(c) })
}

// Follow implements actors.Executor. Subscriptions of this world's adapters
// wait in their coroutine.
func (e *executor) Follow(to *actors.PID, _ string, loop func(ctx context.Context) any) (stop func()) {
	p := e.pod
	if p.closed {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := begin(func(*coroutine) {
		message := loop(ctx)
		if !p.dead {
			p.world.system.Root.Send(to, message)
		}
	})
	p.coroutines[c] = struct{}{}
	resume := func() { p.run(c) }
	p.world.After(0, resume)
	return func() {
		cancel()
		p.world.After(0, resume)
	}
}

// Yield implements actors.Executor.
func (e *executor) Yield(to *actors.PID, message any) {
	e.pod.world.After(0, func() {
		if !e.pod.dead {
			e.pod.world.system.Root.Send(to, message)
		}
	})
}

// Close implements actors.Executor.
func (e *executor) Close() { e.pod.closed = true }

// run resumes a coroutine of the pod, once the pod is not paused.
func (p *Pod) run(c *coroutine) {
	if p.dead || c.ended || p.hold(func() { p.run(c) }) {
		return
	}
	if p.blockedFor() > 0 {
		p.late = append(p.late, func() { p.run(c) })
		return
	}
	before := p.current
	p.current = c
	more := c.resume()
	p.current = before
	if !more {
		delete(p.coroutines, c)
	}
}

// Sleep makes the step function that calls it wait, as time passes on its
// pod's clock, and returns early with the cause when ctx ends. Step functions
// of worlds without goroutines wait by this and nothing else.
func (p *Pod) Sleep(ctx context.Context, d time.Duration) error {
	c := p.current
	passed := false
	stop := p.clock().After(d, func() {
		passed = true
		p.run(c)
	})
	defer stop()
	p.watch(ctx, c)
	defer p.unwatch(c)
	for !passed && ctx.Err() == nil {
		c.wait()
	}
	return context.Cause(ctx)
}
