package actors

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// waiters are the actors that wait for the end of a run by message. It belongs to feed.
type waiters struct {
	rt      *runtime
	store   persistence.Runs
	waiting map[workflow.RunID][]waiter
	reading map[workflow.RunID]bool // true: hinted at again since
	due     []workflow.RunID        // to be read, once there is room
	isDue   map[workflow.RunID]bool
	count   int
}

// waiterReadsMax bounds the rows read at once: many runs may end at once, and the other
// actors need connections, too.
const waiterReadsMax = 4

type waiter struct {
	sender  *PID
	request string
	tenant  string
}

// runRead is the row of an awaited run.
type runRead struct {
	run workflow.RunID
	row persistence.RunRow
	err error
}

func newWaiters(rt *runtime, store persistence.Runs) *waiters {
	return &waiters{rt: rt, store: store, waiting: map[workflow.RunID][]waiter{}, reading: map[workflow.RunID]bool{}, isDue: map[workflow.RunID]bool{}}
}

func (w *waiters) accept(sender *PID, m *messages.AwaitRun, closing bool) {
	if sender == nil {
		return
	}
	a := waiter{sender: sender, request: m.GetRequestId(), tenant: m.GetTenant()}
	if a.tenant == "" {
		a.tenant = w.rt.config.DefaultTenant
	}
	run := runOf(m.GetRun())
	switch {
	case closing:
		w.refuse(run, a, messages.AwaitRefused_CODE_STOPPING, "the pod is stopping: ask another one")
		return
	case w.count >= w.rt.config.AwaitMax:
		w.refuse(run, a, messages.AwaitRefused_CODE_OVERLOADED, "too many wait: ask again later")
		return
	}
	w.waiting[run] = append(w.waiting[run], a)
	w.count++
	w.check(run)
}

func (w *waiters) refuse(run workflow.RunID, a waiter, code messages.AwaitRefused_Code, remedy string) {
	w.rt.send(a.sender, &messages.AwaitRefused{RequestId: a.request, Run: run[:], Code: code, Remedy: remedy})
}

// begin forgets reads in flight: their answers may have been lost during a restart.
func (w *waiters) begin() {
	clear(w.reading)
	clear(w.isDue)
	w.due = nil
}

// check reads the row of an awaited run.
func (w *waiters) check(run workflow.RunID) {
	if len(w.waiting[run]) == 0 {
		return
	}
	if _, reads := w.reading[run]; reads {
		w.reading[run] = true // the row may be read already
		return
	}
	if len(w.reading) >= waiterReadsMax {
		if !w.isDue[run] {
			w.isDue[run] = true
			w.due = append(w.due, run)
		}
		return
	}
	w.reading[run] = false
	rt := w.rt
	rt.executor.Call(rt.addresses.feed, "run", storeTimeout, func(ctx context.Context) any {
		row, err := w.store.Run(ctx, "", run)
		return &runRead{run: run, row: row, err: err}
	})
}

func (w *waiters) onRead(m *runRead) {
	again := w.reading[m.run]
	delete(w.reading, m.run)
	unknown := errors.Is(m.err, persistence.ErrRunNotFound)
	switch {
	case m.err == nil && m.row.State.Terminal() || unknown:
		w.reply(m, unknown)
	case again:
		w.check(m.run)
	} // otherwise the next hint or sweep reads again
	for len(w.due) > 0 && len(w.reading) < waiterReadsMax {
		run := w.due[0]
		w.due = w.due[1:]
		delete(w.isDue, run)
		w.check(run)
	}
}

func (w *waiters) reply(m *runRead, unknown bool) {
	for _, a := range w.forget(m.run) {
		if unknown || m.row.Tenant != a.tenant {
			w.refuse(m.run, a, messages.AwaitRefused_CODE_UNKNOWN_RUN, "check the run id and the tenant")
			continue
		}
		w.rt.send(a.sender, &messages.RunEnded{
			RequestId: a.request, Run: m.run[:], Tenant: m.row.Tenant, Workflow: m.row.Workflow,
			State: m.row.State.String(), Output: m.row.Output, HasOutput: m.row.HasOutput,
			FailedStep: m.row.FailedStep, Class: m.row.Class, Error: m.row.Error, FinishedAt: nanos(m.row.FinishedAt),
		})
	}
}

func (w *waiters) forget(run workflow.RunID) []waiter {
	gone := w.waiting[run]
	delete(w.waiting, run)
	w.count -= len(gone)
	return gone
}

func (w *waiters) refuseAll(remedy string) {
	for _, run := range sortedRuns(w.runs()) {
		for _, a := range w.forget(run) {
			w.refuse(run, a, messages.AwaitRefused_CODE_STOPPING, remedy)
		}
	}
}
