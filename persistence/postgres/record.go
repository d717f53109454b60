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
	"github.com/troupe-dev/troupe/persistence/postgres/internal/machines"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
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
	err := s.WithRegistry(ctx, func() error { return r.all(ctx) })
	if err == nil && r.out.Now.IsZero() { // nothing was stored
		err = s.Write(ctx, func(ctx context.Context, tx pgx.Tx) error { return r.onlyCheck(ctx, tx) })
	}
	if err != nil {
		return persistence.Recorded{}, err
	}
	r.remember()
	return r.out, nil
}

// recording is one record while it is stored, maybe in parts.
type recording struct {
	s      *Store
	record persistence.Record
	out    persistence.Recorded
	left   map[int]bool                           // by the fast path, or not for it
	causes map[int]error                          // of transitions whose values the database refuses
	begins map[workflow.Hash]*registry.Definition // of child runs and of machines
	freed  int                                    // slots that its reports have left so far
	given  int                                    // tasks that were granted with it so far
	reload bool                                   // the grants of the claim have to be read

	skipped []workflow.TaskID // in what is not known to be committed yet

	otherRole bool // the step whose transaction it is has changed its role
}

func newRecording(s *Store, record persistence.Record) *recording {
	record.Transitions = slices.Clone(record.Transitions)
	out := persistence.Recorded{Answers: make([]persistence.RecordAnswer, len(record.Transitions))}
	return &recording{s: s, record: record, out: out, left: map[int]bool{}, causes: map[int]error{}}
}

// all stores the whole record: what may take the fast path first, then the rest.
func (r *recording) all(ctx context.Context) error {
	for i := range r.record.Transitions {
		if cause := r.refuseInstants(i); cause != nil {
			r.fail(i, cause)
		}
	}
	if err := r.knowChildren(ctx); err != nil {
		return err
	}
	for _, i := range r.s.recent.NeedDecisions(r.record.Transitions) {
		r.left[i] = true
	}
	for {
		fast, slow := r.split()
		var err error
		switch {
		case len(fast) > 0:
			err = r.parts(ctx, fast, r.fast)
		case len(slow) > 0:
			err = r.parts(ctx, slow, r.slow)
		default:
			return r.reloaded(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// knowChildren finds the definitions of the child runs that a record begins, and those of the
// programs that have executed activations of machines.
func (r *recording) knowChildren(ctx context.Context) (err error) {
	var hashes []workflow.Hash
	for i := range r.record.Transitions {
		if child := r.record.Transitions[i].Child; child != nil {
			hashes = append(hashes, child.Definition)
		}
		if a := r.record.Transitions[i].Activation; a != nil {
			hashes = append(hashes, a.Definition)
		}
	}
	if len(hashes) > 0 {
		r.begins, err = r.s.Definitions(ctx, hashes)
	}
	return err
}

// reloaded reads the grants again of which not all is known.
func (r *recording) reloaded(ctx context.Context) error {
	if !r.reload {
		return nil
	}
	err := r.load(ctx)
	if pgerr.Unreadable(err) { // it is committed: renewals find what is granted and not held
		r.out.Grants = nil
		return nil
	}
	return err
}

// onlyCheck is what a record with nothing to store does: an answer means that the
// database gave one, and that the pod lives.
func (r *recording) onlyCheck(ctx context.Context, tx pgx.Tx) error {
	if err := r.s.checkPod(ctx, tx, r.record.Pod); err != nil {
		return err
	}
	return r.s.ReadClock(ctx, tx, &r.out.Now)
}

// split tells the transitions of runs of which nothing but plain successes is
// reported from the rest. What is answered is neither.
func (r *recording) split() (fast, slow []int) {
	others := map[workflow.RunID]bool{}
	for i := range r.record.Transitions {
		if t := &r.record.Transitions[i]; t.Report != lifecycle.Succeeded || len(t.Edges) > 0 || len(t.Make) > 0 || t.Activation != nil {
			others[t.Task.Run] = true
		}
	}
	fast = make([]int, 0, len(r.record.Transitions))
	for i := range r.record.Transitions {
		switch {
		case r.out.Answers[i].Result != 0:
		case !others[r.record.Transitions[i].Task.Run] && !r.left[i]:
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

// begin runs do in a transaction that commits or only tries.
func (s *Store) begin(ctx context.Context, ending ending, do func(context.Context, pgx.Tx) error) error {
	if ending == commits {
		return s.Conns.Short(ctx, do)
	}
	return pgx.BeginFunc(ctx, s.Conns, func(tx pgx.Tx) error {
		if err := do(ctx, tx); err != nil {
			return err
		}
		return pgerr.ErrTrial
	})
}

// storing stores transitions in one transaction.
type storing func(ctx context.Context, indexes []int, ending ending) error

// parts stores transitions in one transaction, or, where one of them is in the way, in
// several: those of runs that are locked or cannot be read are answered Busy, and a value
// that the database refuses becomes the failure of its attempt, which is stored later.
func (r *recording) parts(ctx context.Context, indexes []int, store storing) error {
	return pgsql.Bisect(indexes, func(part []int) error {
		part, err := r.free(ctx, part)
		if err != nil || len(part) == 0 {
			return err
		}
		err = pgerr.Retry(ctx, func(ctx context.Context) error { return store(ctx, part, commits) })
		if errors.Is(err, pgerr.ErrLockTimeout) {
			if failed := r.s.quarantine.FindLocked(ctx, r.tasks(part)); failed != nil {
				return failed
			}
		}
		return err
	}, blamesOne, func(i int, err error) error { return r.alone(ctx, i, store, err) })
}

// blamesOne reports whether one of several transitions, timers or tasks may be why a
// transaction failed.
func blamesOne(err error) bool {
	return errors.Is(err, pgerr.ErrLockTimeout) || badRow(err) || pgerr.Unreadable(err) || errors.Is(err, pgerr.ErrUndecided)
}

// alone answers a transition that cannot be stored by itself.
func (r *recording) alone(ctx context.Context, i int, store storing, err error) error {
	if badRow(err) {
		if r.causes[i] != nil { // it refuses the failure, too
			return pgerr.RefusesAnything(err)
		}
		cause := err
		if err = r.blame(ctx, i, store, cause); err == nil {
			r.fail(i, cause)
			return nil
		}
	}
	task := r.record.Transitions[i].Task
	switch {
	case errors.Is(err, pgerr.ErrLockTimeout):
		r.s.quarantine.RestTask(task)
	case errors.Is(err, pgerr.ErrUndecided):
		if full := r.s.quarantine.AddUnreadable(ctx, task.Run, err); full != nil {
			return full
		}
	case pgerr.Unreadable(err):
		full := r.s.quarantine.AddUnreadable(ctx, task.Run, err)
		if full != nil || !r.s.quarantine.Damaged(ctx, task.Run) { // what others need, too, cannot be read
			r.out.Refused = pgerr.Translate(errors.Join(full, err))
		}
	default:
		return err
	}
	r.out.Answers[i].Result = lifecycle.Busy
	return nil
}

// free answers Busy for transitions of runs that are not to be written now, and returns
// the others. While locks are in the way no children are granted: claims ask whether
// their ends could be recorded.
func (r *recording) free(ctx context.Context, indexes []int) (free []int, err error) {
	left, err := r.s.quarantine.LeaveOut(ctx, r.tasks(indexes))
	if r.s.quarantine.Skipping() {
		r.record.Limit, r.record.Spare = 0, 0
	}
	if err != nil || len(left) == 0 {
		return indexes, err
	}
	for _, i := range indexes {
		if left[r.record.Transitions[i].Task.Run] {
			r.out.Answers[i].Result = lifecycle.Busy
			continue
		}
		free = append(free, i)
	}
	return free, nil
}

func (r *recording) tasks(indexes []int) taskIDs {
	tasks := make(taskIDs, len(indexes))
	for i, at := range indexes {
		tasks[i] = r.record.Transitions[at].Task
	}
	return tasks
}

// blame returns nil if the values of a transition are why the database refuses
// it, and otherwise what to do about it.
func (r *recording) blame(ctx context.Context, i int, store storing, cause error) error {
	t := &r.record.Transitions[i]
	whole := *t
	trial := func() error {
		err := pgerr.Retry(ctx, func(ctx context.Context) error { return store(ctx, []int{i}, tries) })
		if errors.Is(err, pgerr.ErrTrial) {
			return nil
		}
		return err
	}
	t.Output, t.Progress, t.Class, t.Error = []byte{}, nil, "", ""
	if t.Child != nil {
		child := *t.Child
		child.Input, child.Edges, child.TraceContext = []byte{}, nil, ""
		t.Child = &child
	}
	if t.Map != nil {
		bare := *t.Map
		bare.Items = make([][]byte, len(t.Map.Items))
		t.Map = &bare
	}
	if t.Activation != nil {
		t.Activation = machines.Bare(t.Activation)
	}
	bare := trial()
	*t = whole
	return pgerr.Blamed(cause, bare, trial)
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
	t := &r.record.Transitions[i]
	err := refuseInstants(time.Time{}, t.Edges)
	if err == nil && t.Child != nil {
		err = refuseInstants(time.Time{}, t.Child.Edges)
	}
	return err
}

// load reads what the record's claim still holds.
func (r *recording) load(ctx context.Context) error {
	return pgerr.Retry(ctx, func(ctx context.Context) error {
		return inlining(func(limit int) error {
			var err error
			r.out.Grants, err = r.s.loadGrants(ctx, r.s.Conns, r.record.Pod, r.record.Claim, limit)
			return err
		})
	})
}
