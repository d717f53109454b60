package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// grantRows are the rows of load_grants and load_outcomes, before names are
// put to numbers.
type grantRows struct {
	s        *Store
	claim    persistence.ClaimID
	rows     []grantRow
	outcomes []outcomeRow // in the order of rows
}

type grantRow struct {
	ord        int64 // place in the claim
	grant      persistence.Grant
	definition int32
	labels     []byte
}

type outcomeRow struct {
	ord     int64 // place in the claim of the task whose parent it is
	outcome persistence.Outcome
	failed  bool // not a parent: a failed step, for the failure handler
}

// queueGrants adds the statements that load what a claim still holds.
func (s *Store) queueGrants(b *batch, pod int64, claim persistence.ClaimID) *grantRows {
	g := &grantRows{s: s, claim: claim}
	args := named{"pod": pod, "claim": [16]byte(claim), "inline_max": persistence.InlinePayloadMax}
	b.add("load_grants", args).Query(func(rows pgx.Rows) error {
		var err error
		g.rows, err = pgx.CollectRows(rows, scanGrant)
		return err
	})
	b.add("load_outcomes", args).Query(func(rows pgx.Rows) error {
		var err error
		g.outcomes, err = pgx.CollectRows(rows, scanOutcome)
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
	g := &r.grant
	err := row.Scan(&r.ord, (*[16]byte)(&g.Task.Run), &g.Task.Step, &g.Epoch, &g.Attempt, &g.Lost, &g.Handler, &queuedAt, &startedAt,
		&r.definition, &g.Tenant, &r.labels, &trace, &g.TriggeredAt, &g.Canceling, &size, &g.Input, &g.LastProgress)
	g.Attempt++
	g.QueuedAt, g.StartedAt, g.TraceContext = orZero(queuedAt), orZero(startedAt), orZero(trace)
	g.LargeInput = size > persistence.InlinePayloadMax
	return r, err
}

func scanOutcome(row pgx.CollectableRow) (outcomeRow, error) {
	var (
		r           outcomeRow
		state       int16
		size        int32
		class, text *string
		nth         int64
	)
	o := &r.outcome
	err := row.Scan(&r.ord, &o.Index, &state, &size, &o.Output, &class, &text, &nth)
	o.State, o.Size, o.Large = lifecycle.State(state), int(max(size, 0)), size > persistence.InlinePayloadMax
	if o.State == lifecycle.Failed {
		o.Class, o.Error = orZero(class), orZero(text)
	}
	r.failed = nth == 0
	return r, err
}

// grants puts the rows together. on reads definitions that are not known yet.
func (g *grantRows) grants(ctx context.Context, on querier) ([]persistence.Grant, error) {
	if len(g.rows) == 0 {
		return nil, nil
	}
	grants := make([]persistence.Grant, len(g.rows))
	rest := g.outcomes
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
		rest = takeOutcomes(grant, row.ord, rest, d)
	}
	return grants, nil
}

// takeOutcomes moves the outcomes of a grant from the head of rest into it.
// Those of tasks that are no longer held are dropped on the way.
func takeOutcomes(grant *persistence.Grant, ord int64, rest []outcomeRow, d *definition) []outcomeRow {
	for len(rest) > 0 && rest[0].ord < ord {
		rest = rest[1:]
	}
	for len(rest) > 0 && rest[0].ord == ord {
		o := rest[0].outcome
		o.Step = d.node(o.Index).Name
		if rest[0].failed {
			grant.Failed = append(grant.Failed, o)
		} else {
			grant.Parents = append(grant.Parents, o)
		}
		rest = rest[1:]
	}
	return rest
}
