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
)

// choice is a claim that chooses places before it takes them: under a limit of
// running tasks per tenant, or around what somebody holds, none of which could be
// recorded.
type choice struct {
	s       *Store
	tx      pgx.Tx
	request persistence.ClaimRequest // of the next look
	queue   int16
	around  bool // what somebody holds
	need    int
	most    int // places looked at around it

	picked []int64
	rooms  map[int32]int // of tenants met so far, under a limit
	closed map[int32]bool
	passed int // places of what somebody holds
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
		if request.After > 0 {
			c.most = aroundMost
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
	if c.around {
		c.request.Limit *= freeShare
	}
	for range peeksMax {
		rows, more, err := c.look(ctx)
		if err != nil || !more {
			return err
		}
		if c.request.TenantLimit > 0 {
			if err := c.s.meet(ctx, c.tx, rows, c.rooms, c.request.TenantLimit); err != nil {
				return err
			}
		}
		for _, row := range rows {
			if c.take(row); len(c.picked) == c.need {
				return nil
			}
		}
	}
	return nil
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

// look returns the next places, those that somebody holds left out. There are no
// more if it has seen none.
func (c *choice) look(ctx context.Context) (rows []peeked, more bool, err error) {
	if c.most <= 0 {
		return nil, false, nil
	}
	statement := "peek_places"
	if c.request.TenantLimit > 0 {
		statement = "peek_ready"
	}
	rows, err = c.s.peek(ctx, c.tx, statement, c.request, c.queue, c.but())
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	seen := len(rows)
	all := rows
	if c.around {
		p := c.s.newPass(c.tx)
		rows, seen, err = firstFree(ctx, p, all, func(row peeked) workflow.RunID { return row.run }, c.need-len(c.picked))
		if err != nil {
			return nil, false, err
		}
		c.passed += seen - len(rows)
		c.most -= seen
		for _, row := range all[:seen] {
			c.closed[groupOf(row)] = c.closed[groupOf(row)] || p.held[row.run]
		}
		c.request.Limit = min(4*c.request.Limit, peekMost)
	}
	c.request.After = all[seen-1].at + 1
	return rows, true, nil
}

// but are the tenants that nothing more can be taken of.
func (c *choice) but() []int64 {
	var but []int64
	for group, closed := range c.closed {
		if closed {
			but = append(but, int64(group))
		}
	}
	for group, room := range c.rooms {
		if c.request.TenantLimit > 0 && room <= 0 && !c.closed[group] {
			but = append(but, int64(group))
		}
	}
	return but
}

func groupOf(row peeked) int32 {
	group, _, _ := lifecycle.SplitFairID(row.at)
	return group
}
