package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RecordTransitions implements persistence.Journal. Plain successes take the
// fast path; what it leaves is decided by lifecycle in a second transaction.
func (s *Store) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	if len(record.Transitions) > persistence.RecordBatchMax {
		return persistence.Recorded{}, fmt.Errorf("record %d transitions: at most %d in one batch",
			len(record.Transitions), persistence.RecordBatchMax)
	}
	r := newRecording(s, record)
	if err := r.all(ctx); err != nil {
		return persistence.Recorded{}, err
	}
	return r.out, nil
}

// recording is one record while it is stored, maybe in parts.
type recording struct {
	s      *Store
	record persistence.Record
	out    persistence.Recorded
	loaded bool // the grants of the claim are in out
}

func newRecording(s *Store, record persistence.Record) *recording {
	record.Transitions = slices.Clone(record.Transitions)
	out := persistence.Recorded{Answers: make([]persistence.RecordAnswer, len(record.Transitions))}
	return &recording{s: s, record: record, out: out}
}

func (r *recording) all(ctx context.Context) error {
	for i := range r.record.Transitions {
		if cause := r.refuseInstants(i); cause != nil {
			r.fail(i, cause)
		}
	}
	fast, slow := r.split()
	if len(fast) > 0 {
		err := r.divide(ctx, fast, lockWaiting, func(ctx context.Context, part []int, mode locking) error {
			rest, err := r.fast(ctx, part, mode)
			slow = append(slow, rest...)
			return err
		})
		if err != nil {
			return err
		}
	}
	slices.Sort(slow)
	if len(slow) > 0 || len(fast) == 0 {
		if err := r.divide(ctx, slow, lockWaiting, r.slow); err != nil {
			return err
		}
	}
	if !r.loaded {
		return r.load(ctx)
	}
	return nil
}

// split tells the transitions of runs of which nothing but plain successes is
// reported from the rest.
func (r *recording) split() (fast, slow []int) {
	plain := make(map[workflow.RunID]bool, len(r.record.Transitions))
	for i := range r.record.Transitions {
		t := &r.record.Transitions[i]
		before, seen := plain[t.Task.Run]
		plain[t.Task.Run] = (before || !seen) && t.Report == lifecycle.Succeeded && len(t.Edges) == 0
	}
	for i := range r.record.Transitions {
		if plain[r.record.Transitions[i].Task.Run] {
			fast = append(fast, i)
		} else {
			slow = append(slow, i)
		}
	}
	return fast, slow
}

// divide stores transitions in one transaction. Where one of them stands in
// the way it works around it: a run that somebody holds for too long is left
// out and answered Busy; a value that the database refuses is isolated by
// halving, and its attempt fails with the cause.
func (r *recording) divide(
	ctx context.Context, indexes []int, mode locking, store func(context.Context, []int, locking) error,
) error {
	err := retry(ctx, func(ctx context.Context) error { return store(ctx, indexes, mode) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errLockTimeout) && mode == lockWaiting:
		return r.divide(ctx, indexes, lockFree, store)
	case errors.Is(err, errLockTimeout) && len(indexes) == 1:
		r.out.Answers[indexes[0]].Result = lifecycle.Busy
		return nil
	case errors.Is(err, persistence.ErrBadRow) && len(indexes) == 1:
		return r.refused(ctx, indexes[0], err)
	case errors.Is(err, errLockTimeout), errors.Is(err, persistence.ErrBadRow):
		if len(indexes) == 0 {
			return err
		}
		half := len(indexes) / 2
		if err := r.divide(ctx, indexes[:half], mode, store); err != nil {
			return err
		}
		return r.divide(ctx, indexes[half:], mode, store)
	}
	return err
}

// refused records the attempt whose values the database refuses as failed.
func (r *recording) refused(ctx context.Context, i int, cause error) error {
	if r.out.Answers[i].Err != nil {
		return cause // it refuses the failure too
	}
	r.fail(i, cause)
	return r.divide(ctx, []int{i}, lockWaiting, r.slow)
}

// fail turns a transition into the failure of its attempt.
func (r *recording) fail(i int, cause error) {
	t := &r.record.Transitions[i]
	r.out.Answers[i].Err = cause
	*t = persistence.Transition{
		Task: t.Task, Epoch: t.Epoch, Report: lifecycle.Errored, Class: persistence.ClassBadRow, Error: cause.Error(),
	}
}

// refuseInstants returns why the database would refuse an instant of a
// transition.
func (r *recording) refuseInstants(i int) error {
	return refuseInstants(time.Time{}, r.record.Transitions[i].Edges)
}

// load reads what the record's claim still holds.
func (r *recording) load(ctx context.Context) error {
	return retry(ctx, func(ctx context.Context) error {
		b := r.s.newBatch()
		g := r.s.queueGrants(b, r.record.Pod, r.record.Claim)
		if err := send(ctx, r.s.pool, b); err != nil {
			return err
		}
		var err error
		r.out.Grants, err = g.grants(ctx, r.s.pool)
		return err
	})
}
