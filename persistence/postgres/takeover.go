package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// takeover takes back what dead pods have claimed, where something of the tasks
// cannot be read: without a look at them, in parts that become smaller until what
// cannot be read is alone. It is used once.
type takeover struct {
	s       *Store
	epoch   int64
	report  lifecycle.TaskReported
	out     persistence.Expired
	skip    skips
	keeping map[int64]bool // pods of which something is left
}

func (s *Store) expireBlind(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	t := &takeover{
		s: s, epoch: epoch, skip: s.skips(), report: lifecycle.TaskReported{Kind: lifecycle.Lost, MaxLost: int32(maxLost)}, keeping: map[int64]bool{},
	}
	var claimed []heldTask
	err := s.lead(ctx, epoch, func(ctx context.Context, tx pgx.Tx, _ locking) error {
		var err error
		if t.out.Pods, t.report.Deaths, err = s.declareDead(ctx, tx, by); err != nil || len(t.out.Pods) == 0 {
			return err
		}
		claimed, err = s.heldTasks(ctx, tx, t.out.Pods, t.skip, math.MaxInt32, true)
		return err
	})
	if err != nil {
		return persistence.Expired{}, err
	}
	for part := range slices.Chunk(claimed, limit) {
		if err := t.take(ctx, part); err != nil {
			return persistence.Expired{}, err
		}
	}
	if err := s.lead(ctx, epoch, func(ctx context.Context, tx pgx.Tx, _ locking) error { return t.close(ctx, tx) }); err != nil {
		return persistence.Expired{}, err
	}
	return t.out, nil
}

// take takes tasks back, in halves if something of them cannot be read.
func (t *takeover) take(ctx context.Context, claimed []heldTask) error {
	var p *pass
	err := t.s.lead(ctx, t.epoch, func(ctx context.Context, tx pgx.Tx, mode locking) error {
		var err error
		p, err = t.s.takeBack(ctx, tx, t.s.newBatch(), claimed, t.report, mode)
		return err
	})
	switch {
	case err == nil:
		for _, h := range claimed {
			if p.byID[h.task.Run] == nil { // somebody holds it
				t.keeping[h.pod] = true
				continue
			}
			t.out.Tasks++
		}
		t.out.Now = p.now
		mergeWake(&t.out.Wake, p.wake)
		return nil
	case !unreadable(err):
		return err
	case len(claimed) == 1:
		t.keeping[claimed[0].pod] = true
		if !t.s.damaged(ctx, claimed[0].task.Run) {
			return err
		}
		return t.s.lost.add(ctx, claimed[0].task.Run, err)
	}
	half := len(claimed) / 2
	if err := t.take(ctx, claimed[:half]); err != nil {
		return err
	}
	return t.take(ctx, claimed[half:])
}

// close removes the pods of which nothing is left.
func (t *takeover) close(ctx context.Context, tx pgx.Tx) error {
	if err := t.s.readClock(ctx, tx, &t.out.Now); err != nil {
		return err
	}
	lost, err := t.s.keepingPods(ctx, tx, t.out.Pods, t.skip)
	if err != nil {
		return err
	}
	for _, pod := range lost {
		t.keeping[pod] = true
	}
	gone := slices.DeleteFunc(slices.Clone(t.out.Pods), func(pod int64) bool { return t.keeping[pod] })
	return t.s.closeExpiry(ctx, tx, gone, &t.out)
}
