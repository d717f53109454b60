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
	rt     *runtime
	store  persistence.Runs
	number int64            // of the call under way; 0: none
	left   []workflow.RunID // to be asked for after it
	again  bool             // all are to be asked for once more then
	fails  int              // calls in a row
	rests  bool             // a timer will look again
}

// pollEndsAgain repeats a poll that failed.
type pollEndsAgain struct{}

// look asks for all awaited runs; of are those awaited by message.
func (e *endPoller) look(of []workflow.RunID) {
	if e.number != 0 {
		e.again = true
		return
	}
	e.left = sortedRuns(append(e.rt.status.watched(), of...))
	e.lookOn()
}

func (e *endPoller) lookOn() {
	n := min(len(e.left), persistence.EndedMax)
	if n == 0 {
		return
	}
	batch := e.left[:n]
	e.left = e.left[n:]
	e.number = ask(e.rt, e.rt.addresses.feed, "ended_runs", storeTimeout, func(ctx context.Context) (endedRuns, error) {
		return e.store.EndedRuns(ctx, batch)
	})
}

type endedRuns []workflow.RunID

// onEnded tells the waiters of the runs that have ended. The others need not read.
func (a *feed) onEnded(m *answered[endedRuns]) {
	e := &a.ends
	if m.number != e.number {
		return
	}
	e.number = 0
	if m.err != nil {
		e.fails++
		e.left = nil
		a.rt.storeFailed("ended_runs", m.err)
		if !e.rests {
			e.rests = true
			a.rt.after(a.rt.retryDelay(e.fails), a.self, &pollEndsAgain{})
		}
		return
	}
	e.fails = 0
	for _, run := range m.value {
		a.rt.status.hint(run)
		a.carryover.waiters.check(run)
	}
	if len(e.left) == 0 && e.again {
		e.again = false
		a.lookAtEnds()
		return
	}
	e.lookOn()
}

func (a *feed) lookAtEnds() { a.ends.look(a.carryover.waiters.runs()) }

// sortedRuns returns each run once, in order, so that no result depends on chance.
func sortedRuns(runs []workflow.RunID) []workflow.RunID {
	slices.SortFunc(runs, func(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(runs)
}

// runs returns the runs that are awaited by message.
func (w *waiters) runs() []workflow.RunID { return slices.Collect(maps.Keys(w.waiting)) }
