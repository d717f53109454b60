package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
)

// TriggerRuns implements persistence.Intake.
func (s *Store) TriggerRuns(
	ctx context.Context, triggers []persistence.Trigger, take persistence.Taking,
) (persistence.Triggers, error) {
	if len(triggers) > persistence.TriggerBatchMax {
		return persistence.Triggers{}, fmt.Errorf("trigger %d runs: at most %d in one batch",
			len(triggers), persistence.TriggerBatchMax)
	}
	var out persistence.Triggers
	var err error
	mode := s.locking(ctx)
	if mode == lockWaiting {
		out, err = s.triggerKnown(ctx, triggers, take)
	} else {
		out, err = s.triggerFree(ctx, triggers, take, mode)
	}
	if errors.Is(err, errLockTimeout) && mode != lockStrict {
		s.strained.note(ctx)
		return s.triggerFree(ctx, triggers, take, lockStrict)
	}
	return out, err
}

// triggerKnown registers again what the database has lost.
func (s *Store) triggerKnown(
	ctx context.Context, triggers []persistence.Trigger, take persistence.Taking,
) (out persistence.Triggers, err error) {
	err = s.knowing(ctx, func() error {
		out, err = s.triggerRuns(ctx, triggers, take)
		return err
	})
	return out, err
}

func (s *Store) triggerRuns(
	ctx context.Context, triggers []persistence.Trigger, take persistence.Taking,
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
		if err := s.exec(ctx, s.pool, "confirm_visible", named{}); err != nil {
			return persistence.Triggers{}, translate(err)
		}
	}
	if out.again && take.Limit > 0 {
		err = inlining(func(limit int) error {
			out.Grants, err = s.loadGrants(ctx, s.pool, take.Pod, take.Claim, limit)
			return err
		})
	}
	return out.Triggers, err
}

func existing(a persistence.TriggerAnswer) bool { return a.Result == persistence.Existing }

// triggered is the answer to a batch.
type triggered struct {
	persistence.Triggers
	again bool // some of its runs were stored before
}

// units returns the indexes of the triggers that are stored all or none, in
// the order of their first members.
func units(triggers []persistence.Trigger) [][]int {
	var list [][]int
	groups := map[int]int{}
	for i := range triggers {
		g := triggers[i].Group
		if at, ok := groups[g]; ok && g != 0 {
			list[at] = append(list[at], i)
			continue
		}
		groups[g] = len(list)
		list = append(list, []int{i})
	}
	return list
}

// triggerUnits stores units in one transaction. If the database refuses a
// value, it does so in halves until the culprit is alone.
func (s *Store) triggerUnits(
	ctx context.Context, out *triggered, triggers []persistence.Trigger, known names, parts [][]int,
) error {
	var t *triggering
	err := s.writeShort(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t = newTriggering(s, tx, triggers, known)
		return t.store(ctx, parts)
	})
	switch {
	case err == nil:
		s.catalog.keepTenants(t.found.tenants)
		t.answer(out, parts)
		return nil
	case !errors.Is(err, persistence.ErrBadRow):
		return err
	case len(parts) > 1:
		half := len(parts) / 2
		if err := s.triggerUnits(ctx, out, triggers, known, parts[:half]); err != nil {
			return err
		}
		return s.triggerUnits(ctx, out, triggers, known, parts[half:])
	}
	for _, i := range parts[0] {
		out.Answers[i] = persistence.TriggerAnswer{Result: persistence.GroupRefused}
	}
	return s.blame(ctx, out, triggers, known, parts[0])
}

// errTrial ends a transaction that only tried.
var errTrial = errors.New("only a trial")

// blame finds which triggers of a refused unit hold the values that the
// database refuses.
func (s *Store) blame(
	ctx context.Context, out *triggered, triggers []persistence.Trigger, known names, unit []int,
) error {
	err := s.tryUnit(ctx, out, triggers, known, unit)
	switch {
	case errors.Is(err, errTrial):
		return nil
	case !errors.Is(err, persistence.ErrBadRow):
		return err
	case len(unit) == 1:
		again := func() error { return s.tryUnit(ctx, out, triggers, known, unit) }
		if other := blamed(err, s.tryUnit(ctx, out, bare(triggers, unit[0]), known, unit), again); other != nil {
			return other
		}
		out.Answers[unit[0]] = persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}
		return s.readClock(ctx, s.pool, &out.Now)
	}
	half := len(unit) / 2
	if err := s.blame(ctx, out, triggers, known, unit[:half]); err != nil {
		return err
	}
	return s.blame(ctx, out, triggers, known, unit[half:])
}

// tryUnit stores triggers in a transaction that is rolled back: errTrial.
func (s *Store) tryUnit(
	ctx context.Context, out *triggered, triggers []persistence.Trigger, known names, unit []int,
) error {
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t := newTriggering(s, tx, triggers, known)
		if err := t.store(ctx, [][]int{unit}); err != nil {
			return err
		}
		out.Now = t.now
		return errTrial
	})
}

// bare returns the triggers with one of them without the values that a database
// may refuse.
func bare(triggers []persistence.Trigger, i int) []persistence.Trigger {
	out := slices.Clone(triggers)
	out[i].Input, out[i].Labels, out[i].TraceContext = []byte{}, nil, ""
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
