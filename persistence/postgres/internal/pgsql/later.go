package pgsql

import (
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Later returns the later of two instants.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Columns returns tasks as arguments of a statement.
func Columns(tasks []workflow.TaskID) (runs UUIDs, steps []int32) {
	runs, steps = make(UUIDs, len(tasks)), make([]int32, len(tasks))
	for i, task := range tasks {
		runs[i], steps[i] = task.Run, task.Step
	}
	return runs, steps
}
