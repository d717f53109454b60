package actors

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ends finds out which of the runs that somebody waits for have ended, where hints
// may have been lost: many in one statement, one statement at a time, so that
// waiting costs the database little however many wait. It belongs to feed.
type ends struct {
	rt     *runtime
	number int64            // of the call under way; 0: none
	left   []workflow.RunID // to be asked for after it
	again  bool             // all are to be asked for once more then
	fails  int              // calls in a row
	rests  bool             // a timer will look again
}

// endsAgain is a look that failed, later.
type endsAgain struct{}

// look asks for all. of are those that somebody waits for by message.
func (e *ends) look(of []workflow.RunID) {
	if e.number != 0 {
		e.again = true
		return
	}
	e.left = sortedRuns(append(e.rt.boundary.watched(), of...))
	e.lookOn()
}

func (e *ends) lookOn() {
	n := min(len(e.left), persistence.EndedMax)
	if n == 0 {
		return
	}
	batch := e.left[:n]
	e.left = e.left[n:]
	e.number = ask(e.rt, e.rt.team.feed, "ended_runs", storeTimeout, func(ctx context.Context) (endedRuns, error) {
		return e.rt.ports.Store.EndedRuns(ctx, batch)
	})
}

type endedRuns []workflow.RunID

// onEnded tells who waits for the runs that have ended; the others need not look.
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
			a.rt.after(a.rt.retryDelay(e.fails), a.self, &endsAgain{})
		}
		return
	}
	e.fails = 0
	for _, run := range m.value {
		a.rt.boundary.hint(run)
		a.carryover.awaits.check(run)
	}
	if len(e.left) == 0 && e.again {
		e.again = false
		a.lookAtEnds()
		return
	}
	e.lookOn()
}

func (a *feed) lookAtEnds() { a.ends.look(a.carryover.awaits.runs()) }

// sortedRuns returns each run once, in order: nothing depends on chance.
func sortedRuns(runs []workflow.RunID) []workflow.RunID {
	slices.SortFunc(runs, func(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(runs)
}

// runs returns the runs that somebody waits for by message.
func (w *awaits) runs() []workflow.RunID { return slices.Collect(maps.Keys(w.waiting)) }
