package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// grantRows are the rows of load_grants, before names are put to numbers.
type grantRows struct {
	s     *Store
	claim persistence.ClaimID
	rows  []grantRow
}

type grantRow struct {
	grant      persistence.Grant
	definition int32
	labels     []byte
	outcomes   outcomeColumns
}

// outcomeColumns are the outcomes that an attempt gets to see, by column.
type outcomeColumns struct {
	steps, sizes    []int32
	states          []int16
	outputs         [][]byte
	classes, errors []*string
}

// queueGrants adds the statement that loads what a claim still holds.
func (s *Store) queueGrants(b *batch, pod int64, claim persistence.ClaimID) *grantRows {
	g := &grantRows{s: s, claim: claim}
	args := named{"pod": pod, "claim": [16]byte(claim), "inline_max": persistence.InlinePayloadMax}
	b.add("load_grants", args).Query(func(rows pgx.Rows) error {
		var err error
		g.rows, err = pgx.CollectRows(rows, scanGrant)
		return err
	})
	return g
}

func scanGrant(row pgx.CollectableRow) (grantRow, error) {
	var (
		r                   grantRow
		queuedAt, startedAt *time.Time
		trace               *string
		size                int32
	)
	g, o := &r.grant, &r.outcomes
	err := row.Scan((*[16]byte)(&g.Task.Run), &g.Task.Step, &g.Epoch, &g.Attempt, &g.Lost, &g.Handler, &queuedAt, &startedAt,
		&r.definition, &g.Tenant, &r.labels, &trace, &g.TriggeredAt, &g.Canceling, &size, &g.Input, &g.LastProgress,
		&o.steps, &o.states, &o.sizes, &o.outputs, &o.classes, &o.errors)
	g.Attempt++
	g.QueuedAt, g.StartedAt, g.TraceContext = orZero(queuedAt), orZero(startedAt), orZero(trace)
	g.LargeInput = size > persistence.InlinePayloadMax
	return r, err
}

// grants puts the rows together. on reads definitions that are not known yet.
func (g *grantRows) grants(ctx context.Context, on querier) ([]persistence.Grant, error) {
	if len(g.rows) == 0 {
		return nil, nil
	}
	grants := make([]persistence.Grant, len(g.rows))
	for i := range g.rows {
		row := &g.rows[i]
		d, err := g.s.definitionOf(ctx, on, row.definition)
		if err != nil {
			return nil, err
		}
		grant := &grants[i]
		*grant = row.grant
		grant.Claim, grant.Workflow, grant.Step = g.claim, d.graph.Name, d.node(grant.Task.Step).Name
		if row.labels != nil {
			if err := json.Unmarshal(row.labels, &grant.Labels); err != nil {
				return nil, err
			}
		}
		if outcomes := row.outcomes.list(d); int(grant.Task.Step) == len(d.graph.Nodes) {
			grant.Failed = outcomes
		} else {
			grant.Parents = outcomes
		}
	}
	return grants, nil
}

// list puts the columns together.
func (c *outcomeColumns) list(d *definition) []persistence.Outcome {
	if len(c.steps) == 0 {
		return nil
	}
	list := make([]persistence.Outcome, len(c.steps))
	for i, step := range c.steps {
		o := &list[i]
		o.Index, o.Step, o.State = step, d.node(step).Name, lifecycle.State(c.states[i])
		o.Size, o.Large = int(max(c.sizes[i], 0)), c.sizes[i] > persistence.InlinePayloadMax
		o.Output = c.outputs[i]
		if o.State == lifecycle.Failed {
			o.Class, o.Error = orZero(c.classes[i]), orZero(c.errors[i])
		}
	}
	return list
}
