package actors

import (
	"context"
	"log/slog"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// functionFor returns the function of a task, with the options that hold for its run in place of
// its own; nil: it is not registered here. Machines keep their own, and so do maps themselves.
func functionFor(rt *runtime, task *messages.StartTask) *StepFunction {
	f := rt.functions[task.GetHandler()]
	if f == nil || task.GetOptions() == "" || task.GetMachine() != nil || f.Map != nil && !f.isElement(task) {
		return f
	}
	options, err := persistence.DecodeRunOptions(task.GetOptions())
	if err != nil {
		rt.log.LogAttrs(context.Background(), slog.LevelError, "the options of a requeued run cannot be read, and those of its program hold",
			slog.String("run_id", runOf(task.GetTask().GetRun()).String()), slog.String("workflow", task.GetWorkflow()), slog.String("error", err.Error()))
		return f
	}
	own := *f
	if options.Retry != nil {
		own.Options.Retry, own.RetryIf = *options.Retry, nil
	}
	if options.AttemptTimeout > 0 {
		own.Options.AttemptTimeout = options.AttemptTimeout
	}
	return &own
}
