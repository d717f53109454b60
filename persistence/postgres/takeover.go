package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
)

// takeover takes back what pods hold that are dead or leave: in one transaction, or,
// where something of it is locked or cannot be read, in several. It is used once.
type takeover struct {
	s       *Store
	within  func(ctx context.Context, do func(context.Context, pgx.Tx) error) error // makes a transaction
	report  lifecycle.TaskReported
	out     persistence.Expired
	without quarantine.Exclusions
	keeping map[int64]bool // pods of which something is left
}

// ExpirePods implements persistence.Housekeeping. Tasks of runs in quarantine, and of
// those that turn out to be locked, are left for a later call.
func (s *Store) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	out, late, unread, err := s.precheckPods(ctx, epoch, by)
	if err == nil && unread {
		_, _ = s.endUnread(ctx, by) // as below
	}
	if err != nil || !late {
		return out, err
	}
	s.askForDefinitions(ctx)
	t := &takeover{
		s: s, without: s.quarantine.Excluded(), report: lifecycle.TaskReported{Kind: lifecycle.Lost, MaxLost: int32(maxLost)},
		keeping: map[int64]bool{},
		within: func(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
			return s.Fenced(ctx, epoch, do)
		},
	}
	if err := t.expire(ctx, limit, by); err != nil {
		return persistence.Expired{}, err
	}
	// Without these their locks stay for longer; the next call tries again.
	_ = s.EndSteps(ctx, t.out.Pods)
	if ended, err := s.endUnread(ctx, by); err == nil && ended {
		t.out.NextExpiry = t.out.Now
	}
	return t.out, nil
}

// expire declares pods dead whose leases have run out, by an instant, and takes at most
// limit tasks back.
func (t *takeover) expire(ctx context.Context, limit int, by time.Time) error {
	err := t.within(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		t.out.Pods, t.report.Deaths, err = t.s.declareDead(ctx, tx, by)
		return err
	})
	if err != nil {
		return err
	}
	claimed, more, err := t.list(ctx, t.out.Pods, limit)
	if err != nil {
		return err
	}
	if err := t.take(ctx, claimed); err != nil {
		return err
	}
	return t.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := t.close(ctx, tx); err != nil {
			return err
		}
		switch wait := t.s.quarantine.Again(); {
		case more:
			t.out.NextExpiry = t.out.Now
		case len(t.keeping) > 0: // what was left out is looked at again
			t.out.NextExpiry = t.out.Now.Add(max(wait, quarantine.AgainMin))
		}
		return nil
	})
}

// list returns at most limit tasks that pods hold, by pod, but of what rests. Pods that
// hold more are kept. Where the server cannot read all of the tasks it lists what was
// claimed.
func (t *takeover) list(ctx context.Context, pods []int64, limit int) (claimed []heldTask, more bool, err error) {
	if len(pods) == 0 {
		return nil, false, nil
	}
	read := func(blind bool) error {
		return t.s.Try(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			claimed, err = t.s.heldTasks(ctx, tx, pods, t.without, min(limit, math.MaxInt32-1)+1, blind)
			return err
		})
	}
	if err = read(false); pgerr.Unreadable(err) {
		err = read(true)
	}
	if err != nil || len(claimed) <= limit {
		return claimed, false, err
	}
	for _, pod := range pods { // they are listed by pod
		if pod >= claimed[limit].pod {
			t.keeping[pod] = true
		}
	}
	return claimed[:limit], true, nil
}

// take takes tasks back.
func (t *takeover) take(ctx context.Context, claimed []heldTask) error {
	return pgsql.Bisect(claimed, func(part []heldTask) error {
		tasks := make(taskIDs, len(part))
		for i, h := range part {
			tasks[i] = h.task
		}
		left, err := t.s.quarantine.LeaveOut(ctx, tasks)
		if err != nil {
			return err
		}
		part = slices.DeleteFunc(slices.Clone(part), func(h heldTask) bool {
			if left[h.task.Run] {
				t.keeping[h.pod] = true
			}
			return left[h.task.Run]
		})
		if len(part) == 0 {
			return nil
		}
		var p *decisionTx
		err = t.within(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			p, err = t.s.takeBack(ctx, tx, t.s.NewBatch(), part, t.report)
			return err
		})
		if errors.Is(err, pgerr.ErrLockTimeout) {
			if failed := t.s.quarantine.FindLocked(ctx, tasks); failed != nil {
				return failed
			}
		}
		if err == nil && p != nil {
			t.count(p, part)
		}
		return err
	}, blamesOne, func(h heldTask, err error) error {
		t.keeping[h.pod] = true
		return t.s.quarantine.RestAlone(ctx, h.task, err)
	})
}

// count adds what one transaction took back. Another leader may have taken some of it since
// it was listed.
func (t *takeover) count(p *decisionTx, taken []heldTask) {
	for _, h := range taken {
		if p.byID[h.task.Run] == nil {
			t.keeping[h.pod] = true
			if !p.left[h.task.Run] {
				t.s.quarantine.AddDeleted(h.task.Run)
			}
		}
	}
	for _, r := range p.runs {
		for _, answer := range r.decision.Answers {
			if answer == lifecycle.Moved {
				t.out.Tasks++
			}
		}
	}
	t.out.Now = p.now
	mergeWake(&t.out.Wake, p.wake)
}

// close removes the pods of which nothing is left, and counts the rest.
func (t *takeover) close(ctx context.Context, tx pgx.Tx) error {
	if err := t.s.ReadClock(ctx, tx, &t.out.Now); err != nil {
		return err
	}
	resting, err := t.s.keepingPods(ctx, tx, t.out.Pods, t.without)
	if err != nil {
		return err
	}
	for _, pod := range resting {
		t.keeping[pod] = true
	}
	gone := slices.DeleteFunc(slices.Clone(t.out.Pods), func(pod int64) bool { return t.keeping[pod] })
	return t.s.closeExpiry(ctx, tx, gone, &t.out)
}

// LeavePod implements persistence.Lease. If something of what the pod holds rests, is
// locked or cannot be read, or is of a definition that another program has to register
// again, the others are handed back, and the pod stays until its lease ends. The wake is
// of what was handed back, with an error, too.
func (s *Store) LeavePod(ctx context.Context, pod int64) (persistence.Wake, error) {
	t := &takeover{s: s, report: lifecycle.TaskReported{Kind: lifecycle.Released}, keeping: map[int64]bool{}}
	t.within = func(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
		return s.handBack(ctx, pod, do)
	}
	for granted := true; granted; {
		claimed, _, err := t.list(ctx, []int64{pod}, math.MaxInt32)
		if err == nil {
			err = t.take(ctx, claimed)
		}
		if err == nil && !t.keeping[pod] {
			granted, err = t.removePod(ctx, pod)
		}
		if err != nil || t.keeping[pod] {
			return t.out.Wake, err
		}
	}
	s.claims.Forget(pod)
	return t.out.Wake, nil
}

// removePod removes a pod that holds nothing. granted: a call that was under way has granted
// it tasks since they were listed. None can any more once the pod's row is locked.
func (t *takeover) removePod(ctx context.Context, pod int64) (granted bool, err error) {
	err = t.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		held, err := t.s.heldTasks(ctx, tx, []int64{pod}, quarantine.Exclusions{}, 1, false)
		if granted = len(held) > 0; granted || err != nil {
			return err
		}
		return t.s.Exec(ctx, tx, "delete_pods", pgsql.Named{"pods": []int64{pod}})
	})
	return granted, err
}

// handBack runs do in a transaction in which no leader takes a pod's tasks from it,
// unless it has left or was declared dead: then they are taken from it.
func (s *Store) handBack(ctx context.Context, pod int64, do func(context.Context, pgx.Tx) error) error {
	return s.Write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.Bind("lock_pod", pgsql.Named{"pod": pod})
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
