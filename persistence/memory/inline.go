package memory

import (
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// inline grants what becomes ready to the pod whose record lets it.
type inline struct {
	b              *batch
	p              *pod
	record         *persistence.Record
	freed, granted int // slots that reports of the record leave; tasks that take them
}

// rule returns the rule for granting what has become ready; nil: none of it is granted. Where other
// tenants stand is seen as of before it gets places. back are tasks that the pod has handed back.
func (g *inline) rule(back map[workflow.TaskID]bool) func(e enqueued) bool {
	b, record := g.b, g.record
	if record.Limit <= 0 {
		return nil
	}
	handlers, queues := map[int32]bool{}, map[string]bool{}
	for _, h := range record.Handlers {
		handlers[h] = true
	}
	for _, name := range record.Queues {
		queues[name] = true
	}
	crowded, taken := map[place]bool{}, map[string]bool{}
	for _, e := range b.enqueued {
		at := place{e.run.queueOf(e.step), e.run.trigger.Tenant}
		taken[at.queue] = len(b.s.queue(at.queue).rows) > 0
		if _, ok := crowded[at]; !ok {
			crowded[at] = b.s.queue(at.queue).othersWait(b.s.tenants[at.tenant].group)
		}
	}
	return func(e enqueued) bool {
		at, task := place{e.run.queueOf(e.step), e.run.trigger.Tenant}, workflow.TaskID{Run: e.run.id(), Step: e.step}
		waits := crowded[at] || taken[at.queue] && e.run.task(e.step).InTurn()
		if g.granted >= record.Limit || !queues[at.queue] || e.suspect || back[task] ||
			!handlers[e.run.handler(e.step)] || b.s.full(at.tenant, record.TenantLimit) ||
			!lifecycle.MayInline(g.granted, g.freed+record.Spare, waits) {
			return true
		}
		g.granted++
		b.grant(g.p, record.Claim, task)
		return false
	}
}
