package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/elements"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// decisionTx is one transaction of the slow path: runs are locked and loaded,
// lifecycle decides, and all that it decided is written, or nothing. It is
// used once.
type decisionTx struct {
	s        *Store
	tx       pgx.Tx
	now      time.Time
	runs     []*run // in the order in which they were asked for
	byID     map[workflow.RunID]*run
	enqueued []enqueued
	wake     persistence.Wake
	dropped  *int                    // counts signals that arrive behind the end of their run; nil: their requests stay
	left     map[workflow.RunID]bool // runs that are there and were left out: their definitions are not
}

// enqueued is a task that became ready in this pass.
type enqueued struct {
	run     *run
	step    int32
	handler int32
	queue   int16
	lane    lifecycle.Lane
	suspect bool
	place   int64 // fair id, once given
}

// want says which rows of a run a fact needs.
type want struct {
	run   workflow.RunID
	steps []int32 // these and their children
	open  bool    // every task that has not ended
}

func (s *Store) newDecisionTx(tx pgx.Tx) *decisionTx {
	return &decisionTx{s: s, tx: tx, byID: map[workflow.RunID]*run{}, left: map[workflow.RunID]bool{}}
}

// load locks the runs and loads them with the wanted tasks, in one round trip. Runs that
// do not exist, or whose definitions are missing, are missing afterwards.
func (p *decisionTx) load(ctx context.Context, wants []want) error {
	ids := make(pgsql.UUIDs, len(wants))
	for i, w := range wants {
		ids[i] = w.run
	}
	b := p.s.NewBatch()
	p.s.queuePatience(b)
	b.Add("lock_runs", pgsql.Named{"runs": ids})
	return p.loadLocked(ctx, b, ids, ids, wants)
}

// loadFree is load for what can wait: it leaves out runs that are locked.
func (p *decisionTx) loadFree(ctx context.Context, wants []want) error {
	ids := make(pgsql.UUIDs, len(wants))
	for i, w := range wants {
		ids[i] = w.run
	}
	text, args := p.s.Bind("lock_runs_free", pgsql.Named{"runs": ids})
	rows, err := p.tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	free, err := runSet(rows)
	if err != nil {
		return err
	}
	gone := func(id workflow.RunID) bool { return !free[id] }
	wants = slices.DeleteFunc(slices.Clone(wants), func(w want) bool { return gone(w.run) })
	return p.loadLocked(ctx, p.s.NewBatch(), slices.DeleteFunc(slices.Clone(ids), gone), ids, wants)
}

// runSet reads rows of one id each.
func runSet(rows pgx.Rows) (map[workflow.RunID]bool, error) {
	set := map[workflow.RunID]bool{}
	var id [16]byte
	_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		set[id] = true
		return nil
	})
	return set, err
}

// queuePatience adds a shorter limit of waits for locks to a transaction, while locks are
// in the way: what is locked was left out before.
func (s *Store) queuePatience(b *pgsql.Batch) {
	if s.quarantine.Skipping() {
		b.Queue(quarantine.SkipPatience)
	}
}

// loadLocked sends b, which locks runs, and loads them, and those of all that are in
// history.
func (p *decisionTx) loadLocked(ctx context.Context, b *pgsql.Batch, ids, all pgsql.UUIDs, wants []want) error {
	b.Add("load_runs", pgsql.Named{"runs": ids}).Query(func(rows pgx.Rows) error {
		runs, err := pgx.CollectRows(rows, scanRun)
		for _, r := range runs {
			p.byID[r.id] = r
		}
		return err
	})
	p.queueTasks(b, wants)
	b.Add("read_clock", pgsql.Named{}).QueryRow(func(row pgx.Row) error { return row.Scan(&p.now) })
	if err := pgsql.Send(ctx, p.tx, b); err != nil {
		return err
	}
	if err := p.loadArchived(ctx, all); err != nil {
		return err
	}
	for _, id := range all {
		if r := p.byID[id]; r != nil && !r.listed {
			r.listed = true
			p.runs = append(p.runs, r)
		}
	}
	return p.define(ctx)
}

// define fills in the definitions of the runs. Runs of other programs whose definitions
// are gone are left out.
func (p *decisionTx) define(ctx context.Context) error {
	runs := p.runs[:0]
	for _, r := range p.runs {
		d, err := p.s.knownOf(ctx, p.tx, r.number)
		if err != nil {
			return err
		}
		if d == nil {
			delete(p.byID, r.id)
			p.left[r.id] = true
			continue
		}
		r.definition = d
		r.core.Policy, r.core.Steps, r.core.HasHandler = d.Graph.Policy, d.Graph.Steps(), d.Graph.OnFailure != nil
		runs = append(runs, r)
	}
	p.runs = runs
	return nil
}

// queueTasks adds the statements that load tasks to a batch.
func (p *decisionTx) queueTasks(b *pgsql.Batch, wants []want) {
	var ids, open pgsql.UUIDs
	var steps []int32
	for _, w := range wants {
		if w.open {
			open = append(open, w.run)
		}
		for _, step := range w.steps {
			ids, steps = append(ids, w.run), append(steps, step)
		}
	}
	keep := func(rows pgx.Rows) error {
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			id, t, err := scanTask(row)
			if r := p.byID[id]; r != nil {
				r.tasks[t.Step] = t
			}
			return struct{}{}, err
		})
		return err
	}
	if len(ids) > 0 {
		b.Add("load_tasks", pgsql.Named{"runs": ids, "steps": steps}).Query(keep)
	}
	if len(open) > 0 {
		b.Add("load_open_tasks", pgsql.Named{"runs": open}).Query(func(rows pgx.Rows) error {
			for _, id := range open {
				if r := p.byID[id]; r != nil {
					r.complete = true
				}
			}
			return keep(rows)
		})
	}
}

// queueUntaken adds the statement that loads the inboxes of runs.
func (p *decisionTx) queueUntaken(b *pgsql.Batch, runs pgsql.UUIDs) {
	if len(runs) == 0 {
		return
	}
	b.Add("load_untaken", pgsql.Named{"runs": runs}).Query(func(rows pgx.Rows) error {
		for _, id := range runs {
			p.byID[id].inboxKnown = true
		}
		var run workflow.RunID
		var one undelivered
		_, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&run), &one.id, &one.n, &one.name}, func() error {
			r := p.byID[run]
			r.inbox = append(r.inbox, one)
			return nil
		})
		return err
	})
}

// decisionsMax bounds how often a decision is made again with more rows: with
// the tasks named and their children, then with all that have not ended, then
// with those that have and are named all the same, and with the inbox and maps once.
const decisionsMax = 6

// decide applies the facts of every run.
func (p *decisionTx) decide(ctx context.Context) error {
	undecided := p.runs
	for range decisionsMax {
		var wants []want
		var missing []*run
		var boxes pgsql.UUIDs
		var mapped []workflow.TaskID
		for _, r := range undecided {
			if len(r.facts) == 0 {
				continue
			}
			r.decision = lifecycle.Decide(r.core, r.rows(), r.facts, p.now)
			rows := r.decision.MissingAll || len(r.decision.Missing) > 0
			if rows {
				wants = append(wants, want{run: r.id, steps: r.decision.Missing, open: true})
			}
			if r.decision.MissingInbox {
				boxes = append(boxes, r.id)
			}
			for _, step := range r.decision.MissingMaps {
				mapped = append(mapped, workflow.TaskID{Run: r.id, Step: step})
			}
			if rows || r.decision.MissingInbox || len(r.decision.MissingMaps) > 0 {
				missing = append(missing, r)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		b := p.s.NewBatch()
		p.queueTasks(b, wants)
		p.queueUntaken(b, boxes)
		elements.QueueLoad(b, mapped, p.keepMap)
		if err := pgsql.Send(ctx, p.tx, b); err != nil {
			return err
		}
		undecided = missing
	}
	return pgerr.ErrUndecided
}

// keepMap keeps how far a map has come that was asked for.
func (p *decisionTx) keepMap(id workflow.RunID, m lifecycle.Map) {
	r := p.byID[id]
	m.Name = r.definition.Node(m.Step).Name
	r.maps = append(slices.DeleteFunc(r.maps, func(of lifecycle.Map) bool { return of.Step == m.Step }), m)
}

func sortRuns(ids []workflow.RunID) {
	slices.SortFunc(ids, func(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) })
}

// target returns where a task that became ready waits, and for whom.
func (r *run) target(step int32) (handler int32, queue int16) {
	if t := r.tasks[step]; t != nil {
		return t.handler, t.queue
	}
	step = r.declared(step)
	return r.definition.Handlers[step], r.definition.QueueOf(step, r.queue)
}

func (p *decisionTx) noteTimer(at time.Time) {
	if p.wake.NextTimer.IsZero() || at.Before(p.wake.NextTimer) {
		p.wake.NextTimer = at
	}
}

// knownOf returns the definition of a run, or nil if it is another program's, which has to
// register it again.
func (s *Store) knownOf(ctx context.Context, on pgsql.Querier, number int32) (*registry.Definition, error) {
	d, err := s.DefinitionOf(ctx, on, number)
	if errors.Is(err, pgerr.ErrRegistryLost) && !s.Catalog.OwnsNumber(number) {
		s.quarantine.AddDefinition(ctx, number)
		return nil, nil
	}
	return d, err
}

// loadArchived loads those of the runs that are in history, with all of their
// tasks: a late caller learns from them that everything is over. Nothing that
// happens to them changes them, so nothing is locked.
func (p *decisionTx) loadArchived(ctx context.Context, ids pgsql.UUIDs) error {
	missing := slices.DeleteFunc(slices.Clone(ids), func(id workflow.RunID) bool { return p.byID[id] != nil })
	if len(missing) == 0 {
		return nil
	}
	b := p.s.NewBatch()
	b.Add("load_archived", pgsql.Named{"runs": missing}).Query(func(rows pgx.Rows) error {
		runs, err := pgx.CollectRows(rows, scanRun)
		for _, r := range runs {
			r.complete = true
			p.byID[r.id] = r
		}
		return err
	})
	b.Add("load_archived_tasks", pgsql.Named{"runs": missing}).Query(func(rows pgx.Rows) error {
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			id, t, err := scanTask(row)
			if r := p.byID[id]; r != nil {
				r.tasks[t.Step] = t
			}
			return struct{}{}, err
		})
		return err
	})
	return pgsql.Send(ctx, p.tx, b)
}
