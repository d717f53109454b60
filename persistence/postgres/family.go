package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/readers"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// queueFamily adds what was decided about child runs and parents.
func (p *decisionTx) queueFamily(b *pgsql.Batch) error {
	if err := p.queueBegun(b); err != nil {
		return err
	}
	var given, told pgsql.UUIDs
	var steps, toldSteps []int32
	var done []bool // the step has completed
	for _, r := range p.runs {
		for _, step := range r.decision.Given {
			given, steps, done = append(given, r.id), append(steps, step), append(done, r.decided(step).State == lifecycle.Completed)
		}
		if parent := r.family.Parent.Run; r.decision.Ended && !parent.IsZero() {
			told, toldSteps = append(told, parent), append(toldSteps, lifecycle.RunStep)
		}
		for _, step := range r.decision.Stopped {
			told, toldSteps = append(told, r.id), append(toldSteps, step)
		}
	}
	if len(given) > 0 {
		b.Add("give_outputs", pgsql.Named{"runs": given, "steps": steps, "done": done})
	}
	if len(told) > 0 {
		b.Add("tell_family", pgsql.Named{"runs": told, "steps": toldSteps}).QueryRow(func(row pgx.Row) error {
			var count int
			err := row.Scan(&count)
			p.wake.Submitted = p.wake.Submitted || count > 0
			return err
		})
	}
	return nil
}

// queueBegun adds the rows of child runs that begin.
func (p *decisionTx) queueBegun(b *pgsql.Batch) error {
	var (
		ids, runs, keys               pgsql.UUIDs
		steps, definitions, remaining []int32
		abandoned                     []bool
		traces                        []string
		inputs, edges                 [][]byte
	)
	known := registry.Names{Definitions: map[workflow.Hash]*registry.Definition{}}
	for _, r := range p.runs {
		for _, step := range r.decision.Begun {
			c := r.begins[step]
			encoded, err := encodeEdges(c.Edges)
			if err != nil {
				return err
			}
			known.Definitions[c.Definition] = c.of
			ids, runs, keys = append(ids, c.Run), append(runs, r.id), append(keys, c.KeyRun)
			steps, definitions, remaining = append(steps, step), append(definitions, c.of.Number), append(remaining, c.of.Graph.Sinks())
			abandoned = append(abandoned, r.tasks[step].Traits.Has(workflow.TraitAbandons))
			traces, inputs, edges = append(traces, c.TraceContext), append(inputs, c.Input), append(edges, encoded)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	p.s.QueueMatch(b, known)
	b.Add("insert_children", pgsql.Named{
		"ids": ids, "runs": runs, "steps": steps, "definitions": definitions, "remaining": remaining, "key_runs": keys,
		"abandoned": abandoned, "traces": traces, "inputs": inputs, "edges": edges, "origin": persistence.OriginChild,
		"now": pgsql.Instant(p.now),
	})
	p.wake.Submitted = true
	return nil
}

// hearMax bounds the child runs of which one transaction tells their parents: it copies as many
// outputs.
const hearMax = 1000

// hear reads what runs have not heard of their child runs and of their parents. It locks none of
// these. cut are runs of which it did not read all.
func (p *decisionTx) hear(ctx context.Context, to map[workflow.RunID]time.Time) (cut map[workflow.RunID]bool, err error) {
	var runs, children, parents pgsql.UUIDs
	var steps []int32
	for _, r := range p.runs {
		if _, is := to[r.id]; !is {
			continue
		}
		if r.group != 0 && r.definition.Graph.HasChildren() {
			runs = append(runs, r.id)
		}
		if of := r.family; !of.Parent.Run.IsZero() && !of.Abandons {
			children, parents, steps = append(children, r.id), append(parents, of.Parent.Run), append(steps, of.Parent.Step)
		}
	}
	if len(runs)+len(children) == 0 {
		return nil, nil
	}
	text, args := p.s.Bind("load_family", pgsql.Named{
		"runs": pgsql.OrEmpty(runs), "children": pgsql.OrEmpty(children), "parents": pgsql.OrEmpty(parents), "steps": pgsql.OrEmpty(steps), "most": hearMax,
	})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	var news []childNews
	var one childNews
	var child pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&one.task.Run), &one.task.Step, &child}, func() error {
		one.child = child.Bytes
		news = append(news, one)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(news) == hearMax { // those of the last run and of the runs behind it may not be all
		last := one.task.Run
		cut = map[workflow.RunID]bool{}
		for _, id := range slices.Concat(runs, children) {
			if bytes.Compare(id[:], last[:]) >= 0 {
				cut[id] = true
			}
		}
	}
	return cut, p.note(ctx, news)
}

// childNews is that the child run of a step has ended or is gone; or of lifecycle.RunStep, that
// the step which began the run does not wait for it.
type childNews struct {
	task  workflow.TaskID
	child workflow.RunID
}

// note makes facts of news.
func (p *decisionTx) note(ctx context.Context, news []childNews) error {
	var ids pgsql.UUIDs
	for _, n := range news {
		if n.task.Step >= 0 {
			ids = append(ids, n.child)
		}
	}
	ended := map[workflow.RunID]*persistence.RunRow{}
	if len(ids) > 0 {
		rows, err := readers.RunRows(ctx, p.s.DB, p.tx, pgsql.Named{"runs": ids, "outputs": false, "tenant": nil})
		if err != nil {
			return err
		}
		for i := range rows {
			ended[rows[i].ID] = &rows[i]
		}
	}
	for _, n := range news {
		if n.task.Step < 0 {
			continue
		}
		r, row := p.byID[n.task.Run], ended[n.child]
		if row != nil && row.Workflow == "" { // its definition is gone: whether it has an output is not known
			p.left[r.id] = true
			continue
		}
		fact := lifecycle.ChildEnded{Step: n.task.Step, Run: n.child.String()}
		if row != nil {
			fact.State, fact.Failed, fact.Class, fact.Error = row.State, row.FailedStep, row.Class, row.Error
			switch {
			case row.State == lifecycle.Canceled:
				fact.Error = row.CancelReason
			case row.State == lifecycle.Completed && !row.HasOutput:
				fact = lifecycle.ChildEnded{Step: fact.Step, Run: fact.Run, State: lifecycle.Skipped}
			}
		}
		r.heard = append(r.heard, fact)
	}
	for _, n := range news {
		if n.task.Step < 0 {
			r := p.byID[n.task.Run]
			r.heard = append(r.heard, persistence.ParentCanceled())
		}
	}
	return nil
}
