package actors

import (
	"cmp"
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// narrow is what intake knows of a server that lacks what a large batch needs: files,
// memory or locks.
type narrow struct {
	questions int  // in a batch at most; 0: as many as fit
	vain      int  // questions for which alone it lacked something, since one was stored
	smallest  bool // the next batch is the smallest question: does it lack something for all?
	lone      bool // the next batch is a question that was set aside, if there is one
}

func (n *narrow) most() int {
	if n.questions == 0 {
		return persistence.TriggerBatchMax
	}
	return n.questions
}

// stored lets the next batch be twice as large, after one that begins with a question.
// What was set aside takes turns with all others.
func (n *narrow) stored(first *question) {
	n.vain, n.smallest, n.lone = 0, false, first.lacks == 0
	if n.questions *= 2; n.questions >= persistence.TriggerBatchMax {
		n.questions = 0
	}
}

// makeDoWithLess makes batches half as large after one for which the server lacked
// something: of this call nothing is stored, and tasks that an earlier one of unknown
// outcome granted are found unheld. A question for which alone it does is set aside for
// a while. It returns how long the intake waits.
func (a *intake) makeDoWithLess(open *openTrigger) time.Duration {
	a.rt.returnSlots(open.loan, nil)
	open.loan = nil
	if n := len(open.questions); n > 1 {
		a.narrow.questions = n / 2
		return a.rt.retryDelay(1)
	}
	q := open.questions[0]
	if a.narrow.lone = false; q.lacks == 0 {
		a.narrow.questions, a.narrow.smallest = 1, true
	}
	q.lacks++
	q.busyTo = a.rt.now().Add(a.rt.retryDelay(q.lacks))
	if a.narrow.vain++; a.narrow.vain == 1 {
		return 0
	}
	return a.rt.retryDelay(a.narrow.vain)
}

// nextBatch takes as many questions as fit into one transaction, in order, passing over
// those whose key is busy; there is always room for one. What was set aside goes alone.
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
		case q.lacks > 0:
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
