package actors

import (
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// narrow is how many questions a batch has at most, while the server lacks what a
// large one needs: files, memory or locks.
type narrow struct {
	questions int // 0: as many as fit
	aside     int // questions that were set aside since one was stored
}

func (n *narrow) most() int {
	if n.questions == 0 {
		return persistence.TriggerBatchMax
	}
	return n.questions
}

// widen lets the next batch be twice as large: one was stored.
func (n *narrow) widen() {
	n.aside = 0
	if n.questions *= 2; n.questions >= persistence.TriggerBatchMax {
		n.questions = 0
	}
}

// makeDoWithLess makes batches half as large after one for which the server lacked
// something: of this call nothing is stored, and tasks that an earlier one of unknown
// outcome granted are found unheld. A question for which alone it does is set aside for
// a while: others go before it, and do not wait as long as it does. It returns how long
// the intake waits.
func (a *intake) makeDoWithLess(open *openTrigger) time.Duration {
	a.rt.returnSlots(open.loan, nil)
	open.loan = nil
	n := len(open.questions)
	if a.narrow.questions = max(n/2, 1); n > 1 {
		return a.rt.retryDelay(a.failures)
	}
	q := open.questions[0]
	q.busy++
	q.busyTo = a.rt.now().Add(a.rt.retryDelay(q.busy))
	if a.narrow.aside++; a.narrow.aside == 1 {
		return 0
	}
	return a.rt.retryDelay(1)
}
