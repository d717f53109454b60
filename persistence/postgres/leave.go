package postgres

import (
	"context"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// LeavePod implements persistence.Lease. If something of what the pod holds cannot
// be read, is held by somebody, or is of a definition that another program has to register
// again, the rest is handed back, and the pod stays until its lease ends. The wake is of
// what was handed back, with an error, too.
func (s *Store) LeavePod(ctx context.Context, pod int64) (persistence.Wake, error) {
	var all persistence.Wake
	mode := s.locking(ctx)
	for tries := 0; ; tries++ {
		wake, left, err := s.leave(ctx, pod, mode)
		mergeWake(&all, wake)
		switch {
		case errors.Is(err, errLockTimeout) && mode != lockStrict:
			s.strained.note(ctx)
			mode = lockStrict
			continue
		case unreadable(err):
			wake, err := s.leaveReadable(ctx, pod)
			mergeWake(&all, wake)
			return all, err
		case err != nil || !left || tries >= leaveTries:
			return all, err
		}
		mode = s.locking(ctx) // by now it may be known who holds it, and what was merely busy is free
	}
}

// leaveTries bounds how often a pod tries to hand back what it was left with: there is
// no later call for it.
const leaveTries = 3

// leave hands back what a pod holds, but what is left out as the mode says.
func (s *Store) leave(ctx context.Context, pod int64, mode locking) (wake persistence.Wake, left bool, err error) {
	err = s.handBack(ctx, pod, func(ctx context.Context, tx pgx.Tx) error {
		taken, err := s.heldTasks(ctx, tx, []int64{pod}, skips{}, math.MaxInt32, false)
		if err != nil {
			return err
		}
		p, err := s.takeBack(ctx, tx, s.newBatch(), taken, lifecycle.TaskReported{Kind: lifecycle.Released}, mode)
		wake, left = p.wake, len(p.left) > 0
		if err != nil || left {
			return err
		}
		return s.exec(ctx, tx, "delete_pods", named{"pods": []int64{pod}})
	})
	return wake, left, err
}

// leaveReadable hands back what can be read of what a pod holds.
func (s *Store) leaveReadable(ctx context.Context, pod int64) (persistence.Wake, error) {
	var claimed []heldTask
	err := s.handBack(ctx, pod, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		claimed, err = s.heldTasks(ctx, tx, []int64{pod}, s.skips(), math.MaxInt32, true)
		return err
	})
	if err != nil {
		return persistence.Wake{}, err
	}
	var wake persistence.Wake
	err = s.handBackHalves(ctx, pod, claimed, &wake)
	return wake, err
}

// handBackHalves hands tasks back, in halves if something of them cannot be read.
func (s *Store) handBackHalves(ctx context.Context, pod int64, claimed []heldTask, into *persistence.Wake) error {
	if len(claimed) == 0 {
		return nil
	}
	var p *pass
	err := s.handBack(ctx, pod, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		p, err = s.takeBack(ctx, tx, s.newBatch(), claimed, lifecycle.TaskReported{Kind: lifecycle.Released}, lockWaiting)
		return err
	})
	switch {
	case err == nil && p != nil:
		mergeWake(into, p.wake)
		return nil
	case !unreadable(err):
		return err
	case len(claimed) == 1:
		return s.lost.add(ctx, claimed[0].task.Run, err)
	}
	half := len(claimed) / 2
	if err := s.handBackHalves(ctx, pod, claimed[:half], into); err != nil {
		return err
	}
	return s.handBackHalves(ctx, pod, claimed[half:], into)
}

// handBack runs do in a transaction in which nobody else takes a pod's tasks from
// it, unless it has left or was declared dead: then they are taken from it.
func (s *Store) handBack(ctx context.Context, pod int64, do func(context.Context, pgx.Tx) error) error {
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.statements.bind("lock_pod", named{"pod": pod})
		var id int64
		switch err := tx.QueryRow(ctx, text, args...).Scan(&id); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		return do(ctx, tx)
	})
}
