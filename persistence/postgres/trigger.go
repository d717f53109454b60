package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
)

// TriggerRuns implements persistence.Intake.
func (s *Store) TriggerRuns(
	ctx context.Context, triggers []persistence.Trigger, take persistence.GrantRequest,
) (persistence.Triggers, error) {
	if len(triggers) > persistence.TriggerBatchMax {
		return persistence.Triggers{}, fmt.Errorf("trigger %d runs: at most %d in one batch",
			len(triggers), persistence.TriggerBatchMax)
	}
	out, err := s.triggerFree(ctx, triggers, take)
	if !errors.Is(err, pgerr.ErrLockTimeout) {
		return out, err
	}
	s.quarantine.LockTimeout(ctx)
	groups, err := s.groupsOfTriggers(ctx, triggers)
	if err == nil {
		err = s.quarantine.FindLockedTenants(ctx, groups)
	}
	if err != nil {
		return persistence.Triggers{}, err
	}
	return s.triggerFree(ctx, triggers, take)
}

// triggerFree stores the triggers of tenants whose counters are not locked, and answers
// the others KeyBusy: they are asked again.
func (s *Store) triggerFree(
	ctx context.Context, triggers []persistence.Trigger, take persistence.GrantRequest,
) (persistence.Triggers, error) {
	resting, err := s.restingTenants(ctx, triggers)
	if err != nil {
		return persistence.Triggers{}, err
	}
	if len(resting) == 0 {
		return s.triggerKnown(ctx, triggers, take)
	}
	answers := make([]persistence.TriggerAnswer, len(triggers))
	var free []persistence.Trigger
	var at []int
	for _, unit := range units(triggers) {
		busy := slices.ContainsFunc(unit, func(i int) bool { return resting[s.Catalog.TenantGroup(triggers[i].Tenant)] })
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
		err = pgerr.Retry(ctx, func(ctx context.Context) error { return s.ReadClock(ctx, s.Conns, &out.Now) })
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

// restingTenants returns the groups of the tenants of triggers that rest because their
// counters are locked.
func (s *Store) restingTenants(ctx context.Context, triggers []persistence.Trigger) (map[int32]bool, error) {
	if !s.quarantine.AnyCounters() {
		return nil, nil
	}
	groups, err := s.groupsOfTriggers(ctx, triggers)
	if err != nil {
		return nil, err
	}
	resting, over := s.quarantine.LockedCounters(groups)
	if len(over) > 0 {
		if err := s.quarantine.FindLockedTenants(ctx, over); err != nil {
			return nil, err
		}
		resting, _ = s.quarantine.LockedCounters(groups)
	}
	return resting, nil
}

// groupsOfTriggers returns the groups of the tenants of triggers, as far as they have one.
func (s *Store) groupsOfTriggers(ctx context.Context, triggers []persistence.Trigger) (groups []int32, err error) {
	var unknown []string
	for i := range triggers {
		if tenant := triggers[i].Tenant; s.Catalog.TenantGroup(tenant) == 0 && !slices.Contains(unknown, tenant) {
			unknown = append(unknown, tenant)
		}
	}
	if len(unknown) > 0 {
		if _, err := s.findTenants(ctx, unknown); err != nil {
			return nil, err
		}
	}
	for i := range triggers {
		if group := s.Catalog.TenantGroup(triggers[i].Tenant); group != 0 && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups, nil
}

// triggerKnown registers again what the database has lost.
func (s *Store) triggerKnown(
	ctx context.Context, triggers []persistence.Trigger, take persistence.GrantRequest,
) (out persistence.Triggers, err error) {
	err = s.WithRegistry(ctx, func() error {
		out, err = s.triggerRuns(ctx, triggers, take)
		return err
	})
	if err == nil {
		s.claims.Granted(take.Pod, take.Claim, out.Grants)
	}
	return out, err
}

func (s *Store) triggerRuns(
	ctx context.Context, triggers []persistence.Trigger, take persistence.GrantRequest,
) (persistence.Triggers, error) {
	out := triggered{Triggers: persistence.Triggers{Answers: make([]persistence.TriggerAnswer, len(triggers))}}
	known, err := s.knowNames(ctx, triggers)
	if err != nil {
		return persistence.Triggers{}, err
	}
	done, err := s.triggerFast(ctx, &out.Triggers, triggers, known, take)
	if err != nil {
		return persistence.Triggers{}, err
	}
	if done {
		return out.Triggers, nil
	}
	if err := s.triggerUnits(ctx, &out, triggers, known, units(triggers)); err != nil {
		return persistence.Triggers{}, err
	}
	out.Wake.Ready = sumReady(out.Wake.Ready)
	if out.again || slices.ContainsFunc(out.Answers, existing) {
		if err := s.Exec(ctx, s.Conns, "confirm_visible", pgsql.Named{}); err != nil {
			return persistence.Triggers{}, pgerr.Translate(err)
		}
	}
	if out.again && take.Limit > 0 {
		err = inlining(func(limit int) error {
			out.Grants, err = s.loadGrants(ctx, s.Conns, take.Pod, take.Claim, limit)
			return err
		})
	}
	return out.Triggers, err
}

func existing(a persistence.TriggerAnswer) bool { return a.Result == persistence.Existing }

// units returns the indexes of the triggers that are stored all or none, in
// the order of their first members.
func units(triggers []persistence.Trigger) [][]int {
	list, each := make([][]int, 0, len(triggers)), make([]int, len(triggers))
	groups := map[int]int{}
	for i := range triggers {
		g := triggers[i].Group
		if at, ok := groups[g]; ok && g != 0 {
			list[at] = append(list[at], i)
			continue
		}
		groups[g], each[i] = len(list), i
		list = append(list, each[i:i+1:i+1])
	}
	return list
}

// triggerUnits stores units in one transaction, or, where the database refuses a value, in
// several, without the unit that has it.
func (s *Store) triggerUnits(
	ctx context.Context, out *triggered, triggers []persistence.Trigger, known registry.Names, parts [][]int,
) error {
	return pgsql.Bisect(parts, func(parts [][]int) error {
		var t *triggering
		err := s.WriteShort(ctx, func(ctx context.Context, tx pgx.Tx) error {
			t = newTriggering(s, tx, triggers, known)
			return t.store(ctx, parts)
		})
		if err == nil {
			s.Catalog.KeepTenants(t.found.tenants)
			err = t.answerPost(ctx)
			t.answer(out, parts)
		}
		return err
	}, badRow, func(unit []int, _ error) error {
		for _, i := range unit {
			out.Answers[i] = persistence.TriggerAnswer{Result: persistence.GroupRefused}
		}
		return s.blame(ctx, out, triggers, known, unit)
	})
}

func badRow(err error) bool { return errors.Is(err, persistence.ErrBadRow) }

// blame finds which triggers of a refused unit hold the values that the
// database refuses.
func (s *Store) blame(
	ctx context.Context, out *triggered, triggers []persistence.Trigger, known registry.Names, unit []int,
) error {
	try := func(triggers []persistence.Trigger, unit []int) error {
		return s.Try(ctx, func(ctx context.Context, tx pgx.Tx) error {
			t := newTriggering(s, tx, triggers, known)
			err := t.store(ctx, [][]int{unit})
			out.Now = t.now
			return err
		})
	}
	return pgsql.Bisect(unit, func(unit []int) error { return try(triggers, unit) }, badRow, func(i int, err error) error {
		again := func() error { return try(triggers, []int{i}) }
		if other := pgerr.Blamed(err, try(bare(triggers, i), []int{i}), again); other != nil {
			return other
		}
		out.Answers[i] = persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}
		return s.ReadClock(ctx, s.Conns, &out.Now)
	})
}

// bare returns the triggers with one of them without the values that a database
// may refuse.
func bare(triggers []persistence.Trigger, i int) []persistence.Trigger {
	out := slices.Clone(triggers)
	out[i].Input, out[i].Labels, out[i].TraceContext = []byte{}, nil, ""
	if signal := out[i].Signal; signal != nil {
		plain := *signal
		plain.Payload = nil
		out[i].Signal = &plain
	}
	return out
}

// sumReady adds up the parts of a batch that was divided.
func sumReady(parts []persistence.Ready) []persistence.Ready {
	var sum []persistence.Ready
	at := map[string]int{}
	for _, r := range parts {
		i, ok := at[r.Queue]
		if !ok {
			at[r.Queue] = len(sum)
			sum = append(sum, r)
			continue
		}
		sum[i].Count += r.Count
	}
	return sortReady(sum)
}

// triggerFast stores a batch in one statement if all of it is plain: no keys,
// no instants, no conditions on the input, nothing to refuse, run ids made just
// now, and tenants that have triggered before. It reports whether it did; nothing is stored otherwise.
func (s *Store) triggerFast(
	ctx context.Context, out *persistence.Triggers, triggers []persistence.Trigger, known registry.Names, take persistence.GrantRequest,
) (done bool, err error) {
	f := newFastTrigger(s, known, len(triggers))
	for i := range triggers {
		if !f.takes(&triggers[i]) {
			return false, nil
		}
	}
	if len(triggers) == 0 {
		return false, nil
	}
	if known, err := f.meetTenants(ctx, triggers); err != nil || !known {
		return false, err
	}
	for _, i := range slices.Concat(units(triggers)...) {
		if err := f.add(&triggers[i]); err != nil {
			return false, err
		}
	}
	if stored, decided, err := f.triggerSingle(ctx, out, triggers, take); decided {
		return stored, err
	}
	args := f.named(take)
	var now time.Time
	var count, taken int
	var heads adaptive.Looked
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		text, values := s.Bind("trigger_fast", args)
		err := s.Conns.QueryRow(ctx, text, values...).Scan(&now, &count, &taken, &heads.Queues, &heads.After, &heads.Until)
		if pgerr.HasCode(err, pgerr.CodeUniqueViolation) {
			count = 0 // some exist: a batch that is repeated
			return nil
		}
		return err
	})
	switch {
	case errors.Is(err, persistence.ErrBadRow), errors.Is(err, pgerr.ErrSchemaRefuses):
		return false, nil // to be blamed on one of them, or a queue has lost its frontier
	case err != nil:
		return false, err
	case count == 0:
		s.Catalog.ForgetTenants(f.members)
		return false, nil
	}
	s.emptyBelow.Note(heads)
	if taken > 0 {
		out.Grants = f.grants(f.roots[:taken], take.Claim, now)
		f.roots = f.roots[taken:] // no claim can have those
	}
	return true, f.answer(ctx, out, triggers, now)
}
