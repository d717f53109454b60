package postgres

import (
	"context"
	"errors"
	"math"
	"slices"

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
	around  bool    // what somebody holds
	knew    []int64 // who does; the claim is void if one of them ends in its middle
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
	var knew []int64
	if around {
		knew = s.strained.known()
	}
	out, err = s.choose(ctx, request, queue, inline, around, knew)
	if errors.Is(err, errHoldOver) {
		out, err = s.choose(ctx, request, queue, inline, len(s.strained.known()) > 0, nil)
	}
	return out, err
}

// choose makes the claim, unless one of some holders ends in its middle.
func (s *Store) choose(
	ctx context.Context, request persistence.ClaimRequest, queue int16, inline int, around bool, knew []int64,
) (out persistence.Claimed, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		c := &choice{
			s: s, tx: tx, request: request, queue: queue, around: around, knew: knew, need: request.Limit, most: math.MaxInt,
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
		out.Held += c.passed
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
		if c.passed > 0 && c.ended() {
			return errHoldOver
		}
		open := slices.DeleteFunc(rows, func(row peeked) bool {
			_, is := held[row.task.Run]
			return is || c.closed[groupOf(row)]
		})
		c.passed += len(rows) - len(open)
		if err := c.takeFree(ctx, open); err != nil || len(c.picked) == c.need {
			return err
		}
	}
	return nil
}

// errHoldOver is why a claim is made again: what it has passed over comes first, and
// what stands behind that would move the frontier past everybody's places.
var errHoldOver = errors.New("nobody holds any more what was passed over")

// ended reports whether one of those who were known to hold something has ended:
// somebody has asked meanwhile.
func (c *choice) ended() bool {
	now := c.s.strained.known()
	return slices.ContainsFunc(c.knew, func(holder int64) bool { return !slices.Contains(now, holder) })
}

// takeFree chooses places whose tasks nobody else holds, in parts, since to look is to
// lock: as many as are missing, and more where all of a part was held.
func (c *choice) takeFree(ctx context.Context, rows []peeked) error {
	share := 1
	for len(rows) > 0 && len(c.picked) < c.need {
		var part []peeked
		most := share * (c.need - len(c.picked))
		at := 0
		for ; at < len(rows) && len(part) < most; at++ {
			if c.may(rows[at]) {
				part = append(part, rows[at])
			}
		}
		rows = rows[at:]
		barred, err := c.barred(ctx, part)
		if err != nil {
			return err
		}
		for _, row := range part {
			if barred[row.at] {
				c.passed++
			} else if len(c.picked) < c.need {
				c.take(row)
			}
		}
		if len(barred) == len(part) {
			share = min(aroundShare*share, peekMost)
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
	tasks := make(taskIDs, len(rows))
	for i, row := range rows {
		tasks[i] = row.task
	}
	held, err := c.s.knownHeld(ctx, c.tx, tasks)
	for _, row := range rows {
		if held[row.task.Run] {
			c.closed[groupOf(row)] = true
		}
	}
	return held, err
}

// barred returns the places of rows whose tasks somebody else holds, if the claim goes
// around these.
func (c *choice) barred(ctx context.Context, rows []peeked) (map[int64]bool, error) {
	if !c.around || len(rows) == 0 {
		return nil, nil
	}
	text, args := c.s.statements.bind("barred_places", named{"queue": c.queue, "places": placesOf(rows)})
	found, err := c.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	barred := map[int64]bool{}
	var at int64
	_, err = pgx.ForEachRow(found, []any{&at}, func() error {
		barred[at] = true
		return nil
	})
	return barred, err
}

// may reports whether a place's tenant's limit and what was chosen before permit to
// choose it.
func (c *choice) may(row peeked) bool {
	return (c.request.TenantLimit == 0 || c.rooms[groupOf(row)] > 0) && (!row.suspect || c.request.Suspects)
}

// take chooses a place, if that is permitted.
func (c *choice) take(row peeked) {
	if !c.may(row) {
		return
	}
	c.picked = append(c.picked, row.at)
	if row.queued {
		c.rooms[groupOf(row)]--
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
