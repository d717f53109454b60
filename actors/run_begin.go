package actors

import (
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
)

// beginMax is how long a run actor waits for the transaction of a step to begin. An
// adapter gives up earlier.
const beginMax = 45 * time.Second

// errNotBegun ends the context of an attempt whose transaction did not begin. The
// task is handed back.
var errNotBegun = errors.New("the step's transaction did not begin")

// inTx is the call of a step that is recorded in its own transaction.
func (a *run) inTx(inputs Inputs) func() *attemptEnded {
	rt, journal, attempt := a.rt, a.ports.journal, a.attempt
	record := rt.recordOf(rt.status.get().number)
	record.Task = a.key.task
	if limit := a.timeout(); limit > 0 {
		record.TxLimit = limit + txMargin
	}
	a.timers = append(a.timers, a.later(beginMax, a.onNotBegun))
	return func() *attemptEnded { return txAttempt(journal, record, attempt, inputs) }
}

// onBegun starts the clock of the attempt. The time to begin the transaction of a step
// does not count: it is the database's.
func (a *run) onBegun() {
	if a.timed || a.returned {
		return
	}
	a.timed, a.began = true, a.rt.now()
	a.armTimeout(a.timeout())
	a.armHeartbeat(a.heartbeatLimit())
}

// frozenMin is how late a timer must be to show that the process was frozen: moved,
// debugged or without CPU.
const frozenMin = 500 * time.Millisecond

func (a *run) armTimeout(limit time.Duration) {
	if limit > 0 {
		due := a.rt.now().Add(limit)
		a.timers = append(a.timers, a.rt.after(limit, a.self, &attemptTimeout{ErrAttemptTimeout, due}))
	}
}

func (a *run) armHeartbeat(limit time.Duration) {
	if limit <= 0 {
		return
	}
	if a.quiet != nil {
		a.quiet()
	}
	a.quiet = a.rt.after(limit, a.self, &attemptTimeout{ErrHeartbeatTimeout, a.rt.now().Add(limit)})
}

// onTimeout ends the attempt, unless the process was frozen when the time was up: then the
// attempt gets as much time as the freeze took.
func (a *run) onTimeout(m *attemptTimeout) {
	late := a.rt.now().Sub(m.due)
	switch {
	case late < frozenMin:
		a.end(m.cause)
	case errors.Is(m.cause, ErrHeartbeatTimeout):
		a.armHeartbeat(late)
	default:
		a.armTimeout(late)
	}
}

// databaseWasAway reports whether the database was away during an attempt with an open
// transaction. After the sixth time in a row that is no excuse.
func (a *run) databaseWasAway() bool {
	if !a.function.Options.InTx {
		return false
	}
	excused := false
	a.rt.vitals.with(func(v *vitals.Vitals) {
		now := a.rt.now()
		excused = v.WasAway(a.began, now) && v.Tx.Broke(a.key.task, now, time.Time{}) <= vitals.TaskFailuresMax
	})
	return excused
}

func (a *run) onNotBegun() {
	if !a.timed {
		a.end(errNotBegun)
	}
}
