// Package vitals judges the health of a pod: whether the database answers, what it
// rejects, whether steps can begin transactions, whether its clock was stepped, how
// large batches may be, and whether an actor is stuck.
//
// Everything here is a value. Time is an argument, nothing locks, logs or starts a
// goroutine. The caller guards what several goroutines use. Only Watchdog is safe for
// concurrent use.
package vitals

import (
	"time"

	"github.com/troupe-dev/troupe/persistence"
)

// Vitals is what a pod knows of the database.
type Vitals struct {
	Responsiveness
	Rejected RejectedCalls
	Tx       TxBreaker
	Clock    ClockStep

	connected time.Time // start of the current connection; zero: the database is away
	away      time.Time // last time the database was found away; zero: never
}

// New returns the vitals of a pod that starts. Drift is how much faster than the pod's
// clock the database's clock may run between two observations.
func New(now time.Time, drift time.Duration) Vitals {
	return Vitals{Responsiveness: NewResponsiveness(now), Clock: ClockStep{Drift: drift}}
}

// CallEnded notes the end of a call that Asked began. What a call was rejected for
// counts as its error.
func (v *Vitals) CallEnded(number int64, kind string, asked, now time.Time, err, rejected error) {
	v.Ended(number, now, persistence.Answered(err))
	if err == nil {
		err = rejected
	}
	v.Rejected.Note(kind, now, now.Sub(asked), err)
}

// FoundAway notes that a call found the database away.
func (v *Vitals) FoundAway(now time.Time) { v.connected, v.away = time.Time{}, now }

// FoundBack notes that a renewal of the lease succeeded.
func (v *Vitals) FoundBack(now time.Time) {
	if v.connected.IsZero() {
		v.connected = now
	}
}

// LastAway returns when the database was last found away; zero if it never was.
func (v *Vitals) LastAway() time.Time { return v.away }

// ConnectedSince returns when the database was found back; zero while it is away.
func (v *Vitals) ConnectedSince() time.Time { return v.connected }

// BeginFailed notes that the transaction of a step, asked for at since, did not begin.
func (v *Vitals) BeginFailed(since, now time.Time, err error) {
	v.Tx.BeginFailed(since, now, Outage{Away: v.away, Silent: v.Silence(now) >= LongSilence, Ended: v.silenceEnded}, err)
}

// WasAway reports whether the database was away or silent since an instant.
func (v *Vitals) WasAway(since, now time.Time) bool {
	return !v.away.Before(since) || v.Silence(now) >= LongSilence || v.silenceEnded.After(since)
}
