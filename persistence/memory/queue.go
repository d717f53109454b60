package memory

import (
	"cmp"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// queue is one ready queue and what was taken out of its way.
type queue struct {
	rows     []queueRow // by fair id
	parked   []queueRow // by fair id
	counters map[counter]int64
	frontier int64 // highest block that was served
}

// counter names the blocks given out to one tenant.
type counter struct {
	group int32
	lane  lifecycle.Lane
}

type queueRow struct {
	fairID  int64
	task    workflow.TaskID
	handler int32
	suspect bool
}

// queue returns the queue of that name and makes it known.
func (s *Store) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{counters: map[counter]int64{}}
		s.queues[name] = q
	}
	return q
}

// queueNames returns the names of all queues, ascending.
func (s *Store) queueNames() []string {
	return slices.Sorted(maps.Keys(s.queues))
}

// take gives out the next place of a tenant.
func (q *queue) take(group int32, lane lifecycle.Lane) int64 {
	c := counter{group, lane}
	q.counters[c] = lifecycle.NextBlock(q.counters[c], q.frontier)
	return lifecycle.FairID(group, lane, q.counters[c])
}

// served notes that the task at a place was granted.
func (q *queue) served(place int64) {
	_, _, block := lifecycle.SplitFairID(place)
	q.frontier = max(q.frontier, block)
}

func (q *queue) insert(row queueRow) {
	q.rows = insertRow(q.rows, row)
}

// forget removes the parked row of a task that left the queue without being
// claimed. A ready one stays: the claim discards it.
func (q *queue) forget(task workflow.TaskID) {
	q.parked = slices.DeleteFunc(q.parked, func(row queueRow) bool { return row.task == task })
}

// queued reports whether a task is still what its row in a queue says. Its run
// may be gone.
func (s *Store) queued(task workflow.TaskID) bool {
	r := s.runs[task.Run]
	return r != nil && r.task(task.Step).State == lifecycle.Queued
}

// othersWait reports whether another tenant stands at the head of the queue.
func (q *queue) othersWait(group int32) bool {
	for i := range min(len(q.rows), lifecycle.InlineLook) {
		if g, _, _ := lifecycle.SplitFairID(q.rows[i].fairID); g != group {
			return true
		}
	}
	return false
}

func insertRow(rows []queueRow, row queueRow) []queueRow {
	at, _ := slices.BinarySearchFunc(rows, row.fairID, func(r queueRow, id int64) int {
		return cmp.Compare(r.fairID, id)
	})
	return slices.Insert(rows, at, row)
}
