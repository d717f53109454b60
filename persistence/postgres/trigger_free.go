package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
)

// triggerFree stores the triggers of tenants whose counters nobody else holds,
// and answers the others KeyBusy: they are asked again, and wait alone.
func (s *Store) triggerFree(
	ctx context.Context, triggers []persistence.Trigger, take persistence.Taking,
) (persistence.Triggers, error) {
	held, err := s.heldTenants(ctx, triggers)
	if err != nil {
		return persistence.Triggers{}, err
	}
	if len(held) == 0 {
		return s.triggerKnown(ctx, triggers, take)
	}
	s.strained.note()
	answers := make([]persistence.TriggerAnswer, len(triggers))
	var free []persistence.Trigger
	var at []int
	for _, unit := range units(triggers) {
		busy := false
		for _, i := range unit {
			busy = busy || held[s.catalog.tenantGroup(triggers[i].Tenant)]
		}
		for _, i := range unit {
			if busy {
				answers[i] = persistence.TriggerAnswer{Result: persistence.KeyBusy}
				continue
			}
			free, at = append(free, triggers[i]), append(at, i)
		}
	}
	var out persistence.Triggers
	if len(free) == 0 {
		err = retry(ctx, func(ctx context.Context) error { return s.readClock(ctx, s.pool, &out.Now) })
	} else {
		out, err = s.triggerKnown(ctx, free, take)
	}
	if err != nil {
		return persistence.Triggers{}, err
	}
	for i, answer := range out.Answers {
		answers[at[i]] = answer
	}
	out.Answers = answers
	return out, nil
}

// heldTenants returns the groups of the tenants of triggers whose counters
// somebody else holds.
func (s *Store) heldTenants(ctx context.Context, triggers []persistence.Trigger) (map[int32]bool, error) {
	groups := map[int32]bool{}
	for i := range triggers {
		if group := s.catalog.tenantGroup(triggers[i].Tenant); group != 0 {
			groups[group] = true
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	list := make([]int32, 0, len(groups))
	for group := range groups {
		list = append(list, group)
	}
	held := map[int32]bool{}
	text, args := s.statements.bind("find_held", named{"groups": list})
	err := retry(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		var group int32
		_, err = pgx.ForEachRow(rows, []any{&group}, func() error {
			held[group] = true
			return nil
		})
		return err
	})
	return held, err
}
