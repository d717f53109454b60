package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// peeksMax bounds how often a claim looks further because of what it may not
	// take: tenants are at their limit, or somebody holds what is next.
	peeksMax = 20
	// peekMost bounds how many places it looks at in one of them.
	peekMost = 50_000
	// aroundMost bounds how many places it looks at around what somebody holds, if
	// it does not look at everything: what others enqueue stands not far behind what
	// was granted last.
	aroundMost = 1000
	// aroundShare is in how many times as many places as it may take it looks first.
	aroundShare = 8
)

// choice is a claim that chooses places before it takes them: under a limit of
// running tasks per tenant, or around what somebody holds who was waited for in vain,
// none of which could be recorded.
type choice struct {
	s       *Store
	tx      pgx.Tx
	request persistence.ClaimRequest // of the next look
	queue   int16
	around  bool // what somebody holds
	need    int
	most    int // places looked at

	picked []int64
	rooms  map[int32]int  // of tenants met so far, under a limit
	closed map[int32]bool // tenants whose counters somebody holds
	passed int            // places of what somebody holds
}

// claimChosen claims what it has chosen. Who counts and grants tasks of a tenant
// under a limit holds its lock; a tenant whose lock somebody else holds is passed
// over this time.
func (s *Store) claimChosen(
	ctx context.Context, request persistence.ClaimRequest, queue int16, inline int, around bool,
) (out persistence.Claimed, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		c := &choice{
			s: s, tx: tx, request: request, queue: queue, around: around, need: request.Limit, most: math.MaxInt,
			picked: []int64{}, rooms: map[int32]int{}, closed: map[int32]bool{},
		}
		if around {
			c.request.Limit *= aroundShare
			if request.After > 0 {
				c.most = aroundMost
			}
		}
		if err := c.pick(ctx); err != nil {
			return err
		}
		var err error
		out, err = s.claim(ctx, tx, request, queue, c.picked, inline)
		out.Held = c.passed
		return err
	})
	return out, err
}

// pick chooses places in order, as many as there is need of.
func (c *choice) pick(ctx context.Context) error {
	for range peeksMax {
		rows, err := c.look(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		if c.request.TenantLimit > 0 {
			if err := c.s.meet(ctx, c.tx, rows, c.rooms, c.request.TenantLimit); err != nil {
				return err
			}
		}
		held, err := c.held(ctx, rows)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if _, is := held[row.run]; is || c.closed[groupOf(row)] {
				c.passed++
			} else if c.take(row); len(c.picked) == c.need {
				return nil
			}
		}
	}
	return nil
}

// look returns the next places.
func (c *choice) look(ctx context.Context) ([]peeked, error) {
	if c.most <= 0 {
		return nil, nil
	}
	statement := "peek_places"
	if c.request.TenantLimit > 0 {
		statement = "peek_ready"
	}
	c.request.Limit = min(c.request.Limit, c.most)
	rows, err := c.s.peek(ctx, c.tx, statement, c.request, c.queue, c.but())
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	c.most -= len(rows)
	c.request.After = rows[len(rows)-1].at + 1
	if c.around {
		c.request.Limit = min(4*c.request.Limit, peekMost)
	}
	return rows, nil
}

// held returns the runs, among those of rows, that somebody holds, and closes tenants.
func (c *choice) held(ctx context.Context, rows []peeked) (map[workflow.RunID]bool, error) {
	if !c.around {
		return nil, nil
	}
	ids := make(uuids, len(rows))
	for i, row := range rows {
		ids[i] = row.run
	}
	held, err := c.s.newPass(c.tx).knownHeld(ctx, ids)
	for _, row := range rows {
		if held[row.run] {
			c.closed[groupOf(row)] = true
		}
	}
	return held, err
}

// take chooses a place, if its tenant's limit and what was chosen before permit it.
func (c *choice) take(row peeked) {
	group := groupOf(row)
	if c.request.TenantLimit > 0 && c.rooms[group] <= 0 || row.suspect && !c.request.Suspects {
		return
	}
	c.picked = append(c.picked, row.at)
	if row.queued {
		c.rooms[group]--
		c.request.Suspects = c.request.Suspects && !row.suspect
	}
}

// but are the tenants that nothing more can be taken of: those at their limit, and those
// that are held, if all is looked at. Else these count as looked at.
func (c *choice) but() []int64 {
	var but []int64
	for group, closed := range c.closed {
		if closed && c.most > aroundMost {
			but = append(but, int64(group))
		}
	}
	for group, room := range c.rooms {
		if c.request.TenantLimit > 0 && room <= 0 {
			but = append(but, int64(group))
		}
	}
	return but
}

func groupOf(row peeked) int32 {
	group, _, _ := lifecycle.SplitFairID(row.at)
	return group
}
