package persistence

import (
	"context"
	"time"
)

// GrantRequest asks for tasks for a pod: ready ones by a claim, the first tasks of runs
// with the call that stores them, and children with the end of their parents.
type GrantRequest struct {
	Pod      int64
	Claim    ClaimID  // names the grants
	Limit    int      // the most tasks that are granted; at most ClaimMax; 0: none
	Handlers []int32  // numbers of the handlers that the pod registers
	Queues   []string // that the pod serves; of a claim, the one that it looks at
	// TenantLimit is the largest number of running tasks of one tenant; 0: none.
	TenantLimit int
}

// ClaimRequest asks for ready tasks of one queue.
type ClaimRequest struct {
	GrantRequest

	Suspects bool  // the pod may take one suspect: a task that was lost too often to be beside another
	After    int64 // do not look at fair ids below this; 0: look at all
}

// Queue returns the queue that the claim looks at.
func (r *ClaimRequest) Queue() string {
	if len(r.Queues) == 0 {
		return ""
	}
	return r.Queues[0]
}

// Claimed answers a claim.
type Claimed struct {
	Now    time.Time
	Grants []Grant
	// Scanned counts the queue rows granted or discarded; fewer than Limit:
	// nothing more is ready for this pod above After. An answer that repeats an
	// earlier one looked at nothing and says Limit.
	Scanned   int
	Discarded int   // rows of tasks that were no longer queued, removed
	Lowest    int64 // lowest fair id granted; 0: none

	// Again is after how long the queue has to be looked at from its start once more,
	// because this claim left out tasks that are locked or in quarantine; 0: it left out none.
	Again time.Duration
}

// Queue hands ready tasks to pods.
type Queue interface {
	// ClaimTasks grants at most Limit ready tasks of one queue in the order of
	// their fair ids. It waits for no lock: what others hold is passed over.
	// Two callers never get the same task. The same claim id again returns the
	// same grants, as far as they are still held. A pod that is dead or
	// expired gets ErrPodDead.
	ClaimTasks(ctx context.Context, request ClaimRequest) (Claimed, error)
}
