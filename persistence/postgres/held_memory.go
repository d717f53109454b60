package postgres

import (
	"maps"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/workflow"
)

// A completion that waits for a holder is tried again several times a second, and a look
// at a task with thousands of children takes as long. So the result of a look is relied on
// for heldShare times as long as the look took, unless the holder ends before.
const (
	heldShare = 10
	heldMax   = 10 * time.Second
	// heldTasksMax bounds the tasks that are remembered.
	heldTasksMax = 10_000
)

// rememberedTask is what a look has found of a task.
type rememberedTask struct {
	by    heldBy
	until time.Time
}

// remember notes who holds something of the runs of tasks, as a look has found that took
// some time.
func (s *strained) remember(tasks taskIDs, held map[workflow.RunID]heldBy, took time.Duration) {
	if len(held) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks == nil {
		s.tasks = map[workflow.TaskID]rememberedTask{}
	}
	now := clock.System{}.Now()
	maps.DeleteFunc(s.tasks, func(_ workflow.TaskID, r rememberedTask) bool { return !now.Before(r.until) })
	until := now.Add(min(heldShare*took, heldMax))
	for _, task := range tasks {
		if by, is := held[task.Run]; is && len(s.tasks) < heldTasksMax {
			s.tasks[task] = rememberedTask{by: by, until: until}
		}
	}
}

// withoutHeld returns the tasks of which nothing is remembered, and tells of the others
// whether what gives their tenants places is held.
func (s *strained) withoutHeld(tasks taskIDs, held func(run workflow.RunID, tenant bool)) (rest taskIDs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) == 0 {
		return tasks
	}
	now := clock.System{}.Now()
	for _, task := range tasks {
		h, is := s.tasks[task]
		switch {
		case !is:
			rest = append(rest, task)
		case !now.Before(h.until):
			delete(s.tasks, task)
			rest = append(rest, task)
		default:
			held(task.Run, h.by.tenant)
		}
	}
	return rest
}
