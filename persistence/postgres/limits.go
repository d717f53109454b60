package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// peeksMax bounds how often a claim under a limit per tenant looks further
// because tenants turned out to be at their limit.
const peeksMax = 20

// claimWithin claims under a limit of running tasks per tenant. Who counts and
// grants tasks of a tenant holds its lock; a tenant whose lock somebody else
// holds is passed over this time.
func (s *Store) claimWithin(
	ctx context.Context, request persistence.ClaimRequest, queue int16, inline int,
) (out persistence.Claimed, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		picked, err := s.pick(ctx, tx, request, queue)
		if err != nil {
			return err
		}
		out, err = s.claim(ctx, tx, request, queue, picked, inline)
		return err
	})
	return out, err
}

// pick chooses places in order, as many as the limits leave.
func (s *Store) pick(ctx context.Context, tx pgx.Tx, request persistence.ClaimRequest, queue int16) ([]int64, error) {
	picked := []int64{}
	rooms := map[int32]int{} // of tenants met so far
	full := []int64{}
	suspects, after := request.Suspects, request.After
	for range peeksMax {
		rows, err := s.peek(ctx, tx, request, queue, suspects, after, full)
		if err != nil || len(rows) == 0 {
			return picked, err
		}
		if err := s.meet(ctx, tx, rows, rooms, request.TenantLimit); err != nil {
			return nil, err
		}
		for _, row := range rows {
			after = row.place + 1
			group, _, _ := lifecycle.SplitFairID(row.place)
			if rooms[group] <= 0 || row.suspect && !suspects {
				continue
			}
			picked = append(picked, row.place)
			if row.queued {
				rooms[group]--
				suspects = suspects && !row.suspect
			}
			if len(picked) == request.Limit {
				return picked, nil
			}
		}
		full = full[:0]
		for group, room := range rooms {
			if room <= 0 {
				full = append(full, int64(group))
			}
		}
	}
	return picked, nil
}

type peeked struct {
	place   int64
	suspect bool
	queued  bool // else the claim discards it
}

func (s *Store) peek(
	ctx context.Context, tx pgx.Tx, request persistence.ClaimRequest, queue int16, suspects bool, after int64, full []int64,
) ([]peeked, error) {
	text, args := s.statements.bind("peek_ready", named{
		"queue": queue, "after": after, "handlers": orEmpty(request.Handlers), "suspects": suspects, "full": full,
		"limit": request.Limit, "skip": s.lost.list(),
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (peeked, error) {
		var p peeked
		err := row.Scan(&p.place, &p.suspect, &p.queued)
		return p, err
	})
}

// meet counts what the tenants of rows may still run, if they are new.
func (s *Store) meet(ctx context.Context, tx pgx.Tx, rows []peeked, rooms map[int32]int, limit int) error {
	var groups []int32
	for _, row := range rows {
		group, _, _ := lifecycle.SplitFairID(row.place)
		if _, ok := rooms[group]; !ok {
			rooms[group] = 0
			groups = append(groups, group)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	found, err := s.rooms(ctx, tx, groups, nil, limit)
	for group, room := range found {
		rooms[group] = room
	}
	return err
}

// rooms returns how many tasks more each tenant may run, apart from those of
// transitions. Tenants whose lock somebody else holds have none.
func (s *Store) rooms(
	ctx context.Context, tx pgx.Tx, groups []int32, without []persistence.Transition, limit int,
) (map[int32]int, error) {
	locks := make([]int64, len(groups))
	for i, group := range groups {
		locks[i] = s.lockKey("limit", strconv.Itoa(int(group)))
	}
	var runs uuids
	steps := []int32{}
	for i := range without {
		runs, steps = append(runs, without[i].Task.Run), append(steps, without[i].Task.Step)
	}
	rooms := map[int32]int{}
	b := s.newBatch()
	b.add("try_groups", named{"locks": locks}).Query(func(rows pgx.Rows) error {
		got, at := false, 0
		_, err := pgx.ForEachRow(rows, []any{&got}, func() error {
			if got {
				rooms[groups[at]] = limit
			}
			at++
			return nil
		})
		return err
	})
	b.add("count_running", named{"groups": groups, "runs": orEmpty(runs), "steps": steps}).Query(func(rows pgx.Rows) error {
		var group int32
		var running int
		_, err := pgx.ForEachRow(rows, []any{&group, &running}, func() error {
			if _, ok := rooms[group]; ok {
				rooms[group] = limit - running
			}
			return nil
		})
		return err
	})
	return rooms, send(ctx, tx, b)
}
