package swarm

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/workflow"
)

// slot is a place of the deployment: there is one pod in it, most of the time.
type slot struct {
	seed     *seed
	name     string
	starts   int
	shapes   []*shape // what the next pod registers
	pod      *sim.Pod // nil: it is down
	stopping bool
	spared   bool // its stream, when it was last looked at
}

// start starts a pod.
func (c *slot) start() {
	s := c.seed
	if c.pod != nil {
		return
	}
	name := c.name
	if s.world.Visit(sim.PodRename, c.name) {
		name = fmt.Sprintf("%s-%d", c.name, c.starts)
	}
	c.starts++
	if c.starts > 1 {
		s.saw(SawRestart)
	}
	deployed := c.shapes
	if s.setting.partial && c == s.pods[0] && len(s.pods) > 1 && !s.healed {
		deployed = deployed[:known]
	}
	graphs := make([]*workflow.Graph, len(deployed))
	for i := range deployed {
		graphs[i] = deployed[i].graph
	}
	numbers, err := s.world.Store().RegisterDefinitions(s.ctx, graphs, []string{"default", "gpu"})
	if err != nil {
		s.world.Fail("setup", "register: %v", err)
		return
	}
	p := s.world.NewPod(name, c.ended)
	options := p.Host()
	options.Functions, options.Config = s.functions(p, deployed, numbers), s.setting.config(name)
	options.Evaluate = evaluator(deployed)
	c.pod, c.stopping = p, false
	if _, err := p.Start(s.ctx, options); err != nil {
		s.world.Fail("setup", "%v", err)
	}
	c.visit(p)
}

// visit sees once a second whether the pod is to be stopped.
func (c *slot) visit(p *sim.Pod) {
	if c.pod != p || c.stopping || c.seed.healed {
		return
	}
	if c.seed.world.Visit(sim.PodStop, c.name) {
		c.stop()
		return
	}
	c.seed.world.After(time.Second, func() { c.visit(p) })
}

// stop stops the pod in good order, or is about to.
func (c *slot) stop() {
	if c.pod == nil || c.stopping {
		return
	}
	c.stopping = true
	p := c.pod
	p.Pod.BeginStop()
	c.seed.oracle.book.stops[p.Number()] = c.seed.world.Now()
	c.seed.saw(SawStop)
	if d, ok := c.seed.world.Happens(sim.StopOverrun, c.name); ok {
		c.seed.world.After(d.Between(time.Millisecond, 10*time.Second), p.Crash)
	}
}

// deploy replaces the pod by one of the new version.
func (c *slot) deploy() {
	c.shapes = c.seed.new
	c.seed.saw(SawDeploy)
	c.stop()
}

// ended starts another pod after a while.
func (c *slot) ended(p *sim.Pod) {
	c.pod = nil
	c.seed.oracle.ended(p)
	if c.seed.healed {
		c.restart(time.Second)
		return
	}
	c.restart(time.Duration(100+c.seed.setting.random.IntN(15_000)) * time.Millisecond)
}

func (c *slot) restart(after time.Duration) {
	if c.pod == nil {
		c.seed.world.After(after, c.start)
	}
}

// anyPod returns a pod that is up, or nil.
func (s *seed) anyPod() *sim.Pod {
	first := s.setting.random.IntN(len(s.pods))
	for i := range s.pods {
		if c := s.pods[(first+i)%len(s.pods)]; c.pod != nil && c.pod.Pod != nil {
			return c.pod
		}
	}
	return nil
}
