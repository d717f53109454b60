package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// The statements that choose what is due.
const (
	dueOldest = "due_timers"
	dueLatest = "due_timers_latest"
)

// FireTimers implements persistence.Timekeeping. Timers of runs that somebody
// holds for too long are left for the next call, and those of runs that are not
// there are parked.
func (s *Store) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	out, due, err := s.lookTimers(ctx, epoch)
	if err != nil {
		return out, err
	}
	if due {
		if out, err = s.fireDue(ctx, epoch, limit); err != nil {
			return out, err
		}
	}
	s.sweepParked(ctx, epoch, &out)
	return out, nil
}

// fireDue fires at most limit timers, half of them those that became due last.
func (s *Store) fireDue(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	oldest := (limit + 1) / 2
	out, more, err := s.fireSome(ctx, epoch, oldest, dueOldest)
	if err != nil || !more || limit == oldest {
		return out, err
	}
	latest, _, err := s.fireSome(ctx, epoch, limit-oldest, dueLatest)
	if err != nil {
		return out, nil //nolint:nilerr // the others have fired; the next call finds it, if it lasts
	}
	latest.Count += out.Count
	latest.Late = append(latest.Late, out.Late...)
	slices.SortFunc(latest.Late, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	latest.More = latest.More || out.More
	mergeWake(&latest.Wake, out.Wake)
	return latest, nil
}

// fireSome fires at most limit timers, which a statement chooses. more: there may
// be others.
func (s *Store) fireSome(
	ctx context.Context, epoch int64, limit int, which string,
) (out persistence.Fired, more bool, err error) {
	picked, missing := 0, 0
	used, err := s.around(ctx, limit, func(limit int) (first workflow.RunID, err error) {
		err = s.lead(ctx, epoch, func(ctx context.Context, tx pgx.Tx, mode locking) error {
			var due []dueTimer
			if due, missing, err = s.dueTimers(ctx, tx, which, limit); err != nil {
				return err
			}
			if picked = len(due) + missing; len(due) > 0 {
				first = due[0].Run
			}
			if out, err = s.fire(ctx, tx, due, mode); err != nil {
				return err
			}
			return s.nextTimer(ctx, tx, &out.Next)
		})
		return first, err
	})
	if err != nil {
		return persistence.Fired{}, false, err
	}
	if missing > 0 {
		out.More = s.parkTimers(ctx, epoch, which)
	}
	return out, picked >= used, nil
}

// lead runs do in a transaction that a newer leader waits for, and that an
// older one cannot make. If somebody holds a lock for too long, or did so a moment
// ago, it is made without what is locked.
func (s *Store) lead(ctx context.Context, epoch int64, do func(context.Context, pgx.Tx, locking) error) error {
	attempt := func(mode locking) error {
		return s.fenced(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error { return do(ctx, tx, mode) })
	}
	mode := s.strained.mode()
	err := attempt(mode)
	if errors.Is(err, errLockTimeout) && mode == lockWaiting {
		s.strained.note(ctx)
		return attempt(lockCalm)
	}
	return err
}

// fenced runs do in a transaction that a newer leader waits for, and that an older
// one cannot make.
func (s *Store) fenced(ctx context.Context, epoch int64, do func(context.Context, pgx.Tx) error) error {
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		text, args := s.statements.bind("fence", named{"epoch": epoch})
		var one int
		switch err := tx.QueryRow(ctx, text, args...).Scan(&one); {
		case errors.Is(err, pgx.ErrNoRows):
			return persistence.ErrDeposed
		case err != nil:
			return err
		}
		return do(ctx, tx)
	})
}

// timer is a row of durable_timers that is due.
type timer struct {
	task   workflow.TaskID
	kind   lifecycle.TimerKind
	wakeAt time.Time
	epoch  int64
	parked bool // its task waits where no living pod registers the step
}

// dueTimer names a timer that is due.
type dueTimer struct {
	workflow.TaskID
	kind lifecycle.TimerKind
}

// fire fires timers.
func (s *Store) fire(ctx context.Context, tx pgx.Tx, due []dueTimer, mode locking) (out persistence.Fired, err error) {
	p := s.newPass(tx)
	if err := p.load(ctx, dueWants(due), mode); err != nil {
		return out, err
	}
	fired, err := p.readTimers(ctx, due)
	if err != nil {
		return out, err
	}
	at := p.firedFacts(fired)
	b := s.newBatch()
	p.queueFired(b, fired)
	if err := p.finish(ctx, b); err != nil {
		return out, err
	}
	for run, list := range at {
		for i, t := range list {
			if run.decision.Answers[i] == lifecycle.Moved {
				out.Count++
				out.Late = append(out.Late, p.now.Sub(t.wakeAt))
			}
		}
	}
	slices.SortFunc(out.Late, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	out.Now, out.Wake = p.now, p.wake
	return out, nil
}

// dueTimers chooses timers that are due. missing is how many others are of runs that
// are not there.
func (s *Store) dueTimers(ctx context.Context, tx pgx.Tx, which string, limit int) (due []dueTimer, missing int, err error) {
	text, args := s.statements.bind(which, named{"limit": limit, "skip": s.lost.list()})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, 0, err
	}
	var t dueTimer
	var kind int16
	var there bool
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&t.Run), &t.Step, &kind, &there}, func() error {
		if t.kind = lifecycle.TimerKind(kind); there {
			due = append(due, t)
		} else {
			missing++
		}
		return nil
	})
	return due, missing, err
}

// dueWants returns the rows that timers need.
func dueWants(due []dueTimer) []want {
	var wants []want
	at := map[workflow.RunID]int{}
	for _, t := range due {
		i, ok := at[t.Run]
		if !ok {
			i = len(wants)
			at[t.Run] = i
			wants = append(wants, want{run: t.Run})
		}
		wants[i].steps = append(wants[i].steps, t.Step)
		wants[i].open = wants[i].open || t.Step == lifecycle.RunStep
	}
	return wants
}

// readTimers reads the due timers again, now that their runs are locked.
func (p *pass) readTimers(ctx context.Context, due []dueTimer) ([]timer, error) {
	var ids uuids
	steps, kinds := []int32{}, []int16{}
	for _, t := range due {
		if p.byID[t.Run] != nil {
			ids, steps, kinds = append(ids, t.Run), append(steps, t.Step), append(kinds, int16(t.kind))
		}
	}
	text, args := p.s.statements.bind("read_timers", named{
		"runs": orEmpty(ids), "steps": steps, "kinds": kinds, "now": instant(p.now),
	})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (timer, error) {
		var t timer
		var kind int16
		err := row.Scan((*[16]byte)(&t.task.Run), &t.task.Step, &kind, &t.wakeAt, &t.epoch, &t.parked)
		t.kind = lifecycle.TimerKind(kind)
		return t, err
	})
}

// firedFacts turns timers into facts of their runs and returns which timer
// each fact is.
func (p *pass) firedFacts(fired []timer) map[*run][]timer {
	at := map[*run][]timer{}
	for _, t := range fired {
		r := p.byID[t.task.Run]
		r.facts = append(r.facts, lifecycle.TimerFired{
			Step: t.task.Step, Timer: t.kind, Epoch: t.epoch, Parked: t.parked,
		})
		at[r] = append(at[r], t)
	}
	return at
}

// queueFired removes the timers that fired, whatever they did.
func (p *pass) queueFired(b *batch, fired []timer) {
	if len(fired) == 0 {
		return
	}
	var ids uuids
	var steps []int32
	var kinds []int16
	for _, t := range fired {
		ids, steps, kinds = append(ids, t.task.Run), append(steps, t.task.Step), append(kinds, int16(t.kind))
	}
	b.add("delete_timers", named{"runs": ids, "steps": steps, "kinds": kinds})
}

func (s *Store) nextTimer(ctx context.Context, on querier, into *time.Time) error {
	text, args := s.statements.bind("next_timer", named{"skip": s.lost.list()})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	next, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if len(next) > 0 {
		*into = next[0]
	}
	return err
}

// BumpEpoch implements persistence.Leadership.
func (s *Store) BumpEpoch(ctx context.Context, holder int64) (epoch int64, err error) {
	text, args := s.statements.bind("bump_epoch", named{"holder": holder})
	err = retry(ctx, func(ctx context.Context) error { return s.pool.QueryRow(ctx, text, args...).Scan(&epoch) })
	return epoch, err
}
