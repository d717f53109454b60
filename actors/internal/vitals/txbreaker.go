package vitals

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// TxFailures is how many transactions of steps in a row fail to begin before the
	// breaker opens.
	TxFailures = 3
	// TxOpenFor is how long it stays open. After that it is half-open: the next begin
	// decides.
	TxOpenFor = 10 * time.Second
	// TxMemory is how long an unresolved failure is reported. Other pods may have taken
	// all steps with a transaction since.
	TxMemory = time.Minute
	// txGrace is how long failures that other calls share are ignored: by then the
	// connections that a restart of the server has ended are used up.
	txGrace = 3 * time.Second
	// txPatience is how long a begin may wait before no more such steps are claimed.
	txPatience = time.Second
	// TaskFailuresMax is how often in a row the transaction of one task may break before
	// the step is to blame: servers restart, but not at each attempt of one step.
	TaskFailuresMax = 5
	// taskFailuresKept bounds the tasks that are remembered.
	taskFailuresKept = 10_000
)

// TxBreaker is a circuit breaker for the transactions of steps with InTx. They come from
// the embedder's pool, which may be closed, empty or cut off while the engine's own
// connections are well. While the breaker is open, the pod leaves such steps to other
// pods. It also counts the transactions of each task that broke in a row.
type TxBreaker struct {
	waiting   map[int64]time.Time // begins in flight, by number
	failures  int                 // in a row, without those of an outage
	first     time.Time           // of those in a row
	last      time.Time
	err       error
	openUntil time.Time
	tasks     map[workflow.TaskID]taskFailures
}

type taskFailures struct {
	count int
	last  time.Time
}

// Outage is what is known of times without answers from the database.
type Outage struct {
	Away   time.Time // last time a call found the database away
	Silent bool      // a long silence is under way
	Ended  time.Time // end of the last long silence
}

// Waits notes that a step waits for its transaction to begin.
func (b *TxBreaker) Waits(number int64, now time.Time) {
	if b.waiting == nil {
		b.waiting = map[int64]time.Time{}
	}
	b.waiting[number] = now
}

// WaitsNoLonger notes that it does not any more, whatever the result.
func (b *TxBreaker) WaitsNoLonger(number int64) { delete(b.waiting, number) }

// BeginFailed records a failed begin that was asked for at since. A long wait counts as
// several failures. Failures during a database outage, or right after one, do not count:
// other pods would fare no better. A server without a free connection is not away.
func (b *TxBreaker) BeginFailed(since, now time.Time, o Outage, err error) {
	if b.first.IsZero() || b.first.Before(o.Ended) {
		b.first = now
	}
	fresh := now.Sub(o.Away) < TxOpenFor && now.Sub(b.first) < txGrace
	if (o.Silent || fresh) && !errors.Is(err, persistence.ErrNoResources) {
		return
	}
	b.failures++
	if now.Sub(since) >= txPatience {
		b.failures = max(b.failures, TxFailures)
	}
	b.last, b.err = now, err
	if b.failures >= TxFailures {
		b.openUntil = now.Add(TxOpenFor)
	}
}

// Close closes the breaker: a transaction has begun, or has ended and left a connection.
func (b *TxBreaker) Close() { b.failures, b.first, b.openUntil = 0, time.Time{}, time.Time{} }

// Wait returns how long to leave steps with a transaction to other pods; 0 while the
// breaker is closed or half-open. While a begin waits for long, more of them would wait
// beside it, each in a slot.
func (b *TxBreaker) Wait(now time.Time) time.Duration {
	wait := max(b.openUntil.Sub(now), 0)
	for _, since := range b.waiting {
		if now.Sub(since) >= txPatience {
			wait = max(wait, txPatience)
		}
	}
	return wait
}

// Trouble describes why the breaker opened, until a transaction begins or no step tries
// for a while; "" otherwise.
func (b *TxBreaker) Trouble(now time.Time) string {
	if b.failures < TxFailures || now.Sub(b.last) >= TxMemory {
		return ""
	}
	remedy := "look at the pool that was given to the engine, which is to be closed after Engine.Stop and not before"
	if errors.Is(b.err, persistence.ErrNoResources) {
		remedy = "the server has too few connections for all pods and their steps: raise max_connections (a restart), or the limit of the role or the database"
	}
	return fmt.Sprintf("no further step with InTx can begin its transaction, and such steps are left to other pods: %s; %s", persistence.Shown(b.err), remedy)
}

// Broke counts a transaction of a task that broke, and returns how many did in a row. An
// outage since the last one begins the count anew: it was not the step's fault.
func (b *TxBreaker) Broke(task workflow.TaskID, now, away time.Time) int {
	if b.tasks == nil || len(b.tasks) >= taskFailuresKept { // the server broke most of them
		b.tasks = map[workflow.TaskID]taskFailures{}
	}
	f := b.tasks[task]
	if !away.Before(f.last) {
		f.count = 0
	}
	f.count++
	f.last = now
	b.tasks[task] = f
	return f.count
}

// Held notes that the transaction of a task did not break.
func (b *TxBreaker) Held(task workflow.TaskID) { delete(b.tasks, task) }
