package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// slow stores transitions in a transaction that loads their runs and asks
// lifecycle.
func (r *recording) slow(ctx context.Context, indexes []int, mode locking) error {
	return pgx.BeginFunc(ctx, r.s.pool, func(tx pgx.Tx) error {
		if err := r.s.checkPod(ctx, tx, r.record.Pod); err != nil {
			return err
		}
		return r.decide(ctx, tx, indexes, mode)
	})
}

// checkPod fails unless the pod lives, and keeps it from being declared dead
// until the transaction ends.
func (s *Store) checkPod(ctx context.Context, tx pgx.Tx, pod int64) error {
	f := &fastRecord{recording: &recording{s: s, record: persistence.Record{Pod: pod}}}
	b := s.newBatch()
	f.queueAlive(b)
	if err := send(ctx, tx, b); err != nil {
		return err
	}
	if !f.alive {
		return persistence.ErrPodDead
	}
	return nil
}

// decide stores transitions under the locks of their runs.
func (r *recording) decide(ctx context.Context, tx pgx.Tx, indexes []int, mode locking) error {
	p := r.s.newPass(tx)
	if err := p.load(ctx, r.wants(indexes), mode); err != nil {
		return err
	}
	reported := r.facts(p, indexes, mode)
	if err := p.decide(ctx); err != nil {
		return err
	}
	progress := progressRows{}
	for run, list := range reported {
		for i, at := range list {
			r.answer(run, at, run.decision.Answers[i], &progress)
		}
	}
	p.gather()
	p.byTask()
	b := r.s.newBatch()
	progress.queue(b, r.record.Pod)
	if err := p.write(ctx, b); err != nil {
		return err
	}
	r.mergeWake(p.now, p.wake)
	return nil
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
	}
	return wants
}

// facts turns transitions into facts of their runs, in order, and returns
// which transition each fact is. Runs that are not there are answered at once.
func (r *recording) facts(p *pass, indexes []int, mode locking) map[*run][]int {
	reported := map[*run][]int{}
	for _, i := range indexes {
		t := &r.record.Transitions[i]
		run := p.byID[t.Task.Run]
		if run == nil {
			r.out.Answers[i].Result = lifecycle.Stale
			if mode == lockFree {
				r.out.Answers[i].Result = lifecycle.Busy
			}
			continue
		}
		run.facts = append(run.facts, lifecycle.TaskReported{
			Step: t.Task.Step, Epoch: t.Epoch, Pod: r.record.Pod, Kind: t.Report, Edges: run.definition.edges(t.Edges),
			Class: lifecycle.CleanText(t.Class), Error: lifecycle.CleanText(t.Error), TimedOut: t.TimedOut,
			Retry: t.Retry, RetryIn: t.RetryIn, MaxLost: int32(r.record.MaxLost),
		})
		reported[run] = append(reported[run], i)
	}
	return reported
}

// answer notes what became of a transition, and keeps what decisions do not
// need.
func (r *recording) answer(run *run, i int, moved lifecycle.Answer, progress *progressRows) {
	t, answer := &r.record.Transitions[i], &r.out.Answers[i]
	answer.Result = moved
	if moved != lifecycle.Moved {
		answer.Err = nil
		return
	}
	if answer.Err != nil {
		answer.Result = lifecycle.BadRow
		return
	}
	if t.Progress != nil {
		progress.add(t.Task, t.Epoch, t.Progress) // written before the task moves
	}
	if t.Report == lifecycle.Succeeded {
		run.tasks[t.Task.Step].output = t.Output
	}
}

// progressRows are rows of save_progress, by column.
type progressRows struct {
	runs     uuids
	steps    []int32
	epochs   []int64
	progress [][]byte
}

// add keeps progress of a task that stands at epoch.
func (c *progressRows) add(task workflow.TaskID, epoch int64, progress []byte) {
	c.runs, c.steps = append(c.runs, task.Run), append(c.steps, task.Step)
	c.epochs, c.progress = append(c.epochs, epoch), append(c.progress, progress)
}

func (c *progressRows) queue(b *batch, pod int64) {
	if len(c.runs) > 0 {
		b.add("save_progress", named{
			"runs": c.runs, "steps": c.steps, "epochs": c.epochs, "progress": c.progress, "pod": pod,
		})
	}
}
