package postgres

import (
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// queueDead adds the dead letters of what failed for good.
func (p *decisionTx) queueDead(b *pgsql.Batch) {
	var (
		ids                   pgsql.UUIDs
		steps, attempts, lost []int32
		reasons               []int16
		classes, errors       []string
		handled               []bool
	)
	for _, r := range p.runs {
		for _, death := range r.decision.Dead {
			if !death.Reason.Counts(p.s.deadReasons) {
				continue
			}
			t := r.decided(death.Step)
			ids, steps, reasons = append(ids, r.id), append(steps, t.Step), append(reasons, int16(death.Reason))
			attempts, lost = append(attempts, t.Attempt), append(lost, t.Lost)
			classes, errors = append(classes, t.Class), append(errors, t.Error)
			handled = append(handled, death.Handled)
		}
	}
	if len(ids) > 0 {
		b.Add("insert_dead_letters", pgsql.Named{
			"runs": ids, "steps": steps, "reasons": reasons, "attempts": attempts, "lost": lost, "classes": classes,
			"errors": errors, "handled": handled, "now": pgsql.Instant(p.now),
		})
	}
}

// noteFailed adds what failed for good to the wake.
func (p *decisionTx) noteFailed(r *run) {
	for _, death := range r.decision.Dead {
		t := r.decided(death.Step)
		p.wake.Failed = append(p.wake.Failed, persistence.FailedTask{
			Task: workflow.TaskID{Run: r.id, Step: t.Step}, Workflow: r.definition.Graph.Name, Step: r.nameOf(t.Step),
			Tenant: r.tenant, Attempt: t.Attempt, Lost: t.Lost, Class: t.Class, Error: t.Error,
		})
	}
}
