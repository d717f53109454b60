package requeue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// requeueing is one transaction that requeues a dead letter. It is used once.
type requeueing struct {
	s       *Requeuer
	tx      pgx.Tx
	order   *persistence.RequeueOrder
	letter  letterRow
	again   bool            // the order was carried out before
	marked  int             // letters that say so
	gone    bool            // the ended run is no longer kept
	state   lifecycle.State // of the ended run
	keyRun  workflow.RunID  // whose idempotency keys the new run has; zero: its own
	trigger persistence.Trigger
	kept    []int32   // steps that the new run takes over
	maps    []int32   // of which it takes over the elements that have completed
	machine *resuming // of a machine
}

// letterRow is what a requeue needs to know of a letter.
type letterRow struct {
	step, definition, requeues int32
	queue                      int16
	workflow, tenant           string
	labels, input              []byte
	trace                      *string
	as                         *[16]byte
}

// errRefused ends a transaction whose answer is that nothing was stored.
var errRefused = errors.New("the requeue was refused")

// RequeueDeadLetter implements persistence.DeadLetters.
func (s *Requeuer) RequeueDeadLetter(
	ctx context.Context, order persistence.RequeueOrder,
) (persistence.RequeueAnswer, error) {
	var answer persistence.RequeueAnswer
	if !pgsql.Storable(order.Tenant) {
		return answer, persistence.ErrDeadLetterNotFound
	}
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return answer, err
	}
	defer leave()
	err = s.Write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		r := &requeueing{s: s, tx: tx, order: &order}
		answer, err = r.run(ctx)
		if err == nil && answer.Result != persistence.RequeueStored {
			return errRefused
		}
		return err
	})
	if errors.Is(err, errRefused) {
		err = nil
	}
	if err != nil {
		answer = persistence.RequeueAnswer{}
	}
	return answer, err
}

func (r *requeueing) run(ctx context.Context) (persistence.RequeueAnswer, error) {
	err := r.load(ctx)
	switch {
	case err != nil:
		return persistence.RequeueAnswer{}, err
	case r.again:
		return r.repeated(ctx)
	case r.letter.requeues > 0 && !r.order.Again:
		return persistence.RequeueAnswer{Result: persistence.RequeuedBefore, Run: pgsql.OrZero(r.letter.as)}, nil
	case !r.gone && !r.state.Terminal():
		return persistence.RequeueAnswer{Result: persistence.RunGoesOn}, nil
	}
	if refused, err := r.prepare(ctx); err != nil || refused.Result != 0 {
		return refused, err
	}
	examined, err := r.s.Trigger(ctx, r.tx, r.trigger)
	if err != nil || examined.Result != persistence.Triggered {
		return persistence.RequeueAnswer{
			Result: persistence.RequeueRefused, Trigger: examined.Result, Err: examined.Err,
		}, err
	}
	letters, err := r.keep(ctx)
	return persistence.RequeueAnswer{
		Result: persistence.RequeueStored, Run: r.order.Run, Kept: r.count(), Letters: letters,
		Wake: persistence.Wake{Submitted: true},
	}, err
}

// prepare chooses what is triggered; an answer that says something refuses it.
func (r *requeueing) prepare(ctx context.Context) (persistence.RequeueAnswer, error) {
	graph, err := r.graph(ctx)
	if err != nil {
		return persistence.RequeueAnswer{}, err
	}
	if r.order.Fresh && !r.order.Judged && graph != nil && graph.InputFree {
		r.order.Judged, r.order.Edges = true, nil
	}
	switch {
	case r.gone && !(r.order.Fresh && r.order.Judged):
		return persistence.RequeueAnswer{Result: persistence.RunGone}, nil
	case graph == nil || graph.Name != r.letter.workflow:
		return persistence.RequeueAnswer{Result: persistence.RequeueRefused, Trigger: persistence.UnknownWorkflow}, nil
	case r.order.Fresh && r.order.Input != nil && !r.order.Judged:
		return persistence.RequeueAnswer{Result: persistence.InputUnjudged}, nil
	}
	if err := r.choose(ctx); err != nil || r.machine == nil || !r.machine.leftBehind {
		return persistence.RequeueAnswer{}, err
	}
	return persistence.RequeueAnswer{Result: persistence.LetterLeftBehind}, nil
}

// graph returns that of the new run, or nil if it is not known.
func (r *requeueing) graph(ctx context.Context) (*workflow.Graph, error) {
	if hash := r.order.Definition; r.order.Fresh && hash != (workflow.Hash{}) {
		return r.s.Registry.Definition(ctx, hash)
	}
	return r.s.Registry.GraphOf(ctx, r.tx, r.letter.definition)
}

// repeated answers an order that was carried out before as it was answered then.
func (r *requeueing) repeated(ctx context.Context) (persistence.RequeueAnswer, error) {
	if !r.gone {
		if err := r.choose(ctx); err != nil {
			return persistence.RequeueAnswer{}, err
		}
	}
	return persistence.RequeueAnswer{
		Result: persistence.RequeueStored, Run: r.order.Run, Kept: r.count(), Letters: r.marked,
		Wake: persistence.Wake{Submitted: true},
	}, nil
}

// load locks the letters of the run and reads what is to be known of it, and
// whether the new run exists.
func (r *requeueing) load(ctx context.Context) error {
	var letters []letterRow
	b := r.s.NewBatch()
	id := [16]byte(r.order.Letter.Run)
	b.Add("lock_dead_letters", pgsql.Named{"run": id}).Query(func(rows pgx.Rows) error {
		var err error
		letters, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (letterRow, error) {
			var l letterRow
			err := row.Scan(&l.step, &l.definition, &l.workflow, &l.tenant, &l.queue, &l.labels, &l.trace, &l.requeues, &l.as, &l.input)
			return l, err
		})
		return err
	})
	b.Add("find_runs", pgsql.Named{"runs": pgsql.UUIDs{r.order.Run}, "always": true}).Query(func(rows pgx.Rows) error {
		ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		r.again = len(ids) > 0
		return err
	})
	r.gone = true
	var state int16
	var definition int32
	var input []byte
	var first *[16]byte
	b.Add("read_dead_run", pgsql.Named{"run": id}).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&state, &input, &first, &definition}, func() error {
			r.gone, r.state = false, lifecycle.State(state)
			switch {
			case r.order.Fresh:
			case first != nil:
				r.keyRun = *first
			default:
				r.keyRun = r.order.Letter.Run
			}
			return nil
		})
		return err
	})
	if err := pgsql.Send(ctx, r.tx, b); err != nil {
		return err
	}
	for i := range letters {
		if pgsql.OrZero(letters[i].as) == [16]byte(r.order.Run) {
			r.marked++
		}
	}
	at := slices.IndexFunc(letters, func(l letterRow) bool {
		return l.step == r.order.Letter.Step && (r.order.Tenant == "" || r.order.Tenant == l.tenant)
	})
	if at < 0 {
		return persistence.ErrDeadLetterNotFound
	}
	r.letter = letters[at]
	if !r.gone {
		r.letter.input = input
	}
	if !r.gone && !r.order.Fresh { // which a machine may have got behind the failure
		r.letter.definition = definition
	}
	return nil
}

// choose fills in the trigger of the new run, and what it takes over.
func (r *requeueing) choose(ctx context.Context) error {
	graph, err := r.s.Registry.GraphOf(ctx, r.tx, r.letter.definition)
	if err != nil {
		return err
	}
	r.trigger = persistence.Trigger{
		Run: r.order.Run, Definition: graph.Hash, Workflow: r.letter.workflow, Tenant: r.letter.tenant, Input: r.letter.input,
		At: r.order.At, Queue: r.order.Queue, Labels: r.order.Labels, TraceContext: cmp.Or(r.order.TraceContext, pgsql.OrZero(r.letter.trace)),
		Origin: persistence.OriginRequeue, Edges: r.order.Edges,
	}
	if r.trigger.Queue == "" {
		if r.trigger.Queue, err = r.s.Registry.NameQueue(ctx, r.tx, r.letter.queue); err != nil {
			return err
		}
	}
	if r.trigger.Labels == nil && r.letter.labels != nil {
		if err := json.Unmarshal(r.letter.labels, &r.trigger.Labels); err != nil {
			return err
		}
	}
	if r.order.Fresh && r.order.Definition != (workflow.Hash{}) {
		r.trigger.Definition = r.order.Definition
	}
	if r.order.Fresh && r.order.Input != nil {
		r.trigger.Input = r.order.Input
	}
	if r.gone {
		return nil
	}
	if graph.IsMachine() {
		return r.resume(ctx)
	}
	tasks, err := r.tasks(ctx)
	if err != nil {
		return err
	}
	if !r.order.Fresh {
		r.kept, r.maps = lifecycle.Resume(graph, tasks, r.order.Letter.Step)
	}
	if !r.order.Judged {
		r.trigger.Edges = persistence.EdgesOnInput(graph, tasks, r.kept)
	}
	return nil
}

// tasks reads how the tasks of the ended run stand.
func (r *requeueing) tasks(ctx context.Context) ([]lifecycle.Task, error) {
	text, args := r.s.Bind("read_dead_tasks", pgsql.Named{"run": [16]byte(r.order.Letter.Run), "outputs": false})
	rows, err := r.tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (lifecycle.Task, error) {
		var t lifecycle.Task
		var state, flags int16
		var wakeAt *time.Time
		var text *string
		var owner *int32
		err := row.Scan(&t.Step, &state, &flags, &wakeAt, &text, &owner)
		t.State, t.Flags, t.WakeAt, t.Error = lifecycle.State(state), lifecycle.Flags(flags), pgsql.OrZero(wakeAt), pgsql.OrZero(text)
		if owner != nil {
			t.Dynamic = &lifecycle.Dynamic{Owner: *owner}
		}
		return t, err
	})
}

// keep writes down what the new run takes over, and that the letters of the
// ended one were requeued. It returns how many letters these are.
func (r *requeueing) keep(ctx context.Context) (letters int, err error) {
	var now time.Time
	if err := r.s.ReadClock(ctx, r.tx, &now); err != nil {
		return 0, err
	}
	b := r.s.NewBatch()
	if len(r.kept) > 0 {
		b.Add("keep_outputs", pgsql.Named{"new": [16]byte(r.order.Run), "run": [16]byte(r.order.Letter.Run), "steps": r.kept, "outputs": true})
		b.Add("keep_steps", pgsql.Named{"run": [16]byte(r.order.Run), "steps": r.kept}).QueryRow(pgsql.Wrote(1))
	}
	if len(r.maps) > 0 {
		b.Add("keep_elements", pgsql.Named{
			"new": [16]byte(r.order.Run), "run": [16]byte(r.order.Letter.Run), "steps": r.maps, "now": pgsql.Instant(now),
		}).QueryRow(pgsql.Wrote(1))
	}
	switch {
	case r.machine != nil:
		r.queueMachine(b, now)
	case !r.keyRun.IsZero():
		b.Add("keep_signals", pgsql.Named{
			"new": [16]byte(r.order.Run), "run": [16]byte(r.order.Letter.Run), "steps": pgsql.OrEmpty(r.kept),
		}).QueryRow(pgsql.Wrote(1))
	}
	if !r.keyRun.IsZero() || r.order.Options != "" {
		var origin any
		if !r.keyRun.IsZero() {
			origin = [16]byte(r.keyRun)
		}
		b.Add("link_run", pgsql.Named{"run": [16]byte(r.order.Run), "origin": origin, "options": r.order.Options}).QueryRow(pgsql.Wrote(1))
	}
	b.Add("mark_requeued", pgsql.Named{
		"run": [16]byte(r.order.Letter.Run), "as": [16]byte(r.order.Run), "now": pgsql.Instant(now),
	}).QueryRow(func(row pgx.Row) error { return row.Scan(&letters) })
	return letters, pgsql.Send(ctx, r.tx, b)
}
