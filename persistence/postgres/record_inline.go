package postgres

import (
	"context"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/inline"
	"github.com/troupe-dev/troupe/workflow"
)

// grantReady grants what became ready in this pass to the pod of the record, as far as that has
// room for it and no other tenant waits. What is granted takes no place in a queue.
func (r *recording) grantReady(ctx context.Context, d *decided, indexes []int) error {
	if r.record.Limit == 0 || r.record.TenantLimit > 0 || len(d.enqueued) == 0 {
		return nil
	}
	g := inline.Grants{Record: &r.record, Freed: r.freed, Given: r.given, Back: map[workflow.TaskID]bool{}}
	for _, i := range indexes {
		switch t := &r.record.Transitions[i]; {
		case !t.Frees():
			g.Back[t.Task] = true
		case d.answers[i] == lifecycle.Moved:
			g.Freed++
		}
	}
	for _, name := range r.record.Queues {
		if number := r.s.Catalog.QueueNumber(name); number != 0 {
			g.Queues = append(g.Queues, number)
		}
	}
	ready := make([]inline.Ready, len(d.enqueued))
	for i, e := range d.enqueued {
		task := e.run.decided(e.step)
		ready[i] = inline.Ready{
			Task: workflow.TaskID{Run: e.run.id, Step: e.step}, Queue: e.queue, Group: e.run.group, Handler: e.handler, Suspect: e.suspect,
			InTurn: task.InTurn(),
		}
	}
	granted, err := g.Choose(ctx, r.s.DB, d.tx, r.s.emptyBelow, ready)
	if err != nil {
		return err
	}
	waits := d.enqueued[:0]
	for i, e := range d.enqueued {
		if granted[i] {
			d.claim.Add(ready[i].Task, e.run.grant(e.step, r.record.Pod, d))
		} else {
			waits = append(waits, e)
		}
	}
	d.enqueued, d.freed, d.given = waits, g.Freed, g.Given
	return nil
}

// grant gives a task that a decision has queued to a pod, and returns its epoch.
func (r *run) grant(step int32, pod int64, d *decided) int64 {
	for _, list := range [][]lifecycle.Task{r.decision.Tasks, r.decision.Created} {
		for i := range list {
			if list[i].Step != step {
				continue
			}
			task, event := lifecycle.Claim(list[i], pod, d.now)
			if list[i] = task; event.Kind != 0 {
				r.decision.Events = append(r.decision.Events, event)
			}
			if r.granted == nil {
				r.granted = map[int32]bool{}
			}
			r.granted[step] = true
			return task.Epoch
		}
	}
	return 0
}
