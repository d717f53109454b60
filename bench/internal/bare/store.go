package bare

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres"
	"github.com/troupe-dev/troupe/workflow"
)

// product is tables with the product's own statements.
type product struct {
	store    *postgres.Store
	graphs   map[peer.Shape]*workflow.Graph
	handlers []int32
	pod      int64
}

const queue = "default"

func (p *product) close() { p.store.Close() }

func (p *product) trigger(ctx context.Context, shape peer.Shape, runs []workflow.RunID, inputs [][]byte) error {
	batch := make([]persistence.Trigger, len(runs))
	for i, run := range runs {
		batch[i] = persistence.Trigger{
			Run: run, Definition: p.graphs[shape].Hash, Workflow: p.graphs[shape].Name,
			Tenant: "default", Input: inputs[i], Origin: "api",
		}
	}
	out, err := p.store.TriggerRuns(ctx, batch, persistence.GrantRequest{})
	if err != nil {
		return err
	}
	for _, answer := range out.Answers {
		if answer.Result != persistence.Triggered {
			return fmt.Errorf("a run was not stored: %v: %w", answer.Result, answer.Err)
		}
	}
	return nil
}

func (p *product) claim(ctx context.Context, limit int) ([]task, error) {
	out, err := p.store.ClaimTasks(ctx, persistence.ClaimRequest{
		GrantRequest: persistence.GrantRequest{Pod: p.pod, Claim: newClaim(), Queues: []string{queue}, Limit: limit, Handlers: p.handlers}, Suspects: true,
	})
	return tasksOf(out.Grants), err
}

func (p *product) record(ctx context.Context, tasks []task, outputs [][]byte) ([]task, error) {
	record := persistence.Record{
		GrantRequest: persistence.GrantRequest{Pod: p.pod, Claim: newClaim(), Limit: window, Handlers: p.handlers, Queues: []string{queue}}, MaxLost: 3,
	}
	for i, t := range tasks {
		record.Transitions = append(record.Transitions, persistence.Transition{
			Task: workflow.TaskID{Run: t.run, Step: t.step}, Epoch: t.epoch, Report: lifecycle.Succeeded, Output: outputs[i],
		})
	}
	out, err := p.store.RecordTransitions(ctx, record)
	if err != nil {
		return nil, err
	}
	for _, answer := range out.Answers {
		if answer.Result != lifecycle.Moved {
			return nil, fmt.Errorf("a task was not recorded: %v: %w", answer.Result, answer.Err)
		}
	}
	return tasksOf(out.Grants), nil
}

func tasksOf(grants []persistence.Grant) []task {
	tasks := make([]task, len(grants))
	for i, g := range grants {
		tasks[i] = task{g.Task.Run, g.Task.Step, g.Epoch}
	}
	return tasks
}
