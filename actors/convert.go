package actors

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// taskKey is a task under one epoch, as a map key.
type taskKey struct {
	task  workflow.TaskID
	epoch int64
}

func keyOf(t *messages.Task) taskKey {
	return taskKey{task: workflow.TaskID{Run: runOf(t.GetRun()), Step: t.GetStep()}, epoch: t.GetEpoch()}
}

// taskName is the name of the run actor of one task under one epoch.
func taskName(key taskKey) string {
	return key.task.Run.String() + "-" + strconv.Itoa(int(key.task.Step)) + "-" + strconv.FormatInt(key.epoch, 10)
}

// keyNamed returns the task whose run actor has that name; of any other name the zero key.
func keyNamed(name string) taskKey {
	const step = 36 // behind the run's id
	epoch := strings.LastIndexByte(name, '-')
	if epoch <= step {
		return taskKey{}
	}
	run, badRun := workflow.ParseRunID(name[:step])
	index, badStep := strconv.ParseInt(name[step+1:epoch], 10, 32)
	number, badEpoch := strconv.ParseInt(name[epoch+1:], 10, 64)
	if errors.Join(badRun, badStep, badEpoch) != nil {
		return taskKey{}
	}
	return taskKey{task: workflow.TaskID{Run: run, Step: int32(index)}, epoch: number}
}

func (k taskKey) message() *messages.Task {
	return &messages.Task{Run: k.task.Run[:], Step: k.task.Step, Epoch: k.epoch}
}

// runOf reads a run id; anything but 16 bytes is the zero id.
func runOf(b []byte) workflow.RunID {
	if len(b) != len(workflow.RunID{}) {
		return workflow.RunID{}
	}
	return workflow.RunID(b)
}

// startTasks turns grants into messages. The byte slices are passed on.
func startTasks(grants []persistence.Grant, queue func(handler int32) string) []*messages.StartTask {
	tasks := make([]*messages.StartTask, len(grants))
	for i := range grants {
		tasks[i] = startTask(&grants[i], queue(grants[i].Handler))
	}
	return tasks
}

func startTask(g *persistence.Grant, queue string) *messages.StartTask {
	m := &struct { // one allocation
		start       messages.StartTask
		task        messages.Task
		run, keyRun workflow.RunID
	}{run: g.Task.Run, keyRun: g.KeyRun}
	m.task.Run, m.task.Step, m.task.Epoch = m.run[:], g.Task.Step, g.Epoch
	t := &m.start
	t.Task, t.Handler, t.Attempt, t.Suspect, t.Queue = &m.task, g.Handler, g.Attempt, g.Suspect, queue
	t.Declared = g.Declared
	t.Workflow, t.StepName, t.Tenant, t.Labels, t.TraceContext = g.Workflow, g.Step, g.Tenant, g.Labels, g.TraceContext
	t.Input, t.LargeInput, t.InputSize = g.Input, g.LargeInput, int64(g.InputSize)
	t.Item, t.Machine = g.Item, machineGrant(g.Machine)
	t.Parents, t.Failed, t.LastProgress, t.Kept = stepOutcomes(g.Parents), stepOutcomes(g.Failed), g.LastProgress, g.Kept
	t.Canceling, t.Options = g.Canceling, g.Options
	if !g.KeyRun.IsZero() {
		t.KeyRun = m.keyRun[:]
	}
	t.BegunAt, t.QueuedAt, t.StartedAt = nanos(g.BegunAt), nanos(g.QueuedAt), nanos(g.StartedAt)
	return t
}

func stepOutcomes(outcomes []persistence.Outcome) []*messages.StepOutcome {
	if len(outcomes) == 0 {
		return nil
	}
	list := make([]*messages.StepOutcome, len(outcomes))
	for i, o := range outcomes {
		list[i] = &messages.StepOutcome{
			StepName: o.Step, State: uint32(o.State), Output: o.Output, Large: o.Large, Size: int64(o.Size),
			Step: o.Index, Class: o.Class, Error: o.Error,
		}
	}
	return list
}

func outcomesOf(list []*messages.StepOutcome) []persistence.Outcome {
	if len(list) == 0 {
		return nil
	}
	outcomes := make([]persistence.Outcome, len(list))
	for i, o := range list {
		outcomes[i] = persistence.Outcome{
			Step: o.GetStepName(), State: lifecycle.State(o.GetState()), Output: o.GetOutput(), Large: o.GetLarge(),
			Size: int(o.GetSize()), Index: o.GetStep(), Class: o.GetClass(), Error: o.GetError(),
		}
	}
	return outcomes
}

func edgeOutcomes(edges []persistence.EdgeResult) []*messages.EdgeOutcome {
	var list []*messages.EdgeOutcome
	for _, e := range edges {
		list = append(list, &messages.EdgeOutcome{
			Child: e.Child, Flags: uint32(e.Flags), Error: e.Error, WakeAt: micros(e.WakeAt),
		})
	}
	return list
}

func transitionOf(r *messages.ReportOutcome) persistence.Transition {
	key := keyOf(r.GetTask())
	t := persistence.Transition{
		Task: key.task, Epoch: key.epoch, Report: lifecycle.ReportKind(r.GetKind()),
		Output: r.GetOutput(), Class: r.GetClass(), Error: r.GetError(), TimedOut: r.GetTimedOut(),
		Retry: r.GetRetry(), RetryIn: time.Duration(r.GetRetryIn()), Progress: r.GetProgress(), Exhausted: r.GetExhausted(),
	}
	t.Edges = edgeResults(r.GetEdges())
	if c := r.GetChild(); c != nil {
		t.Child = &persistence.Child{
			Run: runOf(c.GetRun()), Workflow: c.GetWorkflow(), KeyRun: runOf(c.GetKeyRun()), Input: c.GetInput(),
			Edges: edgeResults(c.GetEdges()), TraceContext: c.GetTraceContext(),
		}
		copy(t.Child.Definition[:], c.GetDefinition())
	}
	t.Activation = activationOf(r.GetActivation())
	if m := r.GetMap(); m != nil {
		t.Map = &persistence.Map{Items: m.GetItems(), Window: m.GetWindow(), Allowed: m.GetAllowed()}
	}
	return t
}

func mapBegun(m *persistence.Map) *messages.MapBegun {
	return &messages.MapBegun{Items: m.Items, Window: m.Window, Allowed: m.Allowed}
}

func edgeResults(edges []*messages.EdgeOutcome) (results []persistence.EdgeResult) {
	for _, e := range edges {
		results = append(results, persistence.EdgeResult{
			Child: e.GetChild(), Flags: lifecycle.Flags(e.GetFlags()), Error: e.GetError(), WakeAt: instantOfMicros(e.GetWakeAt()),
		})
	}
	return results
}

func answerName(a lifecycle.Answer) string {
	switch a {
	case lifecycle.Moved:
		return "moved"
	case lifecycle.AlreadyYours:
		return "already_yours"
	case lifecycle.Stale:
		return "stale"
	case lifecycle.Illegal:
		return "illegal"
	case lifecycle.Busy:
		return "busy"
	case lifecycle.BadRow:
		return "bad_row"
	}
	return "unknown"
}

// announce tells of the work that a committed transaction of this pod made ready: the
// claimer at once, all others through the feed. It counts the runs that have ended, and
// logs what failed for good.
func (rt *runtime) announce(wake persistence.Wake) {
	rt.logFailed(wake.Failed)
	rt.countEnds(wake)
	changed := &messages.TablesChanged{NextTimer: nanos(wake.NextTimer), Submitted: wake.Submitted}
	for _, r := range wake.Ready {
		changed.Ready = append(changed.Ready, &messages.WorkReady{Queue: r.Queue, Count: int32(r.Count)})
		rt.send(rt.addresses.claimer, &messages.WorkReady{Queue: r.Queue, Count: int32(r.Count)})
	}
	for i := range wake.Ended {
		changed.Ended = append(changed.Ended, wake.Ended[i][:])
	}
	for i := range wake.Canceling {
		changed.Canceling = append(changed.Canceling, wake.Canceling[i][:])
	}
	if len(changed.GetReady())+len(changed.GetEnded())+len(changed.GetCanceling()) > 0 || !wake.NextTimer.IsZero() || wake.Submitted {
		rt.send(rt.addresses.feed, changed)
	}
}

// logTextMax bounds an error in a log record, in bytes: the dead letter has all of it.
const logTextMax = 1 << 10

// logFailed logs tasks that failed for good. The pod whose call decided so does that: it
// executed them, or fired their timers, or took them from a dead pod.
func (rt *runtime) logFailed(failed []persistence.FailedTask) {
	for i := range failed {
		t := &failed[i]
		attrs := append(make([]slog.Attr, 0, 8),
			slog.String("run_id", t.Task.Run.String()), slog.String("workflow", t.Workflow), slog.String("step", t.Step),
			slog.String("tenant", t.Tenant), slog.Int("attempt", int(t.Attempt)),
			slog.String("class", t.Class), slog.String("error", short(t.Error, logTextMax)))
		if t.Lost > 0 {
			attrs = append(attrs, slog.Int("lost", int(t.Lost)))
		}
		rt.log.LogAttrs(context.Background(), slog.LevelWarn, "step failed for good", attrs...)
	}
}

// countEnds counts the runs that a committed transaction of this pod ended.
func (rt *runtime) countEnds(wake persistence.Wake) {
	for _, e := range wake.Ends {
		rt.recorder.add(MetricRunsEnded, float64(e.Count), e.Workflow, e.State.String())
	}
}

// wakesOf turns such news into wakes for other pods.
func wakesOf(m *messages.TablesChanged) []cluster.Wake {
	var wakes []cluster.Wake
	for _, r := range m.GetReady() {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeReady, Queue: r.GetQueue(), Count: int(r.GetCount()), Key: r.GetKey()})
	}
	if m.GetSubmitted() {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeSubmitted})
	}
	if m.GetNextTimer() != 0 {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeTimer, At: instant(m.GetNextTimer())})
	}
	for _, run := range m.GetEnded() {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeEnded, Run: runOf(run)})
	}
	for _, run := range m.GetCanceling() {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeCanceling, Run: runOf(run)})
	}
	return wakes
}
