package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// fast stores plain successes of runs that are not slow and leaves the other
// transitions: those of slow runs, and those that are not this pod's to report.
func (r *recording) fast(ctx context.Context, indexes []int, ending ending) error {
	f := r.newFast(indexes)
	var err error
	if ending == commits && r.record.TenantLimit == 0 {
		err = f.pipeline(ctx)
	} else {
		err = r.s.begin(ctx, ending, func(ctx context.Context, tx pgx.Tx) error { return f.inTx(ctx, tx) })
	}
	if err != nil {
		return err
	}
	for _, i := range f.rest() {
		r.left[i] = true
	}
	return r.merge(ctx, r.s.Conns, f)
}

// fastRecord is one transaction of the fast path.
type fastRecord struct {
	*recording
	indexes []int
	runs    pgsql.UUIDs // of the transitions, as their steps and epochs
	steps   []int32
	epochs  []int64
	rooms   map[int32]int

	alive   bool
	now     time.Time
	ords    []int32 // of what was recorded, counted from 1
	ended   [][16]byte
	endedOf []int32         // the numbers of their definitions
	queues  []int32         // one per child that waits now
	known   bool            // the claim had grants before
	looked  adaptive.Looked // at the heads of queues

	answered bool // by record_small

	grantedRuns   [][16]byte // what was granted to this pod, by column
	grantedSteps  []int32
	grantedEpochs []int64
}

func (r *recording) newFast(indexes []int) *fastRecord {
	n := len(indexes)
	f := &fastRecord{recording: r, indexes: indexes, runs: make(pgsql.UUIDs, n), steps: make([]int32, n), epochs: make([]int64, n)}
	for i, at := range indexes {
		t := &r.record.Transitions[at]
		f.runs[i], f.steps[i], f.epochs[i] = t.Task.Run, t.Task.Step, t.Epoch
	}
	return f
}

// pipeline is the whole transaction in one round trip.
func (f *fastRecord) pipeline(ctx context.Context) error {
	if queue := f.small(); queue != 0 {
		if err := f.pipelineOf(ctx, func(b *pgsql.Batch) { f.queueSmall(b, queue) }); err != nil {
			return err
		}
		if f.answered {
			f.s.recordSmall.Hit(queue)
			return nil
		}
		f.s.recordSmall.Missed(queue)
	}
	return f.pipelineOf(ctx, f.queueRecord)
}

// pipelineOf is the transaction with one of the two statements that record.
func (f *fastRecord) pipelineOf(ctx context.Context, queueRecord func(*pgsql.Batch)) error {
	b := f.s.NewBatch()
	f.s.queuePatience(b)
	f.queueAlive(b)
	b.Add("lock_runs", pgsql.Named{"runs": f.runs})
	queueRecord(b)
	if err := pgsql.Send(ctx, f.s.Conns, b); err != nil {
		return err
	}
	if !f.alive {
		return persistence.ErrPodDead
	}
	return nil
}

// inTx is the transaction in several round trips: it is the caller's, or tenants' running
// tasks are counted first.
func (f *fastRecord) inTx(ctx context.Context, tx pgx.Tx) error {
	b := f.s.NewBatch()
	f.s.queuePatience(b)
	f.queueAlive(b)
	b.Add("lock_runs", pgsql.Named{"runs": f.runs})
	if err := pgsql.Send(ctx, tx, b); err != nil {
		return err
	}
	if !f.alive {
		return persistence.ErrPodDead
	}
	if err := f.makeRoom(ctx, tx); err != nil {
		return err
	}
	b = f.s.NewBatch()
	f.queueRecord(b)
	return pgsql.Send(ctx, tx, b)
}

// makeRoom finds out how many tasks more the tenants of the batch may run.
func (f *fastRecord) makeRoom(ctx context.Context, tx pgx.Tx) error {
	if f.record.TenantLimit == 0 || f.record.Limit == 0 {
		return nil
	}
	text, args := f.s.Bind("fast_tasks", pgsql.Named{"pod": f.record.Pod, "runs": f.runs, "steps": f.steps, "epochs": f.epochs})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var ord, group int32
	var groups []int32
	var own []persistence.Transition
	_, err = pgx.ForEachRow(rows, []any{&ord, &group}, func() error {
		own = append(own, f.record.Transitions[f.indexes[ord-1]])
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(groups)
	f.rooms, err = f.s.rooms(ctx, tx, groups, own, f.record.TenantLimit)
	if len(f.rooms) == 0 {
		f.rooms = map[int32]int{0: 0} // another pod counts them all
	}
	return err
}

func (f *fastRecord) queueAlive(b *pgsql.Batch) {
	f.alive = false
	b.Add("check_pod", pgsql.Named{"pod": f.record.Pod}).Query(func(rows pgx.Rows) error {
		_, err := pgx.CollectRows(rows, func(pgx.CollectableRow) (struct{}, error) {
			f.alive = true
			return struct{}{}, nil
		})
		return err
	})
}

func (f *fastRecord) queueRecord(b *pgsql.Batch) {
	outputs, progress := make([][]byte, len(f.indexes)), make([][]byte, len(f.indexes))
	for i, at := range f.indexes {
		t := &f.record.Transitions[at]
		outputs[i], progress[i] = t.Output, t.Progress
	}
	rooms, roomGroups := []int32{}, []int32{}
	for group, room := range f.rooms {
		rooms, roomGroups = append(rooms, int32(max(room, 0))), append(roomGroups, group)
	}
	queues := []int16{}
	for _, name := range f.record.Queues {
		if number := f.s.Catalog.QueueNumber(name); number != 0 {
			queues = append(queues, number)
		}
	}
	after, until := f.s.emptyBelow.Known(queues)
	b.Add("record_fast", pgsql.Named{
		"pod": f.record.Pod, "claim": [16]byte(f.record.Claim), "runs": f.runs, "steps": f.steps, "epochs": f.epochs,
		"outputs": outputs, "progress": progress, "inline_limit": f.record.Limit, "inline_spare": f.record.Spare, "inline_queues": queues, "inline_after": after, "inline_until": until,
		"inline_handlers": pgsql.OrEmpty(f.record.Handlers), "rooms": rooms, "room_groups": roomGroups,
	}).QueryRow(func(row pgx.Row) error {
		return row.Scan(&f.now, &f.known, &f.ords, &f.ended, &f.endedOf, &f.queues, &f.grantedRuns, &f.grantedSteps, &f.grantedEpochs,
			&f.looked.Queues, &f.looked.After, &f.looked.Until)
	})
}

// rest returns what was not recorded.
func (f *fastRecord) rest() []int {
	done := make([]bool, len(f.indexes))
	for _, ord := range f.ords {
		done[ord-1] = true
	}
	var rest []int
	for i, at := range f.indexes {
		if !done[i] {
			rest = append(rest, at)
		}
	}
	return rest
}

// merge adds what the transaction did to the answer.
func (r *recording) merge(ctx context.Context, on pgsql.Querier, f *fastRecord) error {
	r.s.emptyBelow.Note(f.looked)
	for _, ord := range f.ords {
		r.out.Answers[f.indexes[ord-1]].Result = lifecycle.Moved
	}
	r.freed, r.given = r.freed+len(f.ords), r.given+len(f.grantedRuns)
	counts := map[int16]int{}
	for _, queue := range f.queues {
		counts[int16(queue)]++
	}
	ready, err := r.s.ready(ctx, on, counts)
	if err != nil {
		return err
	}
	wake := persistence.Wake{Ready: ready, Ended: make([]workflow.RunID, len(f.ended))}
	for i, id := range f.ended {
		wake.Ended[i] = id
		d, err := r.s.knownOf(ctx, on, f.endedOf[i])
		if err != nil {
			return err
		}
		if d != nil {
			wake.CountEnds(d.Graph.Name, lifecycle.Completed, 1)
		}
	}
	r.mergeWake(f.now, wake)
	if f.known || !r.grant(f) {
		r.reload = true
	}
	return nil
}

// grant adds what was granted to the answer, and reports whether all that it
// needs is known.
func (r *recording) grant(f *fastRecord) bool {
	if len(f.grantedRuns) == 0 {
		return true
	}
	own := make(map[workflow.TaskID]*persistence.Transition, len(r.record.Transitions))
	for i := range r.record.Transitions {
		if t := &r.record.Transitions[i]; r.out.Answers[i].Result == lifecycle.Moved {
			own[t.Task] = t
		}
	}
	r.out.Grants = slices.Grow(r.out.Grants, len(f.grantedRuns))
	for i, id := range f.grantedRuns {
		task := workflow.TaskID{Run: id, Step: f.grantedSteps[i]}
		grant, known := r.s.recent.Grant(task, own)
		if !known {
			return false
		}
		grant.Claim, grant.Epoch, grant.QueuedAt, grant.StartedAt = r.record.Claim, f.grantedEpochs[i], f.now, f.now
		r.out.Grants = append(r.out.Grants, grant)
	}
	return true
}

// remember tells recent and claims what was recorded, once that is committed.
func (r *recording) remember() {
	for i := range r.record.Transitions {
		t := &r.record.Transitions[i]
		if r.out.Answers[i].Result != lifecycle.Moved {
			continue
		}
		r.s.claims.Ended(r.record.Pod, t.Task, t.Epoch)
		if t.Report == lifecycle.Succeeded {
			r.s.recent.Recorded(t)
		}
	}
	r.s.claims.Granted(r.record.Pod, r.record.Claim, r.out.Grants)
	for _, task := range r.skipped {
		r.s.recent.Skipped(task)
	}
	for _, id := range r.out.Wake.Ended {
		r.s.recent.Ended(id)
	}
}

// mergeWake adds what one transaction of the record changed.
func (r *recording) mergeWake(now time.Time, wake persistence.Wake) {
	r.out.Now = now
	mergeWake(&r.out.Wake, wake)
}

// mergeWake adds a wake to another.
func mergeWake(into *persistence.Wake, wake persistence.Wake) {
	into.Ready = sumReady(append(into.Ready, wake.Ready...))
	into.Ended = append(into.Ended, wake.Ended...)
	sortRuns(into.Ended)
	for _, e := range wake.Ends {
		into.CountEnds(e.Workflow, e.State, e.Count)
	}
	into.Canceling = append(into.Canceling, wake.Canceling...)
	into.Failed = append(into.Failed, wake.Failed...)
	into.Submitted = into.Submitted || wake.Submitted
	if next := wake.NextTimer; !next.IsZero() && (into.NextTimer.IsZero() || next.Before(into.NextTimer)) {
		into.NextTimer = next
	}
}
