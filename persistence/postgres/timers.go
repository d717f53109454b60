package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
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
	look, begun := s.front.look(epoch), clock.System{}.Now()
	out, due, err := s.lookTimers(ctx, epoch, look.from())
	switch {
	case err != nil:
	case due || s.front.isBehindDue():
		s.passedOver(ctx)
		out, err = s.fireDue(ctx, epoch, limit, look, begun)
	case look.whole:
		s.front.parted(part{first: look.back.IsZero(), took: clock.System{}.Now().Sub(begun)})
		out.More = !look.back.IsZero() // and now from the first timer on
	}
	if err != nil {
		if look.whole {
			s.front.failed(clock.System{}.Now().Sub(begun))
		}
		return out, err
	}
	s.sweepParked(ctx, epoch, &out)
	if at, crowd := s.front.next(); crowd {
		callWithin(&out, at)
	}
	return out, nil
}

// callWithin has the next call made within d.
func callWithin(out *persistence.Fired, d time.Duration) {
	if at := out.Now.Add(d); out.Next.IsZero() || at.Before(out.Next) {
		out.Next = at
	}
}

// fireDue fires at most limit timers: those of a part of all that is due, if the look is
// at that; if there are others, those from the front on; and those that became due last.
func (s *Store) fireDue(
	ctx context.Context, epoch int64, limit int, look timerLook, begun time.Time,
) (out persistence.Fired, err error) {
	left, beyond, next := limit, true, look.from()
	if look.whole {
		fired, w, err := s.fireSome(ctx, epoch, walk{which: dueOldest, from: next, next: next, most: wholePart, limit: (left + 1) / 2})
		if err != nil {
			return out, err
		}
		parked := w.missing > 0 && s.parkTimers(ctx, epoch, look.back)
		s.front.parted(part{
			first: look.back.IsZero(), crowd: w.crowd(), end: w.end(look.back, fired.Count),
			moved: parked || fired.Count > 0, took: clock.System{}.Now().Sub(begun),
		})
		out = fired
		left, beyond = left-len(w.due), w.crowd()
		again := w.crowd() || !look.back.IsZero() // or from the first timer on
		out.More = parked || w.full && fired.Count > 0 || again && s.front.pause() == 0
		if w.full && !out.More {
			callWithin(&out, time.Second) // what comes next is not known
		}
		if !w.more() || left == 0 {
			return out, nil
		}
	}
	if beyond {
		fired, w, err := s.firePast(ctx, epoch, look.front, (left+1)/2)
		if !fired.Now.IsZero() {
			mergeFired(&out, fired)
		}
		if err != nil {
			return unlessFired(out, err)
		}
		if left -= len(w.due); !w.more() || left == 0 {
			return out, nil
		}
		next = s.front.look(epoch).front
	}
	fired, _, err := s.fireSome(ctx, epoch, walk{which: dueLatest, from: next, next: next, blind: out.More, most: wholePart, limit: left})
	if err != nil {
		return unlessFired(out, err)
	}
	mergeFired(&out, fired)
	return out, nil
}

// firePast fires at most limit timers behind those that cannot fire: now and then some
// that the front has passed, and those from the front on.
func (s *Store) firePast(ctx context.Context, epoch int64, front time.Time, limit int) (out persistence.Fired, w walked, err error) {
	if from, is := s.front.lookBehind(); is {
		if out, w, err = s.fireSome(ctx, epoch, walk{which: dueOldest, from: from, blind: true, most: frontPart, limit: (limit + 1) / 2}); err != nil {
			return out, w, err
		}
		if out.More = s.front.lookedBehind(w.end(from, out.Count), w.more()); len(w.due) == limit {
			return out, w, nil
		}
	}
	ahead, along, err := s.fireSome(ctx, epoch, walk{which: dueOldest, from: front, next: front, most: frontPart, limit: limit - len(w.due)})
	if err != nil {
		return out, w, err
	}
	s.front.advance(along.end(front, ahead.Count), along.now, along.more())
	ahead.More = along.more()
	mergeFired(&out, ahead)
	along.due = append(along.due, w.due...)
	return out, along, nil
}

// unlessFired is what a call returns of which one part failed: the error, but if others
// have fired, since the next call finds it, if it lasts.
func unlessFired(out persistence.Fired, err error) (persistence.Fired, error) {
	if out.Now.IsZero() {
		return out, err
	}
	callWithin(&out, time.Second)
	return out, nil
}

// mergeFired adds what more fired, after it.
func mergeFired(into *persistence.Fired, more persistence.Fired) {
	into.Count += more.Count
	into.Late = append(into.Late, more.Late...)
	slices.SortFunc(into.Late, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	into.Now, into.Next, into.More = more.Now, more.Next, into.More || more.More
	mergeWake(&into.Wake, more.Wake)
}

// walk is one way along what is due.
type walk struct {
	which string
	from  time.Time // where it begins
	next  time.Time // where the look for what comes next does
	most  int       // timers that it walks past
	limit int       // that it chooses
	blind bool      // nobody asks what comes next
}

// walked is what a walk found.
type walked struct {
	due     []dueTimer
	missing int       // others, of runs that are not there
	last    time.Time // when the last is due that it walked past
	now     time.Time // what was due then
	full    bool      // it may not have come to the end
	over    bool      // it may have chosen not all
}

// more reports whether there may be others that are due.
func (w walked) more() bool { return w.full || w.over }

// crowd reports whether others hide behind what cannot fire.
func (w walked) crowd() bool { return w.full && !w.over }

// end is where the next one may go on, after one that began with an instant and of which
// so many fired. What cannot fire and is due at one and the same instant may be more than
// a walk.
func (w walked) end(from time.Time, fired int) time.Time {
	end := w.last
	if w.over {
		end = w.due[len(w.due)-1].wakeAt
	}
	if !end.After(from) && !(w.over && fired > 0) {
		end = from.Add(time.Microsecond)
	}
	return end
}

// fireSome fires timers that it comes past.
func (s *Store) fireSome(ctx context.Context, epoch int64, along walk) (out persistence.Fired, w walked, err error) {
	_, err = s.around(ctx, along.limit, func(limit int) (first workflow.RunID, err error) {
		along.limit = limit
		err = s.lead(ctx, epoch, func(ctx context.Context, tx pgx.Tx, mode locking) error {
			if w, err = s.chooseTimers(ctx, tx, along, mode); err != nil {
				return err
			}
			if len(w.due) > 0 {
				first = w.due[0].Run
			}
			if out, err = s.fire(ctx, tx, w.due, mode); err != nil || along.blind || w.full && along.which == dueOldest {
				return err // there is more to be walked past first
			}
			return s.nextTimer(ctx, tx, along.next, &out.Next)
		})
		return first, err
	})
	if err != nil {
		return persistence.Fired{}, walked{}, err
	}
	return out, w, nil
}

// knownTimers are the kinds of timers that this version knows.
var knownTimers = func() (kinds []int16) {
	for kind := lifecycle.TimerKind(1); kind <= lifecycle.TimerKindMax; kind++ {
		if kind.Known() {
			kinds = append(kinds, int16(kind))
		}
	}
	return kinds
}()

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
	kind   lifecycle.TimerKind
	wakeAt time.Time
}

// needs returns of what tasks rows are needed to fire it: a wait that was too long may
// fail the run.
func (t dueTimer) needs() workflow.TaskID {
	if t.kind == lifecycle.QueueTimer {
		return workflow.TaskID{Run: t.Run, Step: lifecycle.RunStep}
	}
	return t.TaskID
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
	if err := p.decide(ctx); err != nil {
		return out, err
	}
	b := s.newBatch()
	p.queueFired(b, slices.DeleteFunc(fired, func(t timer) bool { return p.left[t.task.Run] }))
	if err := p.conclude(ctx, b); err != nil {
		return out, err
	}
	for run, list := range at {
		if p.left[run.id] {
			continue
		}
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

// dueTimers chooses timers that are due.
func (s *Store) dueTimers(ctx context.Context, tx pgx.Tx, along walk) (w walked, err error) {
	text, args := s.statements.bind(along.which, named{
		"from": instant(along.from), "walk": along.most, "limit": along.limit, "skip": s.lost.list(), "foreign": s.foreign.list(),
		"kinds": knownTimers,
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return w, err
	}
	var count, later int
	var last, wakeAt *time.Time
	var run *[16]byte
	var step *int32
	var kind *int16
	_, err = pgx.ForEachRow(rows, []any{&w.now, &count, &w.missing, &later, &last, &run, &step, &kind, &wakeAt}, func() error {
		if run != nil {
			w.due = append(w.due, dueTimer{workflow.TaskID{Run: *run, Step: *step}, lifecycle.TimerKind(*kind), *wakeAt})
		}
		return nil
	})
	s.foreign.addTimers(ctx, later)
	w.last = orZero(last)
	w.full = count >= along.most
	w.over = len(w.due) > 0 && len(w.due) >= along.limit
	return w, err
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
	b.add("delete_timers", named{"runs": ids, "steps": steps, "kinds": kinds, "known": knownTimers})
}

func (s *Store) nextTimer(ctx context.Context, on querier, from time.Time, into *time.Time) error {
	text, args := s.statements.bind("next_timer", named{
		"from": instant(from), "skip": s.lost.list(), "foreign": s.foreign.list(), "walk": wholePart,
		"kinds": knownTimers,
	})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	next, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*time.Time])
	*into = orZero(next)
	return err
}
