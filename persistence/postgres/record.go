package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
	var err error
	if tried := r.passOver(s.lostEnds.list()); tried == 0 && len(record.Transitions) > 0 {
		err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error { return r.onlyCheck(ctx, tx) })
	} else {
		err = s.knowing(ctx, func() error { return r.all(ctx) })
	}
	if err != nil {
		return persistence.Recorded{}, err
	}
	r.judgeUnread(ctx)
	r.remember()
	return r.out, nil
}

// recording is one record while it is stored, maybe in parts.
type recording struct {
	s      *Store
	record persistence.Record
	out    persistence.Recorded
	left   map[int]bool  // by the fast path
	causes map[int]error // of transitions whose values the database refuses
	reload bool          // the grants of the claim have to be read

	skipped []workflow.TaskID // in what is not known to be committed yet

	unread map[workflow.RunID]error // runs of which nothing could be stored, because something cannot be read

	otherRole bool // the step whose transaction it is has changed its role
}

func newRecording(s *Store, record persistence.Record) *recording {
	record.Transitions = slices.Clone(record.Transitions)
	out := persistence.Recorded{Answers: make([]persistence.RecordAnswer, len(record.Transitions))}
	return &recording{
		s: s, record: record, out: out, left: map[int]bool{}, causes: map[int]error{}, unread: map[workflow.RunID]error{},
	}
}

// all stores the whole record: the fast batch first, then the rest.
func (r *recording) all(ctx context.Context) error {
	for i := range r.record.Transitions {
		if cause := r.refuseInstants(i); cause != nil {
			r.fail(i, cause)
		}
	}
	if err := r.allFast(ctx); err != nil {
		return err
	}
	for {
		_, slow := r.split()
		if len(slow) == 0 && len(r.record.Transitions) > 0 {
			break
		}
		bad, err := r.divide(ctx, slow, r.s.locking(ctx), r.slow)
		if err != nil {
			return err
		}
		if len(bad) == 0 {
			break
		}
	}
	if !r.reload {
		return nil
	}
	err := r.load(ctx)
	if unreadable(err) { // it is committed: renewals find what is granted and not held
		r.out.Grants = nil
		return nil
	}
	return err
}

// passOver answers Busy for runs of which no completion can be stored, for now, and
// returns how many transitions are left.
func (r *recording) passOver(lost uuids) (left int) {
	for i := range r.record.Transitions {
		if slices.Contains(lost, r.record.Transitions[i].Task.Run) {
			r.out.Answers[i].Result = lifecycle.Busy
			continue
		}
		left++
	}
	return left
}

// onlyCheck is what a record with nothing to store does: an answer means that the
// database gave one, and that the pod lives.
func (r *recording) onlyCheck(ctx context.Context, tx pgx.Tx) error {
	if err := r.s.checkPod(ctx, tx, r.record.Pod); err != nil {
		return err
	}
	return r.s.readClock(ctx, tx, &r.out.Now)
}

// unreadMax bounds the runs of one record that are looked at by themselves.
const unreadMax = 64

// judgeUnread leaves the runs alone for a while of which nothing could be stored, a short
// one if they can be read, and says whether that is their own fault: what they can be read without is
// something that others need, too.
func (r *recording) judgeUnread(ctx context.Context) {
	looks := 0
	for i := range r.record.Transitions {
		run := r.record.Transitions[i].Task.Run
		err := r.unread[run]
		if err == nil {
			continue
		}
		delete(r.unread, run)
		if full := r.s.lostEnds.addFor(ctx, run, sharedFor, err); full != nil {
			r.out.Refused = full
			continue
		}
		if looks++; looks <= unreadMax && r.s.damaged(ctx, run) {
			_ = r.s.lostEnds.add(ctx, run, err) // there is room for it
			err = r.s.lost.add(ctx, run, err)
		}
		if err != nil {
			r.out.Refused = translate(err)
		}
	}
}

// allFast stores what may take the fast path.
func (r *recording) allFast(ctx context.Context) error {
	for {
		fast, _ := r.split()
		if len(fast) == 0 {
			return nil
		}
		bad, err := r.divide(ctx, fast, r.s.locking(ctx), r.fast)
		if err != nil || len(bad) == 0 {
			return err
		}
	}
}

// split tells the transitions of runs of which nothing but plain successes is
// reported from the rest. What is answered is neither.
func (r *recording) split() (fast, slow []int) {
	plain := make(map[workflow.RunID]bool, len(r.record.Transitions))
	for i := range r.record.Transitions {
		t := &r.record.Transitions[i]
		before, seen := plain[t.Task.Run]
		plain[t.Task.Run] = (before || !seen) && t.Report == lifecycle.Succeeded && len(t.Edges) == 0
	}
	for i := range r.record.Transitions {
		switch {
		case r.out.Answers[i].Result != 0:
		case plain[r.record.Transitions[i].Task.Run] && !r.left[i]:
			fast = append(fast, i)
		default:
			slow = append(slow, i)
		}
	}
	return fast, slow
}

// ending says how a transaction ends that went well.
type ending uint8

const (
	commits ending = iota
	tries          // it is rolled back: errTrial
)

// storing stores transitions in one transaction.
type storing func(ctx context.Context, indexes []int, mode locking, ending ending) error

// divide stores transitions in one transaction. Where one of them stands in
// the way it works around it: a run that somebody holds for too long, or that the
// database cannot read, is left out and answered Busy; a value that the database
// refuses is found by halving in transactions that only try, its transition
// becomes the failure of its attempt, and nothing is stored yet: bad says which, and
// which had to wait meanwhile.
func (r *recording) divide(ctx context.Context, indexes []int, mode locking, store storing) (bad []int, err error) {
	if indexes = r.withoutUnread(indexes); len(indexes) == 0 && len(r.unread) > 0 {
		return nil, nil
	}
	if mode != lockWaiting && len(r.s.strained.known()) > 0 { // children wait for a claim, which asks whether they could be recorded
		r.record.InlineLimit, r.record.InlineSpare = 0, 0
	}
	err = retry(ctx, func(ctx context.Context) error { return store(ctx, indexes, mode, commits) })
	switch {
	case errors.Is(err, errLockTimeout) && mode != lockStrict:
		r.s.strained.note(ctx)
		return r.divide(ctx, indexes, lockStrict, store)
	case errors.Is(err, errLockTimeout) && len(indexes) == 1:
		r.out.Answers[indexes[0]].Result = lifecycle.Busy
		return nil, nil
	case errors.Is(err, persistence.ErrBadRow):
		if bad, found := r.culprits(ctx, indexes, mode, store); found != nil || len(bad) > 0 {
			return bad, found
		}
	case unreadable(err) && len(indexes) == 1: // of its run
		r.unread[r.record.Transitions[indexes[0]].Task.Run] = err
		r.out.Answers[indexes[0]].Result = lifecycle.Busy
		return nil, nil
	case !errors.Is(err, errLockTimeout) && !unreadable(err):
		return nil, err
	}
	if len(indexes) < 2 {
		return nil, err
	}
	half := len(indexes) / 2
	for _, part := range [][]int{indexes[:half], indexes[half:]} {
		if bad, err := r.divide(ctx, part, mode, store); err != nil || len(bad) > 0 {
			return bad, err
		}
	}
	return nil, nil
}

// withoutUnread answers Busy for the transitions of runs that could not be read,
// and returns the others.
func (r *recording) withoutUnread(indexes []int) []int {
	if len(r.unread) == 0 {
		return indexes
	}
	return slices.DeleteFunc(slices.Clone(indexes), func(i int) bool {
		known := r.unread[r.record.Transitions[i].Task.Run] != nil
		if known {
			r.out.Answers[i].Result = lifecycle.Busy
		}
		return known
	})
}

// culprits finds the transitions whose values the database refuses, and turns
// them into failures. One that waits for a lock in vain meanwhile is answered Busy.
func (r *recording) culprits(ctx context.Context, indexes []int, mode locking, store storing) ([]int, error) {
	err := retry(ctx, func(ctx context.Context) error { return store(ctx, indexes, mode, tries) })
	locked := errors.Is(err, errLockTimeout)
	switch {
	case errors.Is(err, errTrial):
		return nil, nil
	case locked && mode != lockStrict:
		r.s.strained.note(ctx)
		return r.culprits(ctx, indexes, lockStrict, store)
	case !locked && !errors.Is(err, persistence.ErrBadRow):
		return nil, err
	case len(indexes) == 1 && locked:
		r.out.Answers[indexes[0]].Result = lifecycle.Busy
		return indexes, nil
	case len(indexes) == 1:
		if r.causes[indexes[0]] != nil { // it refuses the failure too
			return nil, refusesAnything(err)
		}
		switch other := r.blame(ctx, indexes[0], mode, store, err); {
		case errors.Is(other, errLockTimeout):
			r.out.Answers[indexes[0]].Result = lifecycle.Busy
		case other != nil:
			return nil, other
		default:
			r.fail(indexes[0], err)
		}
		return indexes, nil
	}
	half := len(indexes) / 2
	first, err := r.culprits(ctx, indexes[:half], mode, store)
	if err != nil {
		return nil, err
	}
	second, err := r.culprits(ctx, indexes[half:], mode, store)
	return slices.Concat(first, second), err
}

// blame returns nil if the values of a transition are why the database refuses
// it, and otherwise what to do about it.
func (r *recording) blame(ctx context.Context, i int, mode locking, store storing, cause error) error {
	t := &r.record.Transitions[i]
	whole := *t
	trial := func() error {
		return retry(ctx, func(ctx context.Context) error { return store(ctx, []int{i}, mode, tries) })
	}
	t.Output, t.Progress, t.Class, t.Error = []byte{}, nil, "", ""
	bare := trial()
	*t = whole
	return blamed(cause, bare, trial)
}

// blamed judges a value that was refused by trials without it, and with it again:
// what refused it may be the schema, or gone by now.
func blamed(cause, bare error, again func() error) error {
	if errors.Is(bare, persistence.ErrBadRow) {
		return refusesAnything(cause)
	}
	if !errors.Is(bare, errTrial) {
		return bare
	}
	switch err := again(); {
	case errors.Is(err, persistence.ErrBadRow):
		return nil
	case errors.Is(err, errTrial):
		return fmt.Errorf("%w: what refused a row does not refuse it any more: %s", persistence.ErrUnavailable, cause.Error())
	default:
		return err
	}
}

// fail turns a transition into the failure of its attempt.
func (r *recording) fail(i int, cause error) {
	t := &r.record.Transitions[i]
	r.causes[i] = cause
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
		return inlining(func(limit int) error {
			var err error
			r.out.Grants, err = r.s.loadGrants(ctx, r.s.pool, r.record.Pod, r.record.Claim, limit)
			return err
		})
	})
}
