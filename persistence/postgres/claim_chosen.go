package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// scansMax bounds how often a claim looks further because of what it may not take.
	scansMax = 20
	// scanMax bounds how many places it looks at in one of them.
	scanMax = 50_000
	// scanLimit bounds how many places a claim looks at while rows are locked.
	scanLimit = 1000
	// scanFactor is by how much the part grows that a claim looks at, where all were locked.
	scanFactor = 8
)

// choice is a claim that chooses places before it takes them: under a limit of running
// tasks per tenant, or without what rests or is locked.
type choice struct {
	s       *Store
	tx      pgx.Tx
	request persistence.ClaimRequest // of the next scan
	queue   int16
	without quarantine.Exclusions
	locks   bool // may be in the way: they are looked for
	need    int
	most    int // places to be looked at
	share   int // how many of them are looked at in one look for locks, as a multiple of what is missing

	picked []int64
	rooms  map[int32]int // of tenants met so far, under a limit
	left   bool          // something was left out that may be claimed later
}

// claimChosen claims what it has chosen. A pod that counts and grants tasks of a tenant
// under a limit holds the tenant's lock; a tenant whose lock another pod holds is passed
// over this time. Tenants rest only while others have ready work: otherwise only their
// locked runs do.
func (s *Store) claimChosen(
	ctx context.Context, request persistence.ClaimRequest, queue int16, inline int, without quarantine.Exclusions, locks bool,
) (out persistence.Claimed, left bool, err error) {
	err = pgx.BeginFunc(ctx, s.Conns, func(tx pgx.Tx) error {
		c := &choice{
			s: s, tx: tx, request: request, queue: queue, without: without, locks: locks, need: request.Limit, most: math.MaxInt,
			picked: []int64{}, rooms: map[int32]int{}, share: 1,
		}
		if locks {
			c.most = scanLimit
		}
		begin := c.request
		err := c.pick(ctx)
		if err == nil && len(c.picked) == 0 && len(without.Tenants) > 0 {
			c.request, c.without.Tenants, c.most = begin, nil, scanLimit
			err = c.pick(ctx)
		}
		if err != nil {
			return err
		}
		left = c.left || locks && len(c.picked) < c.need // other pods may be looking at the rest
		out, _, err = s.claim(ctx, tx, request, queue, c.picked, inline)
		return err
	})
	return out, left, err
}

// pick chooses places in order, as many as there is need of.
func (c *choice) pick(ctx context.Context) error {
	for range scansMax {
		rows, err := c.scan(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		if c.request.TenantLimit > 0 {
			if err := c.s.meet(ctx, c.tx, rows, c.rooms, c.request.TenantLimit); err != nil {
				return err
			}
		}
		if err := c.take(ctx, rows); err != nil || len(c.picked) == c.need {
			return err
		}
	}
	return nil
}

// scan returns the next places.
func (c *choice) scan(ctx context.Context) ([]peeked, error) {
	if c.most <= 0 {
		c.left = true
		return nil, nil
	}
	statement := "peek_places"
	if c.request.TenantLimit > 0 {
		statement = "peek_ready"
	}
	c.request.Limit = min(c.request.Limit, c.most)
	rows, err := c.s.peek(ctx, c.tx, statement, c.request, c.queue, c.but(), c.without)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	c.most -= len(rows)
	c.request.After = rows[len(rows)-1].at + 1
	if c.locks {
		c.request.Limit = min(4*c.request.Limit, scanMax)
	}
	return rows, nil
}

// take chooses places, in parts, since to look for locks is to lock: as many as are
// missing, and more each time that some of a part were locked.
func (c *choice) take(ctx context.Context, rows []peeked) error {
	for len(rows) > 0 && len(c.picked) < c.need {
		var part []peeked
		at, most := 0, c.share*(c.need-len(c.picked))
		for ; at < len(rows) && len(part) < most; at++ {
			if c.may(rows[at]) {
				part = append(part, rows[at])
			}
		}
		rows = rows[at:]
		locked, err := c.locked(ctx, part)
		if err != nil {
			return err
		}
		for _, row := range part {
			if !locked[row.task.Run] && len(c.picked) < c.need && c.may(row) {
				c.picked = append(c.picked, row.at)
				if row.queued {
					c.rooms[groupOf(row)]--
					c.request.Suspects = c.request.Suspects && !row.suspect
				}
			}
		}
		if len(locked) > 0 {
			c.share = min(scanFactor*c.share, scanMax)
		}
	}
	return nil
}

// locked returns the runs of places that are locked, which rest from now on.
func (c *choice) locked(ctx context.Context, rows []peeked) (map[workflow.RunID]bool, error) {
	if !c.locks || len(rows) == 0 {
		return nil, nil
	}
	tasks := make(taskIDs, len(rows))
	for i, row := range rows {
		tasks[i] = row.task
	}
	found, err := c.s.quarantine.LookAt(ctx, c.tx, tasks)
	if err != nil {
		return nil, err
	}
	locked := c.s.quarantine.Rest(found)
	c.left = c.left || len(locked) > 0
	return locked, nil
}

// may reports whether a place's tenant's limit and what was chosen before permit to
// choose it.
func (c *choice) may(row peeked) bool {
	return (c.request.TenantLimit == 0 || c.rooms[groupOf(row)] > 0) && (!row.suspect || c.request.Suspects)
}

// but are the tenants that nothing more can be taken of: those that rest, and those at
// their limit.
func (c *choice) but() []int64 {
	but := slices.Clone(c.without.Tenants)
	for group, room := range c.rooms {
		if c.request.TenantLimit > 0 && room <= 0 {
			but = append(but, int64(group))
		}
	}
	return but
}

// findUnreadable finds the runs that cannot be read among what is next, which rest from
// now on. Where there are none, cause is returned: what all claims need cannot be read.
func (s *Store) findUnreadable(ctx context.Context, request persistence.ClaimRequest, queue int16, cause error) error {
	var granted bool
	text, args := s.Bind("find_claim", pgsql.Named{"pod": request.Pod, "claim": [16]byte(request.Claim)})
	if err := s.Conns.QueryRow(ctx, text, args...).Scan(&granted); err != nil || granted {
		return cause
	}
	for range scansMax {
		var rows []peeked
		err := s.Try(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			rows, err = s.peek(ctx, tx, "peek_places", request, queue, nil, s.quarantine.Excluded())
			return err
		})
		if err != nil || len(rows) == 0 {
			return cause
		}
		found := 0
		err = pgsql.Bisect(rows, func(rows []peeked) error {
			return s.Try(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, _, err := s.claim(ctx, tx, request, queue, placesOf(rows), persistence.InlinePayloadMax)
				return err
			})
		}, pgerr.Unreadable, func(row peeked, err error) error {
			if !s.quarantine.Damaged(ctx, row.task.Run) {
				return err
			}
			found++
			return s.quarantine.AddUnreadable(ctx, row.task.Run, err)
		})
		if err != nil || found > 0 {
			return err
		}
		request.After = rows[len(rows)-1].at + 1
	}
	return cause
}

const (
	// shiftMax is how many tasks of a tenant are placed anew in one transaction, and
	// shiftFor for how long one claim does that.
	shiftMax = 5000
	shiftFor = time.Second
)

// placeBacklogs places the tasks of tenants that have rested behind what was served
// meanwhile: otherwise they would come before all tasks of others.
func (s *Store) placeBacklogs(ctx context.Context) {
	begun := clock.System{}.Now()
	for _, group := range s.quarantine.RestedTenants() {
		moved, err := shiftMax, error(nil)
		for moved >= shiftMax && err == nil && (clock.System{}).Now().Sub(begun) < shiftFor {
			moved, err = s.shiftBacklog(ctx, group)
		}
		if errors.Is(err, pgerr.ErrLockTimeout) { // its counters are locked
			s.quarantine.AddCounters([]int32{group})
			continue
		}
		s.quarantine.Placed(group, err == nil && moved < shiftMax) // after an error the next claim continues
	}
}

func (s *Store) shiftBacklog(ctx context.Context, group int32) (moved int, err error) {
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.Conns, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, quarantine.SkipPatience); err != nil {
				return err
			}
			if err := s.Exec(ctx, tx, "lock_counters", pgsql.Named{"group": group}); err != nil {
				return err
			}
			text, args := s.Bind("shift_backlog", pgsql.Named{"group": group, "limit": shiftMax})
			return tx.QueryRow(ctx, text, args...).Scan(&moved)
		})
	})
	return moved, err
}

// askForDefinitions asks whether definitions that were missing are there again.
func (s *Store) askForDefinitions(ctx context.Context) {
	if over := s.quarantine.RestedDefinitions(); len(over) > 0 {
		if there, err := s.LoadDefinitions(ctx, s.Conns, over, nil); err == nil {
			s.quarantine.RemoveDefinitions(there)
		}
	}
}
