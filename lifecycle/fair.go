package lifecycle

import "github.com/troupe-dev/troupe/workflow"

// Fairness by fair ids: the ready queue is read in ascending order, and its
// order interleaves tenants. An id is made of a block, the tenant's group and
// a lane. Every tenant has one row per block and lane, so that a tenant that
// comes late starts at the block being served and waits for at most one round.
//
// Source of the idea: Hatchet's block-based queue; the frontier of what was
// served, and the two lanes, are ours (docs/adr/0005).

// Lane separates tasks of runs that are under way from new runs. Without it a
// tenant with many runs would execute them breadth-first and finish none until
// the end.
type Lane uint8

// The lanes.
const (
	LaneContinuing Lane = 0 // continuations, retries, tasks handed back
	LaneNew        Lane = 1 // first tasks of new runs
)

// GroupMax is the largest group number of a tenant.
const GroupMax = 1<<20 - 1

// blockStride is the distance between the same place of two blocks: two lanes
// for each group.
const blockStride = 2 * (GroupMax + 1)

// FairID returns the place in the queue of one task.
func FairID(group int32, lane Lane, block int64) int64 {
	return 2*int64(group) + int64(lane) + blockStride*block
}

// SplitFairID undoes FairID.
func SplitFairID(id int64) (group int32, lane Lane, block int64) {
	rest := id % blockStride
	return int32(rest / 2), Lane(rest % 2), id / blockStride
}

// NextBlock returns the first free block of a counter that has given out
// blocks up to own, in a queue that has been served up to frontier.
func NextBlock(own, frontier int64) int64 { return max(own, frontier) + 1 }

// InlineLook is how many rows at the head of a queue are looked at for other
// tenants before a child is granted inline. Waiting tenants are found there:
// newcomers are placed right behind what was served last.
const InlineLook = 64

// Take returns how many of the first tasks of new runs are granted at once to
// the pod that stores the runs and has room for so many: none if tasks wait in
// their queues, even of their own tenants. As with MayInline they take no place
// there; those beyond the room do.
func Take(first, room int, waiting bool) int {
	if waiting {
		return 0
	}
	return max(min(first, room), 0)
}

// MayInline reports whether a child that just became ready may be granted at
// once to the pod that completed its parent, without going through the queue:
// only while the batch has granted fewer children than there is room for, which is
// the slots of the tasks it completed and those that the pod has to spare, and
// only if no other tenant stands at the head of that queue. It takes no place
// there. No other tenant waited, so no turn was used: charging its tenant for it
// would make that tenant wait later, and moving the frontier would put the next
// tenant behind all that this one has queued.
//
// Of tasks that go in turn ([Task.InTurn]) others are those of the same tenant, too.
func MayInline(granted, room int, othersWait bool) bool {
	return granted < room && !othersWait
}

// InTurn reports whether the task goes through its queue if anything waits there, even of its own
// tenant: elements of a map and activations of a machine follow upon each other for as long as there
// are items and entries, and would keep a slot from what their tenant has waiting.
func (t *Task) InTurn() bool { return t.IsElement() || t.Traits.Has(workflow.TraitMachine) }
