package actors

import (
	"sync"

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
	times map[workflow.TaskID]int
}

func newBrokenSteps() *brokenSteps { return &brokenSteps{times: map[workflow.TaskID]int{}} }

// note counts one more, and returns how many there were.
func (b *brokenSteps) note(task workflow.TaskID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.times) >= brokenTasks { // the server broke most of them
		clear(b.times)
	}
	b.times[task]++
	return b.times[task]
}

func (b *brokenSteps) forget(task workflow.TaskID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.times, task)
}
