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
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// begin adds a run that gets its tasks in this pass and starts it, unless it
// has to wait for its instant. It reports whether the run is plain: its first
// tasks go straight into the queue, which takes no decision. kept are the steps
// that another run has completed.
func (p *decisionTx) begin(r *run, tr *persistence.Trigger, kept []int32) bool {
	p.runs = append(p.runs, r)
	p.byID[r.id] = r
	at := lifecycle.Instant(tr.At)
	waits := at.After(p.now)
	if r.definition.Plain && !waits && len(tr.Edges) == 0 && len(kept) == 0 {
		for _, step := range r.definition.Roots {
			r.decision.Enqueued = append(r.decision.Enqueued, lifecycle.Enqueue{Step: step, Lane: lifecycle.LaneNew})
		}
		r.plain = true
		return true
	}
	p.prepare(r, tr.Edges)
	for _, step := range kept {
		r.tasks[step].Flags |= lifecycle.FlagKept
		r.touched[step] = true
	}
	if waits {
		p.setTimer(r, lifecycle.Timer{Step: lifecycle.RunStep, Kind: lifecycle.StartTimer, At: at})
		return false
	}
	r.facts = []lifecycle.Fact{lifecycle.RunStarted{}}
	return false
}

// prepare gives a run the tasks of its definition, with what conditions on the
// input say about them.
func (p *decisionTx) prepare(r *run, edges []persistence.EdgeResult) {
	tasks := r.definition.Tasks()
	events, signals, dynamic := r.core.Events, r.core.Signals, r.core.Dynamic // of what it has already
	r.core = r.definition.NewRun(edges)
	r.core.Events, r.core.Signals, r.core.Dynamic = max(r.core.Events, events), signals, dynamic
	r.core.Depth, r.core.Slow = r.family.Depth, r.core.Slow || r.family.Depth > 0
	r.tasks, r.complete, r.touched = make(map[int32]*task, len(tasks)), true, map[int32]bool{}
	for i := range tasks {
		step := int32(i)
		r.tasks[step] = &task{
			Task: tasks[i], handler: r.definition.Handlers[step], queue: r.definition.QueueOf(step, r.queue),
		}
	}
	for _, e := range r.definition.Edges(edges) {
		child := r.tasks[e.Child]
		if child == nil {
			continue // the failure handler's name
		}
		child.Flags |= lifecycle.InputFlags(e.Flags)
		child.Error, child.WakeAt = e.Error, lifecycle.Instant(e.WakeAt)
		r.touched[e.Child] = true
	}
}

func (p *decisionTx) setTimer(r *run, t lifecycle.Timer) {
	r.decision.Timers = append(r.decision.Timers, t)
}

// queueExpansion adds the tasks of the runs that this pass began.
func (p *decisionTx) queueExpansion(b *pgsql.Batch) {
	var ids pgsql.UUIDs
	var definitions []int32
	var queues []int16
	var plain []bool
	tasks := 0
	for _, r := range p.runs {
		ids, definitions = append(ids, r.id), append(definitions, r.number)
		queues, plain = append(queues, r.queue), append(plain, r.plain)
		tasks += int(r.definition.Count)
	}
	b.Add("expand_runs", pgsql.Named{
		"runs": ids, "definitions": definitions, "queues": queues, "plain": plain, "now": pgsql.Instant(p.now), "tasks": tasks,
	}).QueryRow(func(row pgx.Row) error {
		var one int
		err := row.Scan(&one)
		if pgerr.HasCode(err, pgerr.CodeDivisionByZero) { // steps were removed since they were read
			return pgerr.ErrRegistryLost
		}
		return err
	})
}

// DrainIntake implements persistence.Intake.
func (s *Store) DrainIntake(ctx context.Context, limit int) (persistence.Drained, error) {
	now, runs, signals, err := s.precheckIntake(ctx)
	if err != nil || !runs && !signals {
		return persistence.Drained{Now: now}, err
	}
	s.askForDefinitions(ctx)
	out := persistence.Drained{Now: now}
	if runs {
		if out, err = s.drainRuns(ctx, limit); err != nil {
			return persistence.Drained{}, err
		}
	}
	if signals || out.Wake.Submitted { // a run that has just begun may have ended, and told its parent
		err = deliver(ctx, s, min(limit, persistence.TriggerBatchMax), &out)
		if err != nil && out.Count+out.Requests+out.Delivered > 0 { // that is committed; the next call meets the error again
			out.More, err = true, nil
		}
	}
	if err != nil {
		return persistence.Drained{}, err
	}
	return out, nil
}

// drainRuns begins runs that wait in the intake.
func (s *Store) drainRuns(ctx context.Context, limit int) (out persistence.Drained, err error) {
	for n := 0; ; n++ {
		var groups []int32 // of the tenants that it is about
		err = s.Write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			out, groups, err = s.drain(ctx, tx, min(limit, persistence.TriggerBatchMax))
			return err
		})
		if !errors.Is(err, pgerr.ErrLockTimeout) || n > 0 {
			break
		}
		s.quarantine.LockTimeout(ctx)
		if err = s.quarantine.FindLockedTenants(ctx, groups); err != nil {
			break
		}
	}
	return out, err
}

// skippedMax bounds the tenants that one call leaves out of what it looks at.
const skippedMax = 100

// drain begins the runs of the oldest submissions, but of tenants that rest because their
// counters are locked. It returns the groups of those whose counters it needs.
func (s *Store) drain(ctx context.Context, tx pgx.Tx, limit int) (out persistence.Drained, groups []int32, err error) {
	skip, held := []string{}, []int32{}
	for {
		missing := s.quarantine.Excluded().Definitions
		met := len(missing)
		missing = append(missing, held...)
		t := newTriggering(s, tx, nil, registry.Names{})
		all, err := t.take(ctx, limit+1, skip, missing)
		if err != nil {
			return out, nil, err
		}
		taken := all[:min(len(all), limit)]
		out.More = len(all) > limit
		wants := make([]want, len(all)) // of one more, too: older pods may not know its workflow
		if len(taken) == 0 {
			return out, nil, s.ReadClock(ctx, tx, &out.Now)
		}
		for i := range wants {
			wants[i] = want{run: all[i].trigger.Run}
		}
		if err := t.loadFree(ctx, wants); err != nil {
			return out, nil, err
		}
		older, err := t.leaveOlder(ctx)
		if err != nil {
			return out, nil, err
		}
		held = append(held, older...)
		if out.More && (len(s.quarantine.Excluded().Definitions) > met || len(older) > 0) { // what was just met fills the call
			continue
		}
		free := t.byID
		t.runs, t.byID = nil, nil
		if t.found.tenants, err = t.drainTenants(ctx, taken, free); err != nil {
			return out, nil, err
		}
		t.byID = free
		groups = slices.Collect(maps.Values(t.found.tenants))
		resting, over := s.quarantine.LockedCounters(groups)
		again, err := s.quarantine.LockedTenants(ctx, tx, over)
		if err != nil {
			return out, groups, err
		}
		maps.Copy(resting, again)
		locked := namesOf(t.found.tenants, resting)
		if len(locked) > 0 {
			out.Again = max(s.quarantine.Again(), quarantine.AgainMin)
			if out.More && len(skip) < skippedMax { // those of others are behind them
				skip = append(skip, locked...)
				continue
			}
		}
		out, err = s.drainTaken(ctx, t, taken, locked, out)
		return out, groups, err
	}
}

// leaveOlder leaves out the runs of a drain that a living pod does not know, because it is of
// an older version. It returns their definitions.
func (t *triggering) leaveOlder(ctx context.Context) ([]int32, error) {
	var definitions []*registry.Definition
	for _, r := range t.byID {
		definitions = append(definitions, r.definition)
	}
	held, err := t.s.Outdated(ctx, t.tx, definitions)
	maps.DeleteFunc(t.byID, func(_ workflow.RunID, r *run) bool { return held[r.number] })
	return slices.Collect(maps.Keys(held)), err
}

// namesOf returns the tenants that are of some groups.
func namesOf(tenants map[string]int32, groups map[int32]bool) (names []string) {
	for name, group := range tenants {
		if groups[group] {
			names = append(names, name)
		}
	}
	return names
}

// drainTaken begins the runs of submissions, but those of some tenants.
func (s *Store) drainTaken(
	ctx context.Context, t *triggering, taken []submission, held []string, out persistence.Drained,
) (persistence.Drained, error) {
	done, count := t.expand(taken, held)
	b := s.NewBatch()
	b.Add("delete_intake", pgsql.Named{"ids": done})
	if count > 0 {
		t.s.QueueMatch(b, t.definitions())
		t.queueStarts(b)
		t.queueExpansion(b)
		if err := t.loadAgain(ctx); err != nil {
			return out, err
		}
		if err := t.decide(ctx); err != nil {
			return out, err
		}
	}
	t.gather() // in the order of the submissions
	if err := t.write(ctx, b); err != nil {
		return out, err
	}
	out.Now, out.Count, out.Wake = t.now, count, t.wake
	return out, nil
}

// loadAgain loads what machines have started in earlier runs and these execute again.
func (t *triggering) loadAgain(ctx context.Context) error {
	var wants []want
	for _, r := range t.runs {
		if r.core.Dynamic > 0 && len(r.facts) > 0 && r.definition.Graph.IsMachine() {
			wants = append(wants, want{run: r.id, open: true})
		}
	}
	if len(wants) == 0 {
		return nil
	}
	b := t.s.NewBatch()
	t.queueTasks(b, wants)
	if err := pgsql.Send(ctx, t.tx, b); err != nil {
		return err
	}
	for _, w := range wants {
		r := t.byID[w.run]
		r.core.Remaining += int32(len(r.tasks) - 1)
		r.core.Slow = r.core.Slow || len(r.tasks) > 1
	}
	return nil
}

// definitions returns those of the runs of the pass.
func (p *decisionTx) definitions() registry.Names {
	known := registry.Names{Definitions: map[workflow.Hash]*registry.Definition{}}
	for _, r := range p.runs {
		known.Definitions[r.definition.Graph.Hash] = r.definition
	}
	return known
}

// take locks the oldest submissions, but those of some tenants.
func (t *triggering) take(ctx context.Context, limit int, skip []string, missing []int32) ([]submission, error) {
	text, args := t.s.Bind("take_intake", pgsql.Named{"limit": limit, "skip": skip, "foreign": missing})
	rows, err := t.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (submission, error) {
		var sub submission
		var at *time.Time
		var edges []byte
		if err := row.Scan(&sub.id, (*[16]byte)(&sub.trigger.Run), &at, &edges, &sub.kept); err != nil {
			return sub, err
		}
		sub.trigger.At = pgsql.OrZero(at)
		var err error
		sub.trigger.Edges, err = decodeEdges(edges)
		return sub, err
	})
}

// expand begins the runs of submissions and returns which rows are done with.
// Runs that were canceled meanwhile never start; those of tenants that get no
// group, or are held, stay.
func (t *triggering) expand(taken []submission, held []string) (done []int64, count int) {
	for i := range taken {
		sub := &taken[i]
		r := t.byID[sub.trigger.Run]
		if r == nil {
			continue // held by a cancel right now
		}
		if !r.core.State.Terminal() {
			r.group = t.found.tenants[r.tenant]
			if r.group == 0 || slices.Contains(held, r.tenant) {
				continue
			}
			t.begin(r, &sub.trigger, sub.kept)
			count++
		}
		done = append(done, sub.id)
	}
	return done, count
}

// queueStarts adds the writes of the runs that drain began.
func (t *triggering) queueStarts(b *pgsql.Batch) {
	var ids pgsql.UUIDs
	var groups []int32
	var plain []bool
	for _, r := range t.runs {
		ids, groups, plain = append(ids, r.id), append(groups, r.group), append(plain, r.plain)
	}
	b.Add("start_runs", pgsql.Named{"runs": ids, "groups": groups, "plain": plain, "now": pgsql.Instant(t.now)})
}
