package actors

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// missing is one payload that a grant does not carry.
type missing struct {
	step int32
	size int64
	to   []*[]byte // in the inputs of the attempt; more than one: the step is a parent twice
}

// load reads the payloads that the grant does not carry, and executes the task. It waits
// until the pod has memory for them. The time of the attempt begins with its function.
func (a *run) load() {
	a.inputs = inputsOf(a.task)
	a.hold(carried(a.task))
	if !a.task.GetKept() { // one that is taken over reads nothing
		a.missing = missingOf(a.task, &a.inputs)
	}
	size := int64(0)
	for _, m := range a.missing {
		size += m.size
	}
	if len(a.missing) == 0 {
		a.execute()
		return
	}
	a.permit = a.rt.payloads.request(a.self, size)
	defer a.rt.measurePayloads()
	if a.rt.payloads.isGranted(a.permit) {
		a.read()
		return
	}
	a.waits = true
	if now := a.rt.now(); a.rt.payloads.tell(now) {
		held, waiting := a.rt.payloads.held()
		a.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "a task waits for memory for its payloads, which Config.PayloadMemory bounds",
			append(a.named(), slog.Int64("bytes", size), slog.Int64("held", held), slog.Int("waiting", waiting))...)
	}
	if a.ctx.Err() != nil {
		a.giveUp()
	}
}

// onGranted begins to read, unless the task was let go of meanwhile.
func (a *run) onGranted() {
	if a.waits {
		a.waits = false
		a.read()
	}
}

// giveUp hands back a task whose function was not called.
func (a *run) giveUp() {
	a.waits, a.returned = false, true
	a.unload()
	a.settle(&messages.ReportOutcome{Kind: messages.OutcomeKind_OUTCOME_KIND_RELEASED})
}

// unload gives back the memory of inputs that no function uses.
func (a *run) unload() {
	a.inputs, a.missing = Inputs{}, nil
	if a.permit != nil {
		a.rt.payloads.release(a.permit)
		a.rt.measurePayloads()
	}
}

// read reads the next missing payloads: as many as one answer of the database may bring,
// one at least.
func (a *run) read() {
	var steps []int32
	size := int64(0)
	for _, m := range a.missing {
		if size += m.size; len(steps) > 0 && size > batchBytesMax {
			break
		}
		steps = append(steps, m.step)
	}
	run := a.key.task.Run
	ask(&a.base, &call{}, "payload", storeTimeout, func(ctx context.Context) ([][]byte, error) {
		return a.ports.runs.Payloads(ctx, run, steps)
	}, a.onLoaded)
}

// onLoaded continues reading, or executes the task. If a payload cannot be read the task
// is handed back, and the next pod tries again.
func (a *run) onLoaded(payloads [][]byte, err error) {
	if a.attempt != nil || a.outcome != nil || a.answered || a.resting {
		return
	}
	if err != nil {
		a.unload()
		a.rt.storeFailed("payload", err)
		pause := restFor
		if persistence.Answered(err) { // a lost payload does not come back at once
			pause = restLost
			a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "the inputs of a task cannot be read; it rests, and is claimed again",
				slog.String("run_id", a.key.task.Run.String()), slog.String("step", a.task.GetStepName()))
		}
		a.rest(pause)
		return
	}
	for i, payload := range payloads {
		for n, to := range a.missing[i].to {
			if *to = payload; n > 0 {
				*to = bytes.Clone(payload)
			}
		}
	}
	a.missing = a.missing[len(payloads):]
	if cause := context.Cause(a.ctx); len(a.missing) > 0 && (cause == nil || errors.Is(cause, ErrCanceled)) {
		a.read()
		return
	}
	a.execute()
}

// hold counts payloads that the actor holds until it ends.
func (a *run) hold(bytes int64) {
	a.held += bytes
	a.rt.payloads.hold(bytes)
}

// letGo gives back the bytes that the actor holds. The bytes that were read are given back
// by the function, if it was called: it may outlive the actor.
func (a *run) letGo() {
	a.hold(-a.held)
	a.unload()
	if a.attempt != nil {
		a.rt.payloads.detach(a.attempt.permit)
	}
}

func inputsOf(task *messages.StartTask) Inputs {
	return Inputs{
		Input: task.GetInput(), LargeInput: task.GetLargeInput(),
		Parents: outcomesOf(task.GetParents()), Failed: outcomesOf(task.GetFailed()),
	}
}

// carried is how many bytes of payloads came with a grant.
func carried(task *messages.StartTask) int64 {
	size := len(task.GetInput()) + len(task.GetLastProgress())
	for _, p := range task.GetParents() {
		size += len(p.GetOutput())
	}
	return int64(size)
}

// missingOf returns the payloads that a grant does not carry.
func missingOf(task *messages.StartTask, inputs *Inputs) (list []missing) {
	if task.GetLargeInput() {
		list = append(list, missing{lifecycle.RunStep, task.GetInputSize(), []*[]byte{&inputs.Input}})
	}
	for i := range inputs.Parents {
		o := &inputs.Parents[i]
		if !o.Large || o.Output != nil {
			continue
		}
		at := slices.IndexFunc(list, func(m missing) bool { return m.step == o.Index })
		if at < 0 {
			at, list = len(list), append(list, missing{step: o.Index})
		}
		list[at].size += int64(o.Size)
		list[at].to = append(list[at].to, &o.Output)
	}
	return list
}

// measurePayloads sets the metrics of payloads.
func (rt *runtime) measurePayloads() {
	bytes, waiting := rt.payloads.held()
	rt.recorder.set(MetricPayloadBytes, float64(bytes))
	rt.recorder.set(MetricPayloadWaiting, float64(waiting))
}
