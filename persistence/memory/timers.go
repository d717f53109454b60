package memory

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// timerKey names a durable timer: a task has at most one of each kind.
type timerKey struct {
	run  workflow.RunID
	step int32
	kind lifecycle.TimerKind
}

type timer struct {
	timerKey
	at    time.Time
	epoch int64
}

// timers are all durable timers, the earliest first.
type timers struct {
	rows []timer
	at   map[timerKey]time.Time
}

// set inserts a timer or replaces the one of the same name.
func (t *timers) set(row timer) {
	t.drop(row.timerKey)
	if t.at == nil {
		t.at = map[timerKey]time.Time{}
	}
	t.at[row.timerKey] = row.at
	i, _ := t.find(row.timerKey, row.at)
	t.rows = slices.Insert(t.rows, i, row)
}

// drop removes a timer if it exists.
func (t *timers) drop(k timerKey) {
	at, ok := t.at[k]
	if !ok {
		return
	}
	delete(t.at, k)
	i, _ := t.find(k, at)
	t.rows = slices.Delete(t.rows, i, i+1)
}

// dropAll removes every timer of a step.
func (t *timers) dropAll(run workflow.RunID, step int32) {
	for kind := lifecycle.SleepTimer; kind <= lifecycle.TimerKindMax; kind++ {
		if kind.Known() {
			t.drop(timerKey{run, step, kind})
		}
	}
}

// knownDue returns the timers of known kinds that are due, earliest first.
func (t *timers) knownDue(now time.Time) []timer {
	return slices.DeleteFunc(slices.Clone(t.rows[:t.dueCount(now)]), func(row timer) bool { return !row.kind.Known() })
}

func (t *timers) dueCount(now time.Time) int {
	return sort.Search(len(t.rows), func(i int) bool { return t.rows[i].at.After(now) })
}

// of returns when the sleep, the backoff or the longest wait of a task ends, zero if it does
// none of these.
func (t *timers) of(run workflow.RunID, step int32) time.Time {
	for _, kind := range []lifecycle.TimerKind{lifecycle.SleepTimer, lifecycle.BackoffTimer} {
		if at, ok := t.at[timerKey{run, step, kind}]; ok {
			return at
		}
	}
	return t.at[timerKey{run, step, lifecycle.DeadlineTimer}]
}

func (t *timers) find(k timerKey, at time.Time) (int, bool) {
	return slices.BinarySearchFunc(t.rows, timer{timerKey: k, at: at}, func(a, b timer) int {
		return cmp.Or(a.at.Compare(b.at), bytes.Compare(a.run[:], b.run[:]),
			cmp.Compare(a.step, b.step), cmp.Compare(a.kind, b.kind))
	})
}
