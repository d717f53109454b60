package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/elements"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/inline"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/machines"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// slow stores transitions in a transaction that loads their runs and asks
// lifecycle.
func (r *recording) slow(ctx context.Context, indexes []int, ending ending) error {
	var decided decided
	err := r.s.begin(ctx, ending, func(ctx context.Context, tx pgx.Tx) error {
		err := r.s.checkPod(ctx, tx, r.record.Pod)
		if err == nil {
			decided, err = r.decide(ctx, tx, indexes)
		}
		return err
	})
	if err == nil {
		r.apply(decided)
	}
	return err
}

// decided is what one transaction of the slow path did.
type decided struct {
	*decisionTx
	answers map[int]lifecycle.Answer
	claim   inline.Claim // of what is granted with it
	freed   int          // slots that the record has left by then
	given   int          // tasks that were granted with it by then
}

// apply adds it to the answer, once it is committed.
func (r *recording) apply(d decided) {
	for i, answer := range d.answers {
		r.out.Answers[i] = persistence.RecordAnswer{Result: answer}
		if cause := r.causes[i]; cause != nil && answer == lifecycle.Moved {
			r.out.Answers[i] = persistence.RecordAnswer{Result: lifecycle.BadRow, Err: cause}
		}
		// It may have granted something then. A machine may have gone on since, and its report is stale.
		r.reload = r.reload || answer == lifecycle.AlreadyYours || answer == lifecycle.Stale
	}
	r.mergeWake(d.now, d.wake)
	r.freed, r.given = max(r.freed, d.freed), max(r.given, d.given)
	r.reload = r.reload || d.given > 0
	for _, run := range d.runs {
		for i := range run.decision.Tasks {
			if t := &run.decision.Tasks[i]; t.State == lifecycle.Skipped {
				r.skipped = append(r.skipped, workflow.TaskID{Run: run.id, Step: t.Step})
			}
		}
	}
}

// checkPod fails unless the pod lives, and keeps it from being declared dead
// until the transaction ends.
func (s *Store) checkPod(ctx context.Context, tx pgx.Tx, pod int64) error {
	f := &fastRecord{recording: &recording{s: s, record: persistence.Record{GrantRequest: persistence.GrantRequest{Pod: pod}}}}
	b := s.NewBatch()
	f.queueAlive(b)
	if err := pgsql.Send(ctx, tx, b); err != nil {
		return err
	}
	if !f.alive {
		return persistence.ErrPodDead
	}
	return nil
}

// decide stores transitions under the locks of their runs.
func (r *recording) decide(ctx context.Context, tx pgx.Tx, indexes []int) (decided, error) {
	d := decided{decisionTx: r.s.newDecisionTx(tx), answers: map[int]lifecycle.Answer{}}
	if err := d.load(ctx, r.wants(indexes)); err != nil {
		return d, err
	}
	taken, err := r.taken(ctx, d, indexes)
	if err != nil {
		return d, err
	}
	reported := r.facts(d, indexes, taken)
	if err := d.decisionTx.decide(ctx); err != nil {
		return d, err
	}
	progress := pgsql.ProgressColumns{}
	for run, list := range reported {
		for i, at := range list {
			d.answers[at] = run.decision.Answers[i]
			if d.answers[at] == lifecycle.Moved {
				r.keep(run, at, &progress)
			}
		}
	}
	b := r.s.NewBatch()
	progress.Queue(b, r.record.Pod)
	d.sum()
	if err := r.grantReady(ctx, &d, indexes); err != nil {
		return d, err
	}
	d.claim.Queue(b, &r.record)
	return d, d.write(ctx, b)
}

func (r *recording) wants(indexes []int) []want {
	at := map[workflow.RunID]int{}
	var wants []want
	for _, i := range indexes {
		task := r.record.Transitions[i].Task
		j, ok := at[task.Run]
		if !ok {
			j = len(wants)
			at[task.Run] = j
			wants = append(wants, want{run: task.Run})
		}
		wants[j].steps = append(wants[j].steps, task.Step)
		if a := r.record.Transitions[i].Activation; a != nil {
			wants[j].steps = append(wants[j].steps, a.Canceled()...)
		}
	}
	return wants
}

// facts turns transitions into facts of their runs, in order, and returns
// which transition each fact is. Runs that are not there are answered at once.
func (r *recording) facts(d decided, indexes []int, taken elements.Taken) map[*run][]int {
	reported := map[*run][]int{}
	for _, i := range indexes {
		t := &r.record.Transitions[i]
		run := d.byID[t.Task.Run]
		if run == nil {
			d.answers[i] = lifecycle.Stale
			if d.left[t.Task.Run] {
				d.answers[i] = lifecycle.Busy
			}
			continue
		}
		dynamic, refused := t.DynamicTasks(run.definition.Graph)
		if refused == nil {
			refused = t.CheckChild(run.nodeOf(t.Task.Step), func(hash workflow.Hash) bool { return r.begins[hash] != nil })
		}
		if refused == nil {
			refused = t.CheckMap(run.definition.Graph)
		}
		var activation *lifecycle.Activation
		if refused == nil {
			activation, refused = machines.Decided(t, run.definition.Graph.Name, r.begins)
		}
		var begins *lifecycle.Map
		if t.Map != nil && refused == nil {
			begins = t.Map.Begin(run.definition.Node(t.Task.Step).Name, taken[t.Task])
			run.spread(t.Task.Step, &elements.Begun{Map: t.Map, Taken: taken[t.Task]})
		}
		if refused != nil && run.holds(t, r.record.Pod) {
			r.fail(i, refused)
		}
		child := ""
		if t.Child != nil {
			child = t.Child.Run.String()
		}
		run.facts = append(run.facts, lifecycle.TaskReported{
			Step: t.Task.Step, Epoch: t.Epoch, Pod: r.record.Pod, Kind: t.Report, Edges: run.definition.Edges(t.Edges), Make: dynamic,
			Class: lifecycle.CleanText(t.Class), Error: lifecycle.CleanText(t.Error), TimedOut: t.TimedOut,
			Retry: t.Retry, RetryIn: t.RetryIn, Exhausted: t.Exhausted, MaxLost: int32(r.record.MaxLost), Child: child, Map: begins, Activation: activation,
		})
		reported[run] = append(reported[run], i)
	}
	return reported
}

// spread notes how a map begins, if the decision says that it does.
func (r *run) spread(step int32, begins *elements.Begun) {
	if r.spreads == nil {
		r.spreads = map[int32]*elements.Begun{}
	}
	r.spreads[step] = begins
}

// taken finds the items of maps that begin whose elements an earlier run has completed.
func (r *recording) taken(ctx context.Context, d decided, indexes []int) (elements.Taken, error) {
	var maps []workflow.TaskID
	for _, i := range indexes {
		t := &r.record.Transitions[i]
		if run := d.byID[t.Task.Run]; t.Map != nil && run != nil && run.core.Dynamic > 0 {
			maps = append(maps, t.Task)
		}
	}
	return elements.LoadTaken(ctx, r.s.DB, d.tx, maps)
}

// holds reports whether a transition is of the attempt that a pod has.
func (r *run) holds(t *persistence.Transition, pod int64) bool {
	at := r.tasks[t.Task.Step]
	return at != nil && at.State == lifecycle.Running && at.Pod == pod && at.Epoch == t.Epoch
}

// keep hands on what decisions do not need of a transition that moved.
func (r *recording) keep(run *run, i int, progress *pgsql.ProgressColumns) {
	t := &r.record.Transitions[i]
	if t.Progress != nil {
		progress.Add(t.Task, t.Epoch, t.Progress) // written before the task moves
	}
	if t.Report == lifecycle.Succeeded {
		run.tasks[t.Task.Step].output = t.Output
	}
	if t.Activation != nil && run.decision.Activated {
		run.activate(t, r.begins[t.Activation.Definition])
	}
	if t.Child != nil {
		if run.begins == nil {
			run.begins = map[int32]begun{}
		}
		run.begins[t.Task.Step] = begun{t.Child, r.begins[t.Child.Definition]}
	}
}
