package troupe

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RunID identifies a run. The engine makes it.
type RunID = workflow.RunID

// ParseRunID reads the text form of a run id.
func ParseRunID(text string) (RunID, error) { return workflow.ParseRunID(text) }

// State is where a run or a step stands.
type State = lifecycle.State

// The states. Runs use StatePending, StateRunning, StateCompleted, StateFailed
// and StateCanceled.
const (
	StatePending   = lifecycle.Pending   // waits for its parents; a run: for its start
	StateQueued    = lifecycle.Queued    // ready, waits for a slot
	StateRunning   = lifecycle.Running   // held by a pod
	StateBackoff   = lifecycle.Backoff   // failed, waits for its next attempt
	StateSleeping  = lifecycle.Sleeping  // a durable timer runs
	StateCompleted = lifecycle.Completed // terminal, as are all below
	StateFailed    = lifecycle.Failed
	StateSkipped   = lifecycle.Skipped
	StateCanceled  = lifecycle.Canceled
)

// RunStatus is a run as it stood when it was read.
type RunStatus struct {
	ID           RunID
	Workflow     string
	Tenant       string
	Key          string
	State        State
	Canceling    bool // asked to stop, and still running
	CancelReason string
	Origin       string // what triggered it: api, tx, message or requeue
	Labels       map[string]string
	CreatedAt    time.Time
	StartedAt    time.Time    // zero: not yet
	FinishedAt   time.Time    // zero: not yet
	FailedStep   string       // the step that failed first, unhandled; "": none
	Class        string       // class of its error; see [Class]
	Error        string       // its text
	Steps        []StepStatus // parents before their children
}

// StatusOption changes what a status brings.
type StatusOption func(*statusOptions)

type statusOptions struct{ without []persistence.Without }

// WithoutOutputs leaves StepStatus.Output nil: the outputs are not read from the
// database, so that a status costs the same however large they are. [OutputOf]
// reads the one of a single step.
func WithoutOutputs() StatusOption {
	return func(o *statusOptions) { o.without = append(o.without, persistence.WithoutOutputs) }
}

// StepStatus is one step of a run.
type StepStatus struct {
	Name       string
	State      State
	Attempt    int       // attempts begun
	Losses     int       // attempts lost with their pod
	Output     []byte    // as the codec encoded it; nil: none, or not read
	OutputSize int       // bytes of the output, also where it was not read; -1: there is none
	Class      string    // class of the last error, also of a step that completed later; see [Class]
	Error      string    // its text; "": no attempt failed
	WakeAt     time.Time // when its timer fires; zero: none
	Pod        string    // name of the pod that executes it, or did last; "": none yet
	StartedAt  time.Time // of the last attempt; zero: none
	FinishedAt time.Time // zero: not yet
	Waiting    string    // why a queued step cannot be claimed right now, as Explain says it; "": it can
}

func runStatus(row persistence.RunRow, tasks []persistence.TaskRow) RunStatus {
	status := RunStatus{
		ID: row.ID, Workflow: row.Workflow, Tenant: row.Tenant, Key: row.Key,
		State: row.State, Canceling: row.Canceling, CancelReason: row.CancelReason,
		Origin: row.Origin, Labels: row.Labels,
		CreatedAt: row.CreatedAt, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
		FailedStep: row.FailedStep, Class: row.Class, Error: row.Error,
	}
	for _, t := range tasks {
		step := StepStatus{
			Name: t.Name, State: t.State, Attempt: int(t.Attempt), Losses: int(t.Lost),
			Output: t.Output, OutputSize: t.OutputSize, Class: t.Class, Error: t.Error, WakeAt: t.WakeAt,
			Pod: t.PodName, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt,
		}
		if t.Parked {
			step.Waiting = "no living pod registers this version of the step"
		}
		status.Steps = append(status.Steps, step)
	}
	return status
}

// Event is one row of a run's history. Which fields beside the first four are
// set depends on the kind.
//
// The kinds of steps are queued, started, completed, failed, retrying,
// timed_out (waited in the queue for too long), lost (with its pod), released
// (handed back by a pod that stops), skipped, canceled, sleeping and woken;
// those of runs run_created, run_started, cancel_requested, run_completed,
// run_failed and run_canceled.
type Event struct {
	Step    string // "": the run itself
	N       int64  // counts the events of this step, or of the run itself, from 1
	Kind    string // in the past tense; later versions may add kinds
	At      time.Time
	Pod     int64         // started: the pod that executes it; lost, released, canceled: the pod that held it; counts starts of pods
	Attempt int           // started; retrying, failed, canceled: the attempt that failed
	Delay   time.Duration // retrying: before the next attempt
	WakeAt  time.Time     // retrying, sleeping
	By      string        // the cause; timed_out, retrying: which timeout, as in "attempt"; "": none
	Class   string        // of the error; see [Class]
	Text    string        // the error, or the reason of a cancel
}

func publicEvent(e lifecycle.Event, name string) Event {
	return Event{
		Step: name, N: e.N, Kind: e.Kind.String(), At: e.At, Pod: e.Pod, Attempt: int(e.Attempt),
		Delay: e.Delay, WakeAt: e.WakeAt, By: e.By, Class: e.Class, Text: e.Text,
	}
}

// Filter selects runs. Zero fields select all.
type Filter struct {
	Tenant   string // "": the engine's default tenant; of OpenReader: all
	Workflow string
	States   []State
	Labels   map[string]string // all must match; as many and as long as those of a run
	Key      string            // idempotency key; quick with a tenant
	Origin   string            // what triggered it: api, tx, message or requeue
	Class    string            // of the error of the step that failed first, unhandled; see [Class]

	FailedStep string    // the name of that step
	Since      time.Time // created then or later; zero: whenever
	Until      time.Time // created before that; zero: whenever

	Before RunID         // continue a listing: RunPage.Next
	Limit  int           // per page; 0: 100; more than 1000 counts as 1000
	Budget time.Duration // how long to search for a page, at most; 0: 40 ms
}

// RunPage is one page of a listing, newest first. Its runs have no Steps. A page may be
// short, even empty, and not the last: where no index serves a filter, the search ends with
// Filter.Budget. Go on until Next is zero.
type RunPage struct {
	Runs []RunStatus
	Next RunID // up to where runs were searched: the Filter.Before of the next page; zero: nothing older matches
}
