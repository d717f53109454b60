package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

const (
	lookEvery = 100 * time.Millisecond // until the kill, so that half-way is not missed
	showEvery = 200 * time.Millisecond // the display's pace
	stallMax  = 60 * time.Second       // without any task ending: something is stuck
	patience  = 3                      // looks at half-way in which no pod executes anything

	probeCount = 40
)

// play is the demo's middle: trigger, watch, kill, wait for the end.
type play struct {
	display  *display
	watcher  *watcher
	pods     troop
	packages []census.Package
	tenants  []tenantLine
	slots    int

	began        time.Time // the first trigger
	acknowledged []string  // ids of runs that a pod said are durable
	victim       string
	held         int
	killedAt     time.Time // by the database's clock
	killedAfter  time.Duration
	reign        reign // when it was killed
	next         reign // when all runs had ended
	took         time.Duration
	idleLooks    int
	counted      []moment // of the last seconds, for the rate
}

// moment is how many runs had ended at one time.
type moment struct {
	at    time.Duration
	ended int
}

func (p *play) perform(ctx context.Context) error {
	p.began = time.Now()
	if err := p.trigger(ctx); err != nil {
		return err
	}
	if err := p.watch(ctx); err != nil {
		return err
	}
	var err error
	if p.next, err = p.watcher.reign(ctx); err != nil {
		return err
	}
	pod, err := p.pods.alive()
	if err != nil {
		return err
	}
	_, err = pod.ask(ctx, request{Probes: probeCount})
	return err
}

// trigger starts all runs, the largest tenant's first, so that the others
// find a long queue. The pods take turns.
func (p *play) trigger(ctx context.Context) error {
	for i, tenant := range p.tenants {
		asked := request{Tenant: tenant.name}
		for _, pkg := range p.packages {
			if pkg.Tenant == tenant.name {
				asked.Packages = append(asked.Packages, pkg.Path)
			}
		}
		said, err := p.pods[i%len(p.pods)].ask(ctx, asked)
		p.acknowledged = append(p.acknowledged, said.Runs...)
		if err != nil {
			return err
		}
	}
	p.display.say("  %s runs for %d tenants are triggered after %s", grouped(len(p.acknowledged)), len(p.tenants), duration(time.Since(p.began)))
	return nil
}

// watch looks until every run has ended, and kills a pod on the way.
func (p *play) watch(ctx context.Context) error {
	var shown, moved time.Duration
	ended := -1
	for ticks := time.NewTicker(lookEvery); ; {
		seen, err := p.watcher.look(ctx)
		if err != nil {
			return err
		}
		if err := p.pods.crash(); err != nil {
			return err
		}
		elapsed := time.Since(p.began)
		if _, now := seen.tasks(); now != ended {
			ended, moved = now, elapsed
		}
		if elapsed-moved > stallMax {
			return fmt.Errorf("no task has ended for %v: %d of %d runs have", stallMax, seen.runsEnded(), len(p.packages))
		}
		if err := p.killHalfway(ctx, seen); err != nil {
			return err
		}
		over := seen.runsEnded() >= len(p.packages)
		if over || elapsed-shown >= showEvery {
			shown = elapsed
			p.display.show(p.snapshot(seen, elapsed))
		}
		if over {
			p.took = elapsed
			p.display.rest()
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
		if p.victim != "" {
			ticks.Reset(showEvery)
		}
	}
}

// killHalfway kills the busiest pod once half of the tasks have ended.
func (p *play) killHalfway(ctx context.Context, seen look) error {
	all, ended := seen.tasks()
	if p.victim != "" || ended*2 < all || len(seen.tenants) < len(p.tenants) {
		return nil
	}
	name := seen.busiest()
	if name == "" {
		if p.idleLooks++; p.idleLooks < patience {
			return nil
		}
		name = p.pods[len(p.pods)-1].name
	}
	victim := p.pods.named(name)
	if victim == nil {
		return errors.New("tasks are executed by " + name + ", which is not a pod of this demo")
	}
	var err error
	if p.reign, err = p.watcher.reign(ctx); err != nil {
		return err
	}
	if p.killedAt, err = p.watcher.now(ctx); err != nil {
		return err
	}
	if err := victim.kill(); err != nil {
		return err
	}
	p.victim, p.killedAfter = name, time.Since(p.began)
	after, err := p.watcher.look(ctx) // its lease is not over: what it held is still marked as running on it
	if err != nil {
		return err
	}
	p.held = after.running[name]
	p.display.say("  %s is killed (SIGKILL) after %s, while it executes %s", p.display.ink.bad(name), duration(p.killedAfter), output.Count(p.held, "task"))
	return nil
}

func (p *play) snapshot(seen look, elapsed time.Duration) snapshot {
	s := snapshot{
		elapsed: elapsed, slots: p.slots, done: seen.runsEnded(), total: len(p.packages),
		sleeping: seen.sleeping, lost: seen.lost, regained: seen.regained,
	}
	for _, tenant := range p.tenants {
		count := seen.tenants[tenant.name]
		tenant.done, tenant.failed = count.completed+count.failed, count.failed
		tenant.tasks, tenant.ended = count.tasks, count.ended
		s.tenants = append(s.tenants, tenant)
	}
	for _, pod := range p.pods {
		line := podLine{name: pod.name, running: seen.running[pod.name]}
		if pod.name == p.victim {
			line.killed = max(elapsed-p.killedAfter, 1)
		}
		s.pods = append(s.pods, line)
	}
	s.rate = p.rate(moment{elapsed, s.done})
	return s
}

// rate is how many runs ended per second, over the last two seconds.
func (p *play) rate(now moment) float64 {
	p.counted = append(p.counted, now)
	for len(p.counted) > 2 && now.at-p.counted[0].at > 2*time.Second {
		p.counted = p.counted[1:]
	}
	first := p.counted[0]
	if now.at == first.at {
		return 0
	}
	return float64(now.ended-first.ended) / (now.at - first.at).Seconds()
}
