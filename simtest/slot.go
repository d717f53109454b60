package simtest

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/host"
	"github.com/troupe-dev/troupe/internal/sim"
)

// slot is a place of the deployment: there is one pod in it, most of the time.
type slot struct {
	sim      *Sim
	name     string
	version  []registration
	pod      *sim.Pod // nil: it is down
	engine   *troupe.Engine
	handles  map[string]any // of the engine, by the name of the workflow
	kill     context.CancelCauseFunc
	stopping bool
}

// errPodCrashed is the cause of the end of an attempt's context.
var errPodCrashed = errors.New("the pod has crashed")

// begin starts the pods, once.
func (s *Sim) begin() {
	switch {
	case s.declaring != nil:
		s.Fatalf("the function that Deploy calls may only register workflows")
	case s.begun.Load():
		return
	}
	for i := range s.options.Pods {
		s.slots = append(s.slots, &slot{sim: s, name: podName(i), version: s.version})
	}
	s.begun.Store(true)
	s.visit("begin", func(done func()) {
		for _, c := range s.slots {
			c.start()
		}
		for step := range s.unused {
			s.world.Fail("the cluster starts", "the stub of %s is for no step: none has this name", step)
		}
		done()
	})
}

// start starts a pod. It is an event of the world.
func (c *slot) start() {
	s := c.sim
	if c.pod != nil || s.world.Violation() != nil {
		return
	}
	p := s.world.NewPod(c.name, c.ended)
	life, kill := context.WithCancelCause(context.Background())
	engine, err := troupe.NewOn(host.Host{Store: s.world.Model(), Launch: func(ctx context.Context, own actors.Options) (*actors.Pod, error) {
		options, joined := p.Host(), own.Joined
		options.Functions, options.Evaluate, options.Config = s.functions(p, own.Functions), own.Evaluate, own.Config
		options.Log, options.Metrics, options.Lifetime = own.Log, own.Metrics, life
		told := options.Joined
		options.Joined = func(number int64) { told(number); joined(number) }
		return p.Start(ctx, options)
	}}, s.config(c.name))
	c.pod, c.engine, c.kill, c.handles, c.stopping = p, engine, kill, map[string]any{}, false
	for _, register := range c.version {
		if err == nil {
			err = register(engine, c.handles)
		}
	}
	if err == nil {
		err = engine.Start(context.Background())
	}
	if err != nil {
		kill(err)
		s.world.Fail("the cluster starts", "%v", err)
		return
	}
	c.mayStop(p)
}

// mayStop lets the simulation stop the pod, once a second.
func (c *slot) mayStop(p *sim.Pod) {
	if c.pod != p || c.stopping || c.sim.world.Healed() {
		return
	}
	if c.sim.world.Visit(sim.PodStop, c.name) {
		c.stop()
		return
	}
	p.After(time.Second, func() { c.mayStop(p) })
}

// stop stops the pod in good order.
func (c *slot) stop() {
	if c.pod == nil || c.stopping {
		return
	}
	c.stopping = true
	c.sim.world.Note("stop", c.name, "")
	c.pod.Pod.BeginStop()
}

// ended starts another pod after a while.
func (c *slot) ended(*sim.Pod) {
	c.pod = nil
	c.kill(errPodCrashed)
	wait := time.Duration(100+c.sim.random.IntN(15_000)) * time.Millisecond
	if c.sim.world.Healed() {
		wait = time.Second
	}
	c.sim.world.After(wait, c.start)
}

// Deploy replaces the pods, one after another, by pods that know what register
// registers, and nothing else: another version of the workflows. It returns at
// once; runs that were triggered continue. register calls [Register] only.
func (s *Sim) Deploy(register func()) {
	s.begin()
	var version []registration
	s.declaring = &version
	register()
	s.declaring = nil
	s.visit("deploy", func(done func()) {
		for i, c := range s.slots {
			c.version = version
			s.world.After(time.Duration(i)*2*time.Second, func() {
				s.thaw()
				c.stop()
			})
		}
		done()
	})
}
