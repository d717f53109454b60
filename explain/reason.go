package explain

import "time"

// Cause is a kind of reason.
type Cause string

// The causes. Those up to CauseLate pass by themselves.
const (
	CauseEnded     Cause = "ended"     // the run has ended
	CauseCanceled  Cause = "canceled"  // the run has ended, because it was asked to
	CauseScheduled Cause = "scheduled" // it starts later
	CauseParents   Cause = "parents"   // it waits for other steps
	CauseSleeping  Cause = "sleeping"  // its timer fires later
	CauseBackoff   Cause = "backoff"   // it is tried again later
	CauseSignal    Cause = "signal"    // it waits for a signal
	CauseChild     Cause = "child"     // it waits for its child run
	CauseElements  Cause = "elements"  // it waits for its elements
	CauseMachine   Cause = "machine"   // it is a state machine, and waits for its next event
	CauseRunning   Cause = "running"   // a pod executes it
	CauseReady     Cause = "ready"     // the next claim takes it
	CauseInLine    Cause = "in_line"   // others are before it, or no slot is free
	CauseSuspect   Cause = "suspect"   // it was lost with its pods, and such tasks run one at a time
	CauseStopping  Cause = "stopping"  // its run is canceled and its function has not returned
	CauseReturning Cause = "returning" // it was parked, and will be put back
	CausePodLate   Cause = "pod_late"  // its pod does not renew its lease
	CausePodLost   Cause = "pod_lost"  // its pod is dead: others take over

	CauseFailed       Cause = "failed"       // the run has ended, because this step failed for good
	CauseTenantLimit  Cause = "tenant_limit" // its tenant runs as much as it may
	CauseLate         Cause = "late"         // its timer is due and was not fired
	CauseDeaf         Cause = "deaf"         // functions that ignore their context take the slots
	CauseIntake       Cause = "intake"       // no pod has taken up what a transaction stored, or a signal
	CauseOlderPods    Cause = "older_pods"   // pods that do not know its workflow have to leave first
	CauseNoPod        Cause = "no_pod"       // no pod is alive
	CauseUnregistered Cause = "unregistered" // no living pod has its code
	CauseUnserved     Cause = "unserved"     // those that have it do not serve its queue
	CauseLocked       Cause = "locked"       // another session holds a lock
	CauseNone         Cause = "none"         // nothing was found that it waits for: a mistake of the engine
)

// Reason is why a step, or the run as a whole, does not move.
type Reason struct {
	Step   string    `json:"step,omitempty"` // "": the run
	Cause  Cause     `json:"cause"`
	Text   string    `json:"text"`             // a clause, to follow the step's name
	Remedy string    `json:"remedy,omitempty"` // what to do; "": nothing, it passes by itself
	Until  time.Time `json:"until,omitzero"`   // when it passes by itself; zero: not known
	Since  time.Time `json:"since,omitzero"`   // since when it is so; zero: not known
	On     []string  `json:"on,omitempty"`     // steps that it waits for
	Run    string    `json:"run,omitempty"`    // child: the run that it waits for; canceled: the parent that it was canceled with
	Pod    string    `json:"pod,omitempty"`    // pod that it is about

	// Of a run that has ended.
	Class        string `json:"class,omitempty"`         // failed: of the last error
	Error        string `json:"error,omitempty"`         // failed: its text
	Attempts     int    `json:"attempts,omitempty"`      // failed: that ended with an error
	Losses       int    `json:"losses,omitempty"`        // failed: attempts that were lost with their pod
	By           string `json:"by,omitempty"`            // canceled: what asked for it, such as "api"
	CancelReason string `json:"cancel_reason,omitempty"` // canceled: that was given with it
}

// String is the line that is shown for a reason.
func (r Reason) String() string {
	line := r.Text
	if r.Step != "" {
		line = r.Step + ": " + line
	}
	if r.Remedy != "" {
		line += " (" + r.Remedy + ")"
	}
	return line
}
