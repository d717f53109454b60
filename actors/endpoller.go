package actors

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// endPoller finds out which of the awaited runs have ended, in case hints were lost: many
// runs in one statement, one statement at a time, so that the cost does not grow with the
// number of waiting callers. It belongs to feed.
type endPoller struct {
	call  call
	left  []workflow.RunID // to be asked for after it
	again bool             // all are to be asked for once more then
	rests bool             // a timer will look again
}

// lookAtEnds asks for all awaited runs.
func (a *feed) lookAtEnds() {
	if a.ends.call.open() {
		a.ends.again = true
		return
	}
	a.ends.left = sortedRuns(append(a.rt.status.watched(), a.carryover.waiters.runs()...))
	a.lookOn()
}

func (a *feed) lookOn() {
	n := min(len(a.ends.left), persistence.EndedMax)
	if n == 0 {
		return
	}
	batch := a.ends.left[:n]
	a.ends.left = a.ends.left[n:]
	ask(&a.base, &a.ends.call, "ended_runs", storeTimeout, func(ctx context.Context) ([]workflow.RunID, error) {
		return a.store.EndedRuns(ctx, batch)
	}, a.onEnded)
}

// onEnded tells the waiters of the runs that have ended. The others need not read.
func (a *feed) onEnded(runs []workflow.RunID, err error) {
	e := &a.ends
	if wait, failed := e.call.failed(a.rt, "ended_runs", err); failed {
		e.left = nil
		if !e.rests {
			e.rests = true
			a.later(wait, func() {
				e.rests = false
				a.lookAtEnds()
			})
		}
		return
	}
	for _, run := range runs {
		a.rt.status.hint(run)
		a.carryover.waiters.check(run)
	}
	if len(e.left) == 0 && e.again {
		e.again = false
		a.lookAtEnds()
		return
	}
	a.lookOn()
}

// sortedRuns returns each run once, in order, so that no result depends on chance.
func sortedRuns(runs []workflow.RunID) []workflow.RunID {
	slices.SortFunc(runs, func(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(runs)
}

// runs returns the runs that are awaited by message.
func (w *waiters) runs() []workflow.RunID { return slices.Collect(maps.Keys(w.waiting)) }
