package actors

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

const (
	// brokenMax is how often in a row the transaction of one step may break
	// before that is the step's fault: servers restart, but not each time that one
	// step is executed.
	brokenMax = 5
	// brokenTasks bounds the tasks that are remembered.
	brokenTasks = 10_000
)

// brokenSteps counts how often in a row the transactions of steps broke in this
// pod. It is safe for concurrent use.
type brokenSteps struct {
	mu    sync.Mutex
	times map[workflow.TaskID]streak
}

// streak is how often in a row, and when last.
type streak struct {
	times int
	at    time.Time
}

func newBrokenSteps() *brokenSteps { return &brokenSteps{times: map[workflow.TaskID]streak{}} }

// note counts one more, and returns how many there were. What broke when the pod
// found the database away, too, was not the step's doing: the count begins anew.
func (b *brokenSteps) note(task workflow.TaskID, now, away time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.times) >= brokenTasks { // the server broke most of them
		clear(b.times)
	}
	s := b.times[task]
	if !away.Before(s.at) {
		s.times = 0
	}
	s.times++
	s.at = now
	b.times[task] = s
	return s.times
}

func (b *brokenSteps) forget(task workflow.TaskID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.times, task)
}
