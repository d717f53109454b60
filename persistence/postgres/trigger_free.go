package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
)

// triggerFree stores the triggers of tenants whose counters nobody else holds,
// and answers the others KeyBusy: they are asked again, and wait alone.
func (s *Store) triggerFree(
	ctx context.Context, triggers []persistence.Trigger, take persistence.Taking, mode locking,
) (persistence.Triggers, error) {
	held, err := s.heldTenants(ctx, triggers, mode)
	if err == nil && len(held) > 0 && mode == lockStrict { // what is merely busy is so for moments
		held, err = s.stillHeld(ctx, held)
	}
	if err != nil {
		return persistence.Triggers{}, err
	}
	if len(held) == 0 {
		return s.triggerKnown(ctx, triggers, take)
	}
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
// somebody else holds, as far as the mode asks.
func (s *Store) heldTenants(ctx context.Context, triggers []persistence.Trigger, mode locking) (map[int32]bool, error) {
	groups := map[int32]bool{}
	if err := s.knowTenants(ctx, triggers); err != nil {
		return nil, err
	}
	for i := range triggers {
		if group := s.catalog.tenantGroup(triggers[i].Tenant); group != 0 {
			groups[group] = true
		}
	}
	if mode == lockStrict {
		return s.findHeld(ctx, groups, false)
	}
	suspected, err := s.suspectedTenants(ctx, s.pool, slices.Collect(maps.Keys(groups)))
	if err != nil {
		return nil, err
	}
	return s.findHeld(ctx, suspected, false)
}

// suspectedTenants returns the groups in whose counters those stand who are known to hold
// something.
func (s *Store) suspectedTenants(ctx context.Context, on querier, groups []int32) (map[int32]bool, error) {
	held := map[int32]bool{}
	text, args := s.statements.bind("known_held_tenants", named{"groups": orEmpty(groups), "holders": s.strained.known(), "before": s.strained.before()})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, translate(err)
	}
	var group int32
	_, err = pgx.ForEachRow(rows, []any{&group}, func() error {
		held[group] = true
		return nil
	})
	return held, translate(err)
}

// knowTenants finds the groups of the tenants of triggers that this store has not
// met yet.
func (s *Store) knowTenants(ctx context.Context, triggers []persistence.Trigger) error {
	var strangers []string
	for i := range triggers {
		if tenant := triggers[i].Tenant; s.catalog.tenantGroup(tenant) == 0 && !slices.Contains(strangers, tenant) {
			strangers = append(strangers, tenant)
		}
	}
	if len(strangers) == 0 {
		return nil
	}
	_, err := s.findTenants(ctx, strangers)
	return err
}

// heldPause is how long somebody holds a row at least who does not just use it.
const heldPause = 100 * time.Millisecond

// stillHeld looks a second time.
func (s *Store) stillHeld(ctx context.Context, groups map[int32]bool) (map[int32]bool, error) {
	if !(clock.System{}).Pause(ctx, heldPause) {
		return nil, translate(ctx.Err())
	}
	return s.findHeld(ctx, groups, true)
}

// findHeld returns the groups in whose counters somebody else holds a row now, and
// remembers who does if the look is strict.
func (s *Store) findHeld(ctx context.Context, groups map[int32]bool, strict bool) (map[int32]bool, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	held := map[int32]bool{}
	text, args := s.statements.bind("find_held", named{"groups": slices.Collect(maps.Keys(groups))})
	err := retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, text, args...)
			if err != nil {
				return err
			}
			clear(held)
			var group int32
			if err := s.heldRows(rows, &group, strict, func() { held[group] = true }); err != nil {
				return err
			}
			return errTrial // what it locked was not to be kept
		})
	})
	if errors.Is(err, errTrial) {
		err = nil
	}
	return held, err
}
