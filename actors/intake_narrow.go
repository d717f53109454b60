package actors

import (
	"cmp"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// narrow is what intake knows of a server that lacks what a large batch needs: files,
// memory, locks, or time.
type narrow struct {
	questions int  // in a batch at most; 0: as many as fit
	fine      int  // batches stored since that changed
	vain      int  // questions for which alone it lacked something, since one was stored
	smallest  bool // the next batch is the smallest question: does it lack something for all?
	lone      bool // the next batch is a question that goes alone, if there is one
	large     size // of one for which alone it lacked something; as large ones go alone, too
}

// size is how much of the server a question needs.
type size struct{ rows, bytes int }

func (q *question) size() size { return size{len(q.triggers), q.bytes} }

// least reports whether hardly any question needs less: what the server lacks for it, it
// lacks for all.
func (q *question) least() bool {
	return len(q.triggers) == 1 && q.bytes <= persistence.InlinePayloadMax
}

// tooLarge reports whether a question is at least as large as one that was.
func (n *narrow) tooLarge(q *question) bool {
	return n.large.rows > 0 && len(q.triggers) >= n.large.rows && q.bytes >= n.large.bytes
}

// alone reports whether a question goes alone.
func (n *narrow) alone(q *question) bool { return q.lacks > 0 || n.tooLarge(q) }

func (n *narrow) most() int {
	if n.questions == 0 {
		return persistence.TriggerBatchMax
	}
	return n.questions
}

// widenAfter is after how many batches the next one may be twice as large.
const widenAfter = 4

// stored lets batches become larger after one that begins with a question, unless it took
// long. What goes alone takes turns with all others.
func (n *narrow) stored(first *question, took time.Duration) {
	if took < paceLong {
		n.fine++
	}
	switch {
	case n.smallest: // what was set aside was the reason
		n.questions, n.fine = 0, 0
	case n.fine >= widenAfter:
		n.questions, n.fine = 2*n.questions, 0
	}
	if n.questions >= persistence.TriggerBatchMax {
		n.questions = 0
	}
	n.vain, n.smallest, n.lone = 0, false, !n.alone(first)
	if n.tooLarge(first) { // no more
		n.large = size{}
	}
}

// makeDoWithLess makes batches half as large after one for which the server lacked
// something: of this call nothing is stored, and tasks that an earlier one of unknown
// outcome granted are found unheld. A question for which alone it does is set aside for
// a while. It returns how long the intake waits, and whether the server lacks something
// for all.
func (a *intake) makeDoWithLess(open *openTrigger) (wait time.Duration, all bool) {
	a.rt.releaseSlots(open.reservation, nil)
	open.reservation = nil
	a.narrow.fine = 0
	if n := len(open.questions); n > 1 {
		a.narrow.questions = n / 2
		return 0, false
	}
	q := open.questions[0]
	a.narrow.vain++
	if !a.narrow.alone(q) {
		a.narrow.questions, a.narrow.smallest = 1, true
		if !q.least() {
			a.narrow.large = q.size()
		}
	}
	a.narrow.lone = false
	q.lacks++
	q.busyTo = a.rt.now().Add(a.rt.retryDelay(q.lacks))
	if a.narrow.vain == 1 {
		return 0, q.least()
	}
	return a.rt.retryDelay(a.narrow.vain), q.least()
}

// takeLess makes batches smaller after one that took long, as pace does.
func (n *narrow) takeLess(questions int) {
	if questions > 1 {
		n.questions, n.fine = max(questions/4, 1), 0
	}
}

// tookLong makes do with less after a batch that has ended in vain after a long time. With
// less in it the call is another one, and nobody holds what this one granted if it was
// stored after all: with a reservation it is made again once as it was.
func (a *intake) tookLong(open *openTrigger) {
	open.long++
	if len(open.questions) > 1 && (open.reservation == nil || open.long > 1) {
		a.rt.releaseSlots(open.reservation, nil)
		open.reservation = nil
		a.narrow.takeLess(len(open.questions))
	}
}

// nextBatch takes as many questions as fit into one transaction, in order, passing over
// those whose key is busy; there is always room for one. What is too large goes alone.
// If none can be asked now, wait says when.
func nextBatch(waiting []*question, n *narrow, now time.Time) (batch []*question, wait time.Duration) {
	rows, bytes, full := 0, 0, false
	var lone, smallest *question
	for _, q := range waiting {
		switch {
		case q.busyTo.After(now):
			if d := q.busyTo.Sub(now); wait == 0 || d < wait {
				wait = d
			}
			continue
		case n.alone(q):
			if lone == nil || q.busyTo.Before(lone.busyTo) {
				lone = q
			}
			continue
		case smallest == nil || q.smaller(smallest):
			smallest = q
		}
		full = full || len(batch) >= n.most() ||
			len(batch) > 0 && (rows+len(q.triggers) > persistence.TriggerBatchMax || bytes+q.bytes > batchBytesMax)
		if !full {
			batch = append(batch, q)
			rows += len(q.triggers)
			bytes += q.bytes
		}
	}
	switch {
	case lone != nil && (n.lone || len(batch) == 0):
		return []*question{lone}, wait
	case smallest != nil && n.smallest:
		return []*question{smallest}, wait
	}
	return batch, wait
}

// smaller reports whether a question needs less of the server than another.
func (q *question) smaller(other *question) bool {
	return cmp.Or(cmp.Compare(len(q.triggers), len(other.triggers)), cmp.Compare(q.bytes, other.bytes)) < 0
}
