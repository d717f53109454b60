package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// grantRows are the rows of load_grants, before names are put to numbers.
type grantRows struct {
	s      *Store
	claim  persistence.ClaimID
	inline int32 // the largest payload that is read with them
	rows   []grantRow
}

type grantRow struct {
	grant      persistence.Grant
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
	g.rows = g.rows[:0]
	var c attemptColumns
	targets := append(lead, c.targets()...)
	for rows.Next() {
		c.reset()
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		clear(targets[:len(lead)])
		if c.step != nil {
			g.rows = append(g.rows, c.row(g.inline))
		}
	}
	return rows.Err()
}

// attemptColumns are the targets of parts/attempt_columns.sql. They are null
// where a left join met nothing.
type attemptColumns struct {
	run, keyRun                    pgtype.UUID
	step, attempt, lost, handler   *int32
	definition, size               *int32
	epoch                          *int64
	queuedAt, startedAt, createdAt *time.Time
	tenant, trace                  *string
	labels, input, progress        []byte
	canceling, kept, suspect       *bool
	outcomes                       pgsql.Outcomes
}

func (c *attemptColumns) reset() { *c = attemptColumns{} }

func (c *attemptColumns) targets() []any {
	o := &c.outcomes
	return []any{
		&c.run, &c.step, &c.epoch, &c.attempt, &c.lost, &c.handler, &c.queuedAt, &c.startedAt, &c.definition, &c.tenant,
		&c.labels, &c.trace, &c.keyRun, &c.createdAt, &c.canceling, &c.kept, &c.suspect, &c.size, &c.input, &c.progress,
		&o.Steps, &o.States, &o.Sizes, &o.Outputs, &o.Classes, &o.Errors,
	}
}

func (c *attemptColumns) row(inline int32) grantRow {
	return grantRow{
		grant: persistence.Grant{
			Task: workflow.TaskID{Run: c.run.Bytes, Step: *c.step}, Epoch: *c.epoch, Attempt: *c.attempt + 1, Lost: *c.lost,
			Handler: *c.handler, QueuedAt: pgsql.OrZero(c.queuedAt), StartedAt: pgsql.OrZero(c.startedAt), TriggeredAt: pgsql.OrZero(c.createdAt),
			Tenant: *c.tenant, TraceContext: pgsql.OrZero(c.trace), Canceling: *c.canceling, Kept: *c.kept, Suspect: *c.suspect, KeyRun: c.keyRun.Bytes,
			Input: c.input, LargeInput: *c.size > inline, InputSize: int(max(*c.size, 0)), LastProgress: c.progress,
		},
		definition: *c.definition, labels: c.labels, outcomes: c.outcomes,
	}
}

// grants puts the rows together. on reads definitions that are not known yet. What is of
// another program whose definitions are gone stays with the claim, and is handed back when
// they are there again.
func (g *grantRows) grants(ctx context.Context, on pgsql.Querier) ([]persistence.Grant, error) {
	if len(g.rows) == 0 {
		return nil, nil
	}
	grants := make([]persistence.Grant, 0, len(g.rows))
	for i := range g.rows {
		row := &g.rows[i]
		d, err := g.s.knownOf(ctx, on, row.definition)
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		grants = append(grants, row.grant)
		grant := &grants[len(grants)-1]
		grant.Claim, grant.Workflow, grant.Step = g.claim, d.Graph.Name, d.Node(grant.Task.Step).Name
		if row.labels != nil {
			if err := json.Unmarshal(row.labels, &grant.Labels); err != nil {
				return nil, err
			}
		}
		if outcomes := row.outcomes.List(d.Graph); int(grant.Task.Step) == len(d.Graph.Nodes) {
			grant.Failed = outcomes
		} else {
			grant.Parents = outcomes
		}
		g.s.recent.Granted(grant, d)
	}
	return grants, nil
}
