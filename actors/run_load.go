package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	if a.isMap() && !a.task.GetKept() {
		a.readElements()
		return
	}
	a.loadInputs()
}

// loadInputs reads the payloads of inputs.
func (a *run) loadInputs() {
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
	a.reserve(size)
}

// reserve waits until the pod has memory for so many bytes, and reads.
func (a *run) reserve(size int64) {
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
	a.inputs, a.missing, a.elements = Inputs{}, nil, nil
	if a.permit != nil {
		a.rt.payloads.release(a.permit)
		a.rt.measurePayloads()
	}
}

// read reads the next missing payloads: as many as one answer of the database may bring,
// one at least.
func (a *run) read() {
	if a.elements != nil {
		a.readElements()
		return
	}
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
	if a.over() {
		return
	}
	if err != nil {
		a.unread("payload", err)
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
	if len(a.missing) > 0 && a.goesOn() {
		a.read()
		return
	}
	a.execute()
}

// over reports whether what is read comes too late.
func (a *run) over() bool { return a.attempt != nil || a.outcome != nil || a.answered || a.resting }

// goesOn reports whether the pod still has the task.
func (a *run) goesOn() bool {
	cause := context.Cause(a.ctx)
	return cause == nil || errors.Is(cause, ErrCanceled)
}

// unread hands a task back whose inputs cannot be read.
func (a *run) unread(what string, err error) {
	a.unload()
	a.rt.storeFailed(what, err)
	pause := restFor
	if persistence.Answered(err) { // a lost payload does not come back at once
		pause = restLost
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "the inputs of a task cannot be read; it rests, and is claimed again",
			slog.String("run_id", a.key.task.Run.String()), slog.String("step", a.task.GetStepName()))
	}
	a.rest(pause)
}

// readElements reads the next elements of a map. The first page tells whether there are any: if
// not, the map is about to begin them.
func (a *run) readElements() {
	query := persistence.ElementQuery{Outputs: true}
	if a.elements != nil {
		query.After = a.elements.after
	}
	task, tenant := a.key.task, a.task.GetTenant()
	ask(&a.base, &call{}, "elements", storeTimeout, func(ctx context.Context) (persistence.ElementPage, error) {
		return a.ports.runs.Elements(ctx, tenant, task, query)
	}, a.onElements)
}

// onElements continues reading, or executes the task.
func (a *run) onElements(page persistence.ElementPage, err error) {
	if a.over() {
		return
	}
	first := a.elements == nil
	switch {
	case err != nil:
		a.unread("elements", err)
		return
	case page.Map.Items == 0:
		a.loadInputs()
		return
	case first:
		a.inputs = Inputs{}
		a.elements = &Elements{ends: make([]elementEnd, page.Map.Items)}
	}
	a.elements.add(page.Rows)
	a.elements.after = page.Next
	size, limit := len(a.elements.outputs), a.rt.config.PayloadLimit
	switch {
	case size > limit:
		a.refuse(resultsTooLarge(fmt.Sprintf("%d of %d elements", a.elements.ended, a.elements.Len()), size, limit))
	case page.Next != 0 && !a.goesOn():
		a.giveUp()
	case page.Next != 0 && first:
		a.reserve(int64(limit))
	case page.Next != 0:
		a.readElements()
	case a.elements.ended < a.elements.Len():
		a.rt.log.LogAttrs(context.Background(), slog.LevelError, "elements of a map are missing; it rests, and is claimed again",
			slog.String("run_id", a.key.task.Run.String()), slog.String("step", a.task.GetStepName()),
			slog.Int("missing", a.elements.Len()-a.elements.ended))
		a.unload()
		a.rest(restLost)
	default:
		if first {
			a.hold(int64(size))
		}
		a.execute()
	}
}

// refuse ends the attempt without calling the function.
func (a *run) refuse(err error) {
	a.returned = true
	a.unload()
	a.settle(a.errored(failureOf(err, nil), context.Cause(a.ctx), ""))
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
		Parents: outcomesOf(task.GetParents()), Failed: outcomesOf(task.GetFailed()), Item: task.GetItem(),
		Machine: machineOf(task.GetMachine()), BegunAt: instant(task.GetBegunAt()),
	}
}

// carried is how many bytes of payloads came with a grant.
func carried(task *messages.StartTask) int64 {
	size := len(task.GetInput()) + len(task.GetLastProgress()) + len(task.GetItem()) + grantBytes(task.GetMachine())
	for _, p := range task.GetParents() {
		size += len(p.GetOutput())
	}
	return int64(size)
}

// reported is how many bytes of payloads a report has.
func reported(r *messages.ReportOutcome) int64 {
	size := len(r.GetOutput()) + len(r.GetChild().GetInput()) + len(r.GetProgress()) + activationBytes(r.GetActivation())
	for _, item := range r.GetMap().GetItems() {
		size += len(item)
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
