package persistence

import (
	"context"
	"time"
)

// ClaimRequest asks for ready tasks.
type ClaimRequest struct {
	Pod      int64
	Claim    ClaimID
	Queue    string
	Limit    int     // at most ClaimMax
	Handlers []int32 // numbers of the handlers this pod registers
	Suspects bool    // the pod may take one suspect: a task that was lost too often to be beside another
	After    int64   // do not look at fair ids below this; 0: look at all
	// TenantLimit is the largest number of running tasks of one tenant; 0: none.
	TenantLimit int
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
