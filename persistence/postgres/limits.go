package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// meet counts what the tenants of rows may still run, if they are new.
func (s *Store) meet(ctx context.Context, tx pgx.Tx, rows []peeked, rooms map[int32]int, limit int) error {
	var groups []int32
	for _, row := range rows {
		group := groupOf(row)
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
// transitions. Tenants whose lock another pod holds have none.
func (s *Store) rooms(
	ctx context.Context, tx pgx.Tx, groups []int32, without []persistence.Transition, limit int,
) (map[int32]int, error) {
	locks := make([]int64, len(groups))
	for i, group := range groups {
		locks[i] = s.LockKey("limit", strconv.Itoa(int(group)))
	}
	var runs pgsql.UUIDs
	steps := []int32{}
	for i := range without {
		runs, steps = append(runs, without[i].Task.Run), append(steps, without[i].Task.Step)
	}
	rooms := map[int32]int{}
	b := s.NewBatch()
	b.Add("try_groups", pgsql.Named{"locks": locks}).Query(func(rows pgx.Rows) error {
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
	b.Add("count_running", pgsql.Named{"groups": groups, "runs": pgsql.OrEmpty(runs), "steps": steps}).Query(func(rows pgx.Rows) error {
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
	return rooms, pgsql.Send(ctx, tx, b)
}
