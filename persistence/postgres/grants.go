package postgres

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/elements"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/machines"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/workflow"
)

// grantRows are the rows of load_grants, before names are put to numbers.
type grantRows struct {
	s      *Store
	claim  persistence.ClaimID
	inline int32 // the largest payload that is read with them
	most   *int  // rows, known once the first is read; nil: not even then
	list   []persistence.Grant
	rest   []grantRest // of each
}

// grantRest is what a row says in numbers, or by column.
type grantRest struct {
	definition int32
	labels     []byte
	outcomes   pgsql.Outcomes
}

// queueGrants adds the statement that loads what a claim still holds.
func (s *Store) queueGrants(b *pgsql.Batch, pod int64, claim persistence.ClaimID, inline int) *grantRows {
	g := &grantRows{s: s, claim: claim, inline: int32(inline)}
	args := pgsql.Named{"pod": pod, "claim": [16]byte(claim), "inline_max": inline}
	b.Add("load_grants", args).Query(func(rows pgx.Rows) error { return g.collect(rows) })
	return g
}

// collect reads one grant from each row, after the columns that lead has
// targets for, which are read from the first row only. Rows of a left join that
// met nothing are none.
func (g *grantRows) collect(rows pgx.Rows, lead ...any) error {
	defer rows.Close()
	g.list, g.rest = g.list[:0], g.rest[:0]
	var (
		t      persistence.Grant
		r      grantRest
		trace  pgtype.Text
		keyRun pgtype.UUID
		size   int32
		held   pgtype.Text
	)
	o := &r.outcomes
	targets := append(lead, (*[16]byte)(&t.Task.Run), &t.Task.Step, &t.Epoch, &t.Attempt, &t.Lost, &t.Handler, (*sessions.OptionalInstant)(&t.QueuedAt),
		(*sessions.OptionalInstant)(&t.StartedAt), &r.definition, &t.Tenant, &r.labels, &trace, &keyRun, (*sessions.OptionalInstant)(&t.BegunAt),
		&t.Canceling, &t.Kept, &t.Suspect, &size, &t.Input, &t.LastProgress, &o.Steps, &o.States, &o.Sizes, &o.Outputs, &o.Classes, &o.Errors, &held)
	for rows.Next() {
		met := rows.RawValues()[len(lead)] != nil
		if !met {
			clear(targets[len(lead):])
		}
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		clear(targets[:len(lead)])
		if !met {
			continue
		}
		if len(g.list) == 0 && g.most != nil {
			g.list, g.rest = slices.Grow(g.list, *g.most), slices.Grow(g.rest, *g.most)
		}
		t.Attempt++
		t.TraceContext, t.KeyRun, t.Options = trace.String, keyRun.Bytes, held.String
		t.LargeInput, t.InputSize = size > g.inline, int(max(size, 0))
		g.list, g.rest = append(g.list, t), append(g.rest, r)
	}
	return rows.Err()
}

// grants puts the rows together. on reads definitions that are not known yet. What is of
// another program whose definitions are gone stays with the claim, and is handed back when
// they are there again.
func (g *grantRows) grants(ctx context.Context, on pgsql.Querier) ([]persistence.Grant, error) {
	definitions := make([]*registry.Definition, len(g.rest))
	for i := range g.rest {
		var err error
		if definitions[i], err = g.s.knownOf(ctx, on, g.rest[i].definition); err != nil {
			return nil, err
		}
	}
	dynamic, err := g.dynamic(ctx, on, definitions)
	if err != nil {
		return nil, err
	}
	machine, err := g.machines(ctx, on, definitions)
	if err != nil {
		return nil, err
	}
	grants := g.list[:0]
	for i, d := range definitions {
		row := &g.rest[i]
		if d == nil {
			continue
		}
		grants = append(grants, g.list[i])
		grant := &grants[len(grants)-1]
		grant.Claim, grant.Workflow = g.claim, d.Graph.Name
		own := dynamic.Tasks[grant.Task.Run]
		switch at, there := own[grant.Task.Step]; {
		case there:
			grant.Declared, grant.Step, grant.Item = d.DeclaredAs(at), at.Name, dynamic.Items[grant.Task]
		case d.IsDynamic(grant.Task.Step): // it is in history by now
			grants = grants[:len(grants)-1]
			continue
		default:
			grant.Step = d.Node(grant.Task.Step).Name
		}
		if d.Graph.IsMachine() && grant.Task.Step == 0 {
			if grant.Machine = machine[grant.Task.Run]; grant.Machine == nil {
				grants = grants[:len(grants)-1] // the same
				continue
			}
		}
		if row.labels != nil {
			if err := json.Unmarshal(row.labels, &grant.Labels); err != nil {
				return nil, err
			}
		}
		if outcomes := row.outcomes.List(d.Graph, own); grant.Task.Step == d.Graph.Steps() {
			grant.Failed = outcomes
		} else {
			grant.Parents = outcomes
		}
		g.s.recent.Granted(grant, d)
	}
	return grants, nil
}

// machines reads what activations begin with that were granted. Most claims have none.
func (g *grantRows) machines(ctx context.Context, on pgsql.Querier, definitions []*registry.Definition) (machines.Loaded, error) {
	var runs []workflow.RunID
	for i, d := range definitions {
		if d != nil && g.list[i].Task.Step == 0 && d.Graph.IsMachine() {
			runs = append(runs, g.list[i].Task.Run)
		}
	}
	if len(runs) > 0 {
		resting := g.s.quarantine.Excluded().Runs
		runs = slices.DeleteFunc(runs, func(id workflow.RunID) bool { return slices.Contains(resting, id) })
	}
	return machines.Load(ctx, g.s.DB, on, runs, func(run workflow.RunID, err error) error {
		return g.s.quarantine.AddUnreadable(ctx, run, err)
	})
}

// dynamic reads what claims do not say of the dynamic tasks that were granted, or that failed
// and are told to a failure handler. Most claims have none.
func (g *grantRows) dynamic(ctx context.Context, on pgsql.Querier, definitions []*registry.Definition) (elements.Dynamic, error) {
	var tasks []workflow.TaskID
	for i, d := range definitions {
		if d == nil {
			continue
		}
		task := g.list[i].Task
		if d.IsDynamic(task.Step) {
			tasks = append(tasks, task)
		}
		for _, step := range g.rest[i].outcomes.Steps {
			if d.IsDynamic(step) {
				tasks = append(tasks, workflow.TaskID{Run: task.Run, Step: step})
			}
		}
	}
	if len(tasks) > 0 { // what cannot be read stays with a claim that is asked again
		resting := g.s.quarantine.Excluded().Runs
		tasks = slices.DeleteFunc(tasks, func(t workflow.TaskID) bool { return slices.Contains(resting, t.Run) })
	}
	return elements.LoadDynamic(ctx, g.s.DB, on, tasks, func(run workflow.RunID, err error) error {
		return g.s.quarantine.AddUnreadable(ctx, run, err)
	})
}
