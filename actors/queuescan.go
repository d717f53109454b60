package actors

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// queueScan is what the claimer knows of one queue: whether to claim from it, and at
// which fair id a claim begins.
type queueScan struct {
	name, pool string
	woken      bool
	scanFrom   int64     // rows below this fair id were served, as far as is known; 0: unknown
	nextFrom   int64     // becomes scanFrom once it is old enough
	nextFromAt time.Time // when nextFrom was set
	fullScanAt time.Time // claims from then on scan the whole queue
	wakeAt     time.Time // when the queue is woken for a full scan; zero: not
	timerAt    time.Time // when the timer for that is due; zero: none is
	own        int       // tasks that this pod made ready and the feed has not told of yet
	ownAt      time.Time
	asked      time.Time // when tasks were asked for last
	standInAt  time.Time // when the pod claims in place of nearer pods; zero: not
}

const (
	// fullScanEvery is how often a queue is scanned below scanFrom: a transaction that
	// read an older frontier may have committed a task there.
	fullScanEvery = 250 * time.Millisecond
	// fullScanShare bounds the share of time that full scans take. While a session keeps
	// an old snapshot open, they read every row that was ever taken.
	fullScanShare = 20
	// fullScanMax is the longest pause between full scans. A slow scan may only have
	// waited for something else.
	fullScanMax = 10 * time.Second
	// scanFromBlocks is how far below the lowest granted fair id the next claim begins.
	scanFromBlocks = 2
	// scanFromAge is the least age of nextFrom before a claim that empties the queue uses it:
	// tasks that are being enqueued behind an older frontier are then found at once.
	scanFromAge = 100 * time.Millisecond
)

// from returns the fair id at which the next claim begins; 0: it scans the whole queue.
func (q *queueScan) from(now time.Time) int64 {
	if !now.Before(q.fullScanAt) {
		return 0
	}
	return q.scanFrom
}

// reset lets the next claim scan the whole queue.
func (q *queueScan) reset() { q.scanFrom, q.nextFrom, q.fullScanAt = 0, 0, time.Time{} }

// learn notes what a claim found. It returns when the queue needs a full scan; zero: the
// claim found everything, or wakes the queue itself.
func (q *queueScan) learn(open *openClaim, claimed *persistence.Claimed, now time.Time) (needsFullScan time.Time) {
	if open.full {
		pause := fullScanShare * now.Sub(open.asked)
		q.fullScanAt = now.Add(min(max(fullScanEvery, pause), fullScanMax))
	}
	granted, below := claimed.Lowest > 0, max(claimed.Lowest-lifecycle.FairID(0, 0, scanFromBlocks), 0)
	limited := open.request.TenantLimit > 0
	switch {
	case claimed.Scanned >= open.request.Limit && len(claimed.Grants)+claimed.Discarded > 0: // there may be more
		q.woken = true
		if open.full && granted {
			q.scanFrom, q.nextFrom, q.nextFromAt = below, below, now
		}
		return time.Time{}
	case limited: // tasks of tenants at their limit were skipped, at any fair id
		q.scanFrom, q.nextFrom = 0, 0
		q.woken = q.woken || !open.full
	case granted:
		if now.Sub(q.nextFromAt) >= scanFromAge {
			q.scanFrom, q.nextFrom, q.nextFromAt = q.nextFrom, below, now
		}
		q.scanFrom, q.nextFrom = min(q.scanFrom, below), min(q.nextFrom, below)
	}
	switch {
	case !open.full && !limited:
		return q.fullScanAt
	case claimed.Again > 0:
		again := now.Add(min(max(claimed.Again, fullScanEvery), fullScanMax))
		if again.Before(q.fullScanAt) {
			return q.fullScanAt
		}
		return again
	}
	return time.Time{}
}
