package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/family"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/workflow"
)

// SendSignalInTx implements persistence.Inbox. tx is a pgx.Tx. A signal that is refused leaves
// the caller's transaction usable: what is stored is behind a savepoint.
func (s *Store) SendSignalInTx(ctx context.Context, tx any, signal persistence.Signal) (answer persistence.SignalAnswer, err error) {
	err = s.inTxOf(ctx, tx, func(ctx context.Context, own pgx.Tx) error {
		var at place
		var room bool
		b := s.NewBatch()
		s.queueTenant(b, "", &room, &at)
		err := s.checkPlace(ctx, at, pgerr.Translate(pgsql.Send(ctx, own, b)))
		if err == nil {
			answer, err = s.Sender.SendInTx(ctx, own, signal)
		}
		return err
	})
	return answer, err
}

const (
	// deliverMax bounds the signals that one transaction delivers: as many as a run may have.
	deliverMax = persistence.InboxMax
	// deliverRounds bounds how often one call looks behind runs that are locked.
	deliverRounds = 4
)

// request is a row of the intake that asks for the delivery of the signals of a run.
type request struct {
	id    int64
	run   workflow.RunID
	there bool // the run is at work
}

// delivery is what one transaction did about requests.
type delivery struct {
	p          *decisionTx
	requests   []request
	more       bool
	left       pgsql.UUIDs // runs that are locked, or whose definitions are missing
	done       int         // requests, carried out in full or in part
	count      int         // signals
	dropped    int
	incomplete bool // a run has more signals than one transaction delivers
	related    bool // other runs were read
}

// deliver delivers the signals of the oldest requests, and adds what it did to out. Runs that
// are locked are passed over, and their requests stay.
func deliver(ctx context.Context, s *Store, limit int, out *persistence.Drained) error {
	var passed pgsql.UUIDs
	for range deliverRounds {
		done, err := deliverOldest(ctx, s, limit, passed)
		if err != nil {
			return err
		}
		more, left := false, len(passed)
		for _, d := range done {
			out.Now = pgsql.Later(out.Now, d.p.now)
			out.Requests, out.Delivered, out.Dropped = out.Requests+d.done, out.Delivered+d.count, out.Dropped+d.dropped
			mergeWake(&out.Wake, d.p.wake)
			more = more || d.more || d.incomplete
			passed = append(passed, d.left...)
			limit -= len(d.requests) - len(d.left)
		}
		if wait := s.quarantine.Again(); wait > 0 || len(passed) > 0 { // requests may be of runs that rest
			out.Again = max(wait, quarantine.AgainMin)
		}
		if !more || len(passed) == left || limit <= 0 {
			out.More = out.More || more
			return nil
		}
	}
	out.More = true
	return nil
}

// deliverOldest takes requests and carries them out in one transaction, or, where a run is in
// the way, in several.
func deliverOldest(ctx context.Context, s *Store, limit int, passed pgsql.UUIDs) (done []delivery, err error) {
	var first delivery
	carry := func(ids []int64, limit int, into *delivery) error {
		err := s.WithRegistry(ctx, func() error {
			return s.WriteShort(ctx, func(ctx context.Context, tx pgx.Tx) error {
				*into = delivery{p: s.newDecisionTx(tx)}
				return into.carryOut(ctx, ids, limit, passed)
			})
		})
		if errors.Is(err, pgerr.ErrTrial) {
			return nil
		}
		return err
	}
	err = carry(nil, limit, &first)
	if !blamesOne(err) {
		return []delivery{first}, err
	}
	find := func(requests []request, err error) error {
		if errors.Is(err, pgerr.ErrLockTimeout) {
			return s.quarantine.FindLocked(ctx, tasksOf(requests))
		}
		return nil
	}
	if failed := find(first.requests, err); failed != nil {
		return nil, failed
	}
	related := false
	err = pgsql.Bisect(first.requests, func(part []request) error {
		ids := make([]int64, len(part))
		for i, r := range part {
			ids[i] = r.id
		}
		var d delivery
		err := carry(ids, len(part), &d)
		related = d.related
		if failed := find(part, err); failed != nil {
			return failed
		}
		if err == nil {
			d.more = first.more
			done = append(done, d)
		}
		return err
	}, blamesOne, func(r request, err error) error {
		switch {
		case badRow(err):
			s.quarantine.RestTask(workflow.TaskID{Run: r.run})
			return nil
		case related && pgerr.Unreadable(err): // a child run may be damaged
			return s.quarantine.AddUnreadable(ctx, r.run, err)
		}
		return s.quarantine.RestAlone(ctx, workflow.TaskID{Run: r.run, Step: lifecycle.RunStep}, err)
	})
	return done, err
}

// carryOut carries out the oldest requests, or those of some numbers.
func (d *delivery) carryOut(ctx context.Context, ids []int64, limit int, passed pgsql.UUIDs) error {
	p := d.p
	if err := d.take(ctx, ids, limit, passed); err != nil {
		return err
	}
	if len(d.requests) == 0 {
		return p.s.ReadClock(ctx, p.tx, &p.now)
	}
	if err := d.load(ctx); err != nil {
		return err
	}
	if d.passesAll() {
		return pgerr.ErrTrial // other pods find the requests free as soon as the runs are
	}
	b := p.s.NewBatch()
	if err := d.sort(ctx, b, limit); err != nil {
		return err
	}
	if err := p.decide(ctx); err != nil {
		return err
	}
	for _, r := range p.runs {
		d.count += len(r.decision.Arrived)
	}
	p.dropped = &d.dropped
	p.gather() // in the order of the requests
	return p.write(ctx, b)
}

// passesAll leaves the requests if all of them are of runs that are locked, and reports whether
// they are.
func (d *delivery) passesAll() bool {
	if len(d.p.runs) > 0 || slices.ContainsFunc(d.requests, func(r request) bool { return !r.there }) {
		return false
	}
	for _, r := range d.requests {
		d.left = append(d.left, r.run)
	}
	return true
}

// take locks requests.
func (d *delivery) take(ctx context.Context, ids []int64, limit int, passed pgsql.UUIDs) error {
	without := d.p.s.quarantine.Excluded()
	b := d.p.s.NewBatch()
	b.Add("take_signals", pgsql.Named{
		"ids": ids, "skip": append(without.Runs, passed...), "foreign": without.Definitions, "limit": limit + 1,
	}).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r request, err error) {
			return r, row.Scan(&r.id, (*[16]byte)(&r.run), &r.there)
		})
		d.more = len(list) > limit
		d.requests = list[:min(len(list), limit)]
		return err
	})
	return pgsql.Send(ctx, d.p.tx, b)
}

// load locks and loads the runs of the requests that are not locked.
func (d *delivery) load(ctx context.Context) error {
	left, err := d.p.s.quarantine.LeaveOut(ctx, tasksOf(d.requests))
	if err != nil {
		return err
	}
	var wants []want
	for _, r := range d.requests {
		known := func(w want) bool { return w.run == r.run }
		if !left[r.run] && !slices.ContainsFunc(wants, known) {
			wants = append(wants, want{run: r.run})
		}
	}
	return d.p.loadFree(ctx, wants)
}

// tasksOf returns what is needed of the runs of requests: all tasks that have not ended.
func tasksOf(requests []request) taskIDs {
	tasks := make(taskIDs, len(requests))
	for i, r := range requests {
		tasks[i] = workflow.TaskID{Run: r.run, Step: lifecycle.RunStep}
	}
	return tasks
}

// sort finds out what is to be done about each request, and adds to b what ends it.
func (d *delivery) sort(ctx context.Context, b *pgsql.Batch, limit int) error {
	p := d.p
	var done []int64
	var over pgsql.UUIDs
	to := map[workflow.RunID]time.Time{}
	for _, r := range d.requests {
		switch of := p.byID[r.run]; {
		case of == nil && r.there:
			d.left = append(d.left, r.run)
			continue
		case of == nil || of.core.State.Terminal():
			over = append(over, r.run)
		default:
			to[r.run] = time.Time{}
		}
		done = append(done, r.id)
	}
	cut, err := d.hear(ctx, to, limit)
	if err != nil {
		return err
	}
	unread, err := p.arrive(ctx, to)
	if err != nil {
		return err
	}
	cut = quarantine.Union(cut, unread)
	d.incomplete = len(cut) > 0 // the rest of it, and of those behind it, is for another transaction
	done = slices.DeleteFunc(done, func(id int64) bool {
		run := d.requests[slices.IndexFunc(d.requests, func(r request) bool { return r.id == id })].run
		if p.left[run] && p.byID[run] != nil {
			d.left = append(d.left, run)
			return true
		}
		return cut[run]
	})
	d.done = len(d.requests) - len(d.left)
	if len(over) > 0 {
		b.Add("drop_undelivered", pgsql.Named{"runs": over}).QueryRow(func(row pgx.Row) error { return row.Scan(&d.dropped) })
	}
	b.Add("delete_intake", pgsql.Named{"ids": pgsql.OrEmpty(done)})
	return nil
}

// hear reads what runs have not heard of their child runs and of their parents. cut are runs of
// which it did not read all.
func (d *delivery) hear(ctx context.Context, to map[workflow.RunID]time.Time, limit int) (cut map[workflow.RunID]bool, err error) {
	var asked family.Asked
	p := d.p
	for _, r := range p.runs {
		if _, is := to[r.id]; !is {
			continue
		}
		if r.group != 0 && r.definition.Graph.HasChildren() {
			asked.Waiting = append(asked.Waiting, r.id)
		}
		if of := r.family; !of.Parent.Run.IsZero() && !of.Abandons {
			asked.Child(r.id, of.Parent)
		}
	}
	d.related = asked.Any()
	news, err := family.Hear(ctx, p.s.DB, p.tx, &asked, limit*family.HearMax)
	for id, facts := range news.Facts {
		p.byID[id].heard = facts
	}
	p.left = quarantine.Union(p.left, news.Left)
	return news.Cut, err
}

// arrive reads the signals of runs that are not delivered, of each run those that were sent until
// an instant (zero: all), and loads the steps that they and what the runs have heard are about. cut
// are runs of which it did not read all.
func (p *decisionTx) arrive(ctx context.Context, until map[workflow.RunID]time.Time) (cut map[workflow.RunID]bool, err error) {
	if len(until) == 0 {
		return nil, nil
	}
	var runs pgsql.UUIDs
	var untils pgsql.Instants
	for _, r := range p.runs {
		if at, is := until[r.id]; is {
			runs, untils = append(runs, r.id), append(untils, at)
		}
	}
	text, args := p.s.Bind("load_undelivered", pgsql.Named{"runs": runs, "untils": untils, "most": deliverMax})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	count := 0
	var last workflow.RunID
	var one undelivered
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&last), &one.id, &one.name}, func() error {
		r := p.byID[last]
		r.arriving = append(r.arriving, one)
		count++
		return nil
	})
	if err != nil {
		return nil, err
	}
	if count == deliverMax {
		cut = map[workflow.RunID]bool{}
		for _, id := range runs[slices.Index(runs, last):] {
			cut[id] = true
		}
	}
	return cut, p.loadTakers(ctx)
}

// loadTakers makes facts of the signals that arrive and of what runs hear of their families, and
// loads the steps that these are about.
func (p *decisionTx) loadTakers(ctx context.Context) error {
	var wants []want
	for _, r := range p.runs {
		steps := map[int32]bool{}
		for _, e := range r.arriving {
			fact := lifecycle.SignalArrived{Name: e.name}
			if r.group != 0 { // or it has no tasks yet
				fact.Steps = r.definition.Graph.WaitsFor(e.name)
			}
			for _, step := range fact.Steps {
				steps[step] = true
			}
			r.facts = append(r.facts, fact)
		}
		stops := false
		for _, fact := range r.heard {
			if ended, is := fact.(lifecycle.ChildEnded); is {
				steps[ended.Step] = true
			} else {
				stops = true
			}
		}
		r.facts = append(r.facts, r.heard...)
		if len(steps) > 0 || stops {
			wants = append(wants, want{run: r.id, steps: slices.Sorted(maps.Keys(steps)), open: stops})
		}
	}
	b := p.s.NewBatch()
	if len(wants) > 0 {
		p.s.queuePatience(b)
		p.queueTasks(b, wants)
	}
	return pgsql.Send(ctx, p.tx, b)
}
