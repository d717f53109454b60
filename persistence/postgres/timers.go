package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/workflow"
)

// timersMax is how many due timers one look walks past: those that cannot fire now may
// stand before others.
const timersMax = 5000

// timerScan is where a leader's next look for the oldest due timers begins: behind those
// that cannot fire, until it has come to the end. It is safe for concurrent use.
type timerScan struct {
	mu    sync.Mutex
	epoch int64
	from  time.Time // zero: at the first timer
}

func (t *timerScan) next(epoch int64) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != epoch {
		t.epoch, t.from = epoch, time.Time{}
	}
	return t.from
}

func (t *timerScan) set(from time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.from = from
}

// FireTimers implements persistence.Timekeeping. Timers of runs in quarantine, and of
// those that turn out to be locked, are left for a later call; those of runs that were
// deleted are removed.
func (s *Store) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	s.askForDefinitions(ctx)
	out, due, err := s.precheckTimers(ctx, epoch, s.quarantine.Excluded())
	if err == nil && due {
		f := firing{s: s, epoch: epoch}
		err = f.all(ctx, limit)
		out = f.out
	}
	if err != nil {
		return persistence.Fired{}, err
	}
	if wait := s.quarantine.Again(); wait > 0 {
		callWithin(&out, wait)
	}
	return out, nil
}

// callWithin has the next call made within d.
func callWithin(out *persistence.Fired, d time.Duration) {
	if at := out.Now.Add(d); out.Next.IsZero() || at.Before(out.Next) {
		out.Next = at
	}
}

// firing is one call of FireTimers.
type firing struct {
	s     *Store
	epoch int64
	out   persistence.Fired
}

// all fires at most limit timers: half of them are those that have been due for longest,
// the others those that became due last.
func (f *firing) all(ctx context.Context, limit int) error {
	from := f.s.timers.next(f.epoch)
	oldest, err := f.due(ctx, from, (limit+1)/2, false)
	if err != nil {
		return err
	}
	if oldest.orphans > 0 {
		if err := f.deleteOrphans(ctx, from); err != nil {
			return err
		}
	}
	if err := f.fire(ctx, oldest.due); err != nil {
		return err
	}
	if more := len(oldest.due) == (limit+1)/2 || oldest.full; more && limit > 1 {
		latest, err := f.due(ctx, time.Time{}, limit/2, true)
		if err == nil {
			err = f.fire(ctx, latest.due)
		}
		if err != nil {
			return err
		}
	}
	stuck := oldest.full && len(oldest.due) == 0 // none of those can fire
	switch {
	case stuck && oldest.last.After(from): // others of the last instant may be behind them
		f.s.timers.set(oldest.last)
	case stuck:
		f.s.timers.set(oldest.last.Add(time.Microsecond))
	case !oldest.full:
		f.s.timers.set(time.Time{})
	}
	f.out.More = stuck || !from.IsZero() && f.out.Count > 0 || f.out.Orphans > 0
	return f.next(ctx)
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

// fire fires timers, in one transaction unless one of them is in the way.
func (f *firing) fire(ctx context.Context, due []dueTimer) error {
	return pgsql.Bisect(due, func(part []dueTimer) error {
		tasks := make(taskIDs, len(part))
		for i, t := range part {
			tasks[i] = t.needs()
		}
		left, err := f.s.quarantine.LeaveOut(ctx, tasks)
		if err != nil {
			return err
		}
		part = slices.DeleteFunc(slices.Clone(part), func(t dueTimer) bool { return left[t.Run] })
		if len(part) == 0 {
			return nil
		}
		var fired persistence.Fired
		err = f.s.Fenced(ctx, f.epoch, func(ctx context.Context, tx pgx.Tx) (err error) {
			fired, err = f.fireIn(ctx, tx, part)
			return err
		})
		if errors.Is(err, pgerr.ErrLockTimeout) {
			if failed := f.s.quarantine.FindLocked(ctx, tasks); failed != nil {
				return failed
			}
		}
		if err == nil {
			mergeFired(&f.out, fired)
		}
		return err
	}, blamesOne, func(t dueTimer, err error) error { return f.s.quarantine.RestAlone(ctx, t.TaskID, err) })
}

// mergeFired adds what more fired, after it.
func mergeFired(into *persistence.Fired, more persistence.Fired) {
	into.Count += more.Count
	into.Late = append(into.Late, more.Late...)
	slices.SortFunc(into.Late, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	into.Now = more.Now
	mergeWake(&into.Wake, more.Wake)
}

func (f *firing) fireIn(ctx context.Context, tx pgx.Tx, due []dueTimer) (out persistence.Fired, err error) {
	p := f.s.newDecisionTx(tx)
	if err := p.load(ctx, dueWants(due)); err != nil {
		return out, err
	}
	fired, err := p.readTimers(ctx, due)
	if err != nil {
		return out, err
	}
	if fired, err = p.before(ctx, fired); err != nil {
		return out, err
	}
	at := p.firedFacts(fired)
	if err := p.decide(ctx); err != nil {
		return out, err
	}
	b := f.s.NewBatch()
	p.queueFired(b, fired)
	if err := p.conclude(ctx, b); err != nil {
		return out, err
	}
	for run, list := range at {
		for i, t := range list {
			if run.decision.Answers[len(run.arriving)+i] == lifecycle.Moved {
				out.Count++
				out.Late = append(out.Late, p.now.Sub(t.wakeAt))
			}
		}
	}
	out.Now, out.Wake = p.now, p.wake
	return out, nil
}

// dueScan is what one look at due timers found.
type dueScan struct {
	due     []dueTimer
	orphans int       // others, of runs that were deleted
	last    time.Time // when the last is due that it walked past
	full    bool      // it has not come to the end
}

// due chooses at most limit timers that are due, those that became due first or
// last. Where the server cannot read all runs it chooses without a look at them.
func (f *firing) due(ctx context.Context, from time.Time, limit int, latest bool) (found dueScan, err error) {
	without := f.s.quarantine.Excluded()
	args := pgsql.Named{
		"from": pgsql.Instant(from), "walk": timersMax, "limit": limit, "latest": latest, "blind": false, "skip": without.Runs,
		"but": without.Counters, "foreign": without.Definitions, "kinds": knownTimers,
	}
	read := func(ctx context.Context) error {
		text, values := f.s.Bind("due_timers", args)
		rows, err := f.s.Conns.Query(ctx, text, values...)
		if err != nil {
			return err
		}
		found, err = f.readDue(ctx, rows)
		return err
	}
	if err = pgerr.Retry(ctx, read); pgerr.Unreadable(err) {
		args["blind"] = true
		err = pgerr.Retry(ctx, read)
	}
	return found, err
}

func (f *firing) readDue(ctx context.Context, rows pgx.Rows) (found dueScan, err error) {
	var count, unknown int
	var last, wakeAt *time.Time
	var run *[16]byte
	var step *int32
	var kind *int16
	_, err = pgx.ForEachRow(rows, []any{&count, &found.orphans, &unknown, &last, &run, &step, &kind, &wakeAt}, func() error {
		if run != nil {
			found.due = append(found.due, dueTimer{workflow.TaskID{Run: *run, Step: *step}, lifecycle.TimerKind(*kind), *wakeAt})
		}
		return nil
	})
	found.last, found.full = pgsql.OrZero(last), count >= timersMax
	if unknown > 0 {
		f.s.laterTimers.Do(func() { f.warnLaterTimers(ctx, unknown) })
	}
	return found, err
}

// warnLaterTimers says that there are timers of kinds that this version does not know.
func (f *firing) warnLaterTimers(ctx context.Context, count int) {
	if f.s.quarantine.Log != nil {
		f.s.quarantine.Log.LogAttrs(ctx, slog.LevelWarn, "timers are due that only a later version of the engine knows, and are left to it: start a pod of that version",
			slog.Int("timer_count", count))
	}
}

// deleteOrphans removes due timers of runs that were deleted.
func (f *firing) deleteOrphans(ctx context.Context, from time.Time) error {
	return f.s.Fenced(ctx, f.epoch, func(ctx context.Context, tx pgx.Tx) error {
		text, args := f.s.Bind("delete_orphans", pgsql.Named{
			"from": pgsql.Instant(from), "walk": timersMax, "skip": f.s.quarantine.Excluded().Runs, "kinds": knownTimers,
		})
		return tx.QueryRow(ctx, text, args...).Scan(&f.out.Orphans)
	})
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
func (p *decisionTx) readTimers(ctx context.Context, due []dueTimer) ([]timer, error) {
	var ids pgsql.UUIDs
	steps, kinds := []int32{}, []int16{}
	for _, t := range due {
		if p.byID[t.Run] != nil {
			ids, steps, kinds = append(ids, t.Run), append(steps, t.Step), append(kinds, int16(t.kind))
		}
	}
	text, args := p.s.Bind("read_timers", pgsql.Named{
		"runs": pgsql.OrEmpty(ids), "steps": steps, "kinds": kinds, "now": pgsql.Instant(p.now),
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

// before makes facts of the signals that were sent before deadlines of their runs, so that
// these are decided after them. It returns the timers without those of runs that have more such
// signals than one transaction delivers: they are due again.
func (p *decisionTx) before(ctx context.Context, fired []timer) ([]timer, error) {
	until := map[workflow.RunID]time.Time{}
	for _, t := range fired {
		if t.kind == lifecycle.DeadlineTimer && t.wakeAt.After(until[t.task.Run]) {
			until[t.task.Run] = t.wakeAt
		}
	}
	maps.DeleteFunc(until, func(id workflow.RunID, _ time.Time) bool { return p.byID[id].core.State.Terminal() })
	cut, err := p.arrive(ctx, until)
	return slices.DeleteFunc(fired, func(t timer) bool { return cut[t.task.Run] }), err
}

// firedFacts turns timers into facts of their runs and returns which timer
// each fact is.
func (p *decisionTx) firedFacts(fired []timer) map[*run][]timer {
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
func (p *decisionTx) queueFired(b *pgsql.Batch, fired []timer) {
	if len(fired) == 0 {
		return
	}
	var ids pgsql.UUIDs
	var steps []int32
	var kinds []int16
	for _, t := range fired {
		ids, steps, kinds = append(ids, t.task.Run), append(steps, t.task.Step), append(kinds, int16(t.kind))
	}
	b.Add("delete_timers", pgsql.Named{"runs": ids, "steps": steps, "kinds": kinds, "known": knownTimers})
}

// next reads when the earliest timer is due that may fire.
func (f *firing) next(ctx context.Context) error {
	without := f.s.quarantine.Excluded()
	text, args := f.s.Bind("next_timer", pgsql.Named{
		"skip": without.Runs, "but": without.Counters, "foreign": without.Definitions, "walk": timersMax, "kinds": knownTimers,
	})
	var next *time.Time
	err := pgerr.Retry(ctx, func(ctx context.Context) error { return f.s.Conns.QueryRow(ctx, text, args...).Scan(&f.out.Now, &next) })
	if pgerr.Unreadable(err) { // the next call finds what that is
		callWithin(&f.out, quarantine.AgainMin)
		return nil
	}
	f.out.Next = pgsql.OrZero(next)
	return err
}
