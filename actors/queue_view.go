package actors

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// queueView is what the claimer knows of one queue.
type queueView struct {
	name, pool string
	woken      bool
	hint       int64     // fair ids below it were served, as far as is known; 0: nothing is
	next       int64     // what hint becomes
	nextAt     time.Time // when that was seen
	whole      time.Time // when all fair ids are looked at again
	looking    bool      // a timer wakes the queue then
	unsure     bool      // only a look at all of them tells that there is nothing else
	arrears    arrears
	own        int // tasks that this pod made ready and the feed has not told of yet
	ownAt      time.Time
	asked      time.Time // when tasks were asked for last
	later      time.Time // when a wake for others is due, unless a claim was asked for since
	laterFrom  time.Time // when the first such wake came
}

const (
	// wholeEvery is how often a queue is looked at below the hint: an enqueue
	// that read an older frontier may have committed there.
	wholeEvery = 250 * time.Millisecond
	// wholeShare bounds the part of the time that such looks take. They read
	// all rows that were ever taken, while somebody holds an old snapshot open.
	wholeShare = 20
	// wholeMax is how long such a look may be put off, whatever the last one took:
	// it may have waited for something else.
	wholeMax = 10 * time.Second
	// hintBlocks is how far below the lowest fair id granted a claim still
	// looks.
	hintBlocks = 2
	// hintAge is how old a hint is at least where a claim takes all that there
	// is: what is being enqueued meanwhile, behind an older frontier, is found at
	// once.
	hintAge = 100 * time.Millisecond
	// heldCrowd is how many tasks may be passed over, because of what somebody holds,
	// before claims that do not look at everything begin behind them: they look at no
	// more than a thousand, and a look at everything has to rest after it.
	heldCrowd = 500
)

// after is where the next claim begins to look.
func (q *queueView) after(now time.Time) int64 {
	switch {
	case q.arrears.from() > 0: // also if a look at everything is due: where slots become free rarely, it always is
		return max(q.hint, q.arrears.from())
	case !now.Before(q.whole):
		return 0
	}
	return q.hint
}

// forget lets the next claim look at everything.
func (q *queueView) forget() { q.hint, q.next, q.whole = 0, 0, time.Time{} }

// learn notes what a claim found. It reports whether only a look at everything
// can tell that there is nothing else.
func (q *queueView) learn(open *openClaim, claimed *persistence.Claimed, now time.Time) (unsure bool) {
	short := claimed.Scanned < open.request.Limit || len(claimed.Grants)+claimed.Discarded+claimed.Passed == 0
	if open.full {
		q.arrears.now = 0
	}
	above := q.arrears.from() > 0
	q.arrears.learn(claimed, open.request.After, claimed.Scanned < open.request.Limit, now)
	if above || short && q.arrears.any() { // there are other sections
		q.woken, q.unsure = true, true
		return true
	}
	q.unsure = q.look(open, claimed, short, now)
	return q.unsure
}

// look notes where a claim has looked. short: it has found all that there is.
func (q *queueView) look(open *openClaim, claimed *persistence.Claimed, short bool, now time.Time) (unsure bool) {
	request := &open.request
	if open.full {
		q.whole = now.Add(min(max(wholeEvery, wholeShare*now.Sub(open.asked)), wholeMax))
	}
	granted, below := claimed.Lowest > 0, max(claimed.Lowest-lifecycle.FairID(0, 0, hintBlocks), 0)
	switch {
	case !short:
		q.woken = true
		if open.full && granted {
			q.hint, q.next, q.nextAt = below, below, now
		}
	case open.full && request.TenantLimit == 0 && claimed.Held >= heldCrowd:
		if !granted {
			below = placeOf(claimed.Frontier - hintBlocks)
		}
		q.hint, q.next, q.nextAt = max(below, 1), max(below, 1), now
		return true
	case request.TenantLimit > 0 && claimed.Held > 0:
		q.hint, q.next = 1, 1 // from the first one on, and not past all that is held each time
		return true
	case request.TenantLimit > 0: // those that were passed over stand below any hint
		q.forget()
		q.woken = q.woken || !open.full
	default:
		if granted {
			if now.Sub(q.nextAt) >= hintAge {
				q.hint, q.next, q.nextAt = q.next, below, now
			}
			q.hint, q.next = min(q.hint, below), min(q.next, below)
		}
		return !open.full || claimed.Held > 0
	}
	return false
}
