package postgres

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/family"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// queueFamily adds what was decided about child runs and parents.
func (p *decisionTx) queueFamily(b *pgsql.Batch) error {
	var writes family.Writes
	known := registry.Names{Definitions: map[workflow.Hash]*registry.Definition{}}
	for _, r := range p.runs {
		for _, step := range r.decision.Begun {
			c := r.begins[step]
			edges, err := encodeEdges(c.Edges)
			if err != nil {
				return err
			}
			known.Definitions[c.Definition] = c.of
			abandons := r.tasks[step].Traits.Has(workflow.TraitAbandons)
			writes.Begin(workflow.TaskID{Run: r.id, Step: step}, c.Child, c.of.Number, c.of.Graph.Sinks(), abandons, edges)
		}
		for _, step := range r.decision.Given {
			writes.Give(workflow.TaskID{Run: r.id, Step: step}, r.decided(step).State == lifecycle.Completed)
		}
		if parent := r.family.Parent.Run; r.decision.Ended && !parent.IsZero() {
			writes.TellParent(parent)
		}
		for _, step := range r.decision.Stopped {
			writes.TellChild(workflow.TaskID{Run: r.id, Step: step})
		}
	}
	if writes.Begins() {
		p.s.QueueMatch(b, known)
	}
	writes.Queue(b, p.now, func() { p.wake.Submitted = true })
	return nil
}

// hear reads what runs have not heard of their child runs and of their parents. cut are runs of
// which it did not read all.
func (d *delivery) hear(ctx context.Context, to map[workflow.RunID]time.Time) (cut map[workflow.RunID]bool, err error) {
	var asked family.Asked
	p := d.p
	for _, r := range p.runs {
		if _, is := to[r.id]; !is {
			continue
		}
		if r.group != 0 && r.definition.Graph.HasChildren() {
			asked.Waiting = append(asked.Waiting, r.id)
		}
		if of := r.family; !of.Parent.Run.IsZero() && !of.Abandons {
			asked.Child(r.id, of.Parent)
		}
	}
	d.related = asked.Any()
	news, err := family.Hear(ctx, p.s.DB, p.tx, &asked)
	for id, facts := range news.Facts {
		p.byID[id].heard = facts
	}
	p.left = union(p.left, news.Left)
	return news.Cut, err
}
