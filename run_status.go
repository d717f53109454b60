package troupe

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RunID identifies a run. The engine makes it. It is text in JSON and logs, and a uuid
// for a database, with pgx as with database/sql; the zero value is null there.
type RunID = workflow.RunID

// ParseRunID reads the text form of a run id.
func ParseRunID(text string) (RunID, error) { return workflow.ParseRunID(text) }

// State is where a run or a step stands. In JSON, logs and SQL it is its name.
type State = lifecycle.State

// ParseState reads the name of a state, such as "completed".
func ParseState(name string) (State, error) { return lifecycle.ParseState(name) }

// The states. Runs use StatePending, StateRunning, StateCompleted, StateFailed
// and StateCanceled.
const (
	StatePending   = lifecycle.Pending   // waits for its parents; a run: for its start
	StateQueued    = lifecycle.Queued    // ready, waits for a slot
	StateRunning   = lifecycle.Running   // held by a pod
	StateBackoff   = lifecycle.Backoff   // failed, waits for its next attempt
	StateSleeping  = lifecycle.Sleeping  // a durable timer runs
	StateWaiting   = lifecycle.Waiting   // waits for a signal, for its child run, or for its elements
	StateCompleted = lifecycle.Completed // terminal, as are all below
	StateFailed    = lifecycle.Failed
	StateSkipped   = lifecycle.Skipped
	StateCanceled  = lifecycle.Canceled
)

// RunStatus is a run as it stood when it was read. Its times are in UTC. docs/json.md
// has its form in JSON, and those of the other types with tags.
type RunStatus struct {
	ID           RunID             `json:"id"`
	Workflow     string            `json:"workflow"`
	Tenant       string            `json:"tenant"`
	Key          string            `json:"key"`
	State        State             `json:"state"`
	Canceling    bool              `json:"canceling"` // asked to stop, and still running
	CancelReason string            `json:"cancel_reason"`
	Origin       string            `json:"origin"`               // what triggered it: api, tx, message, requeue, child, or the name of an operator, such as cli
	Parent       RunID             `json:"parent,omitzero"`      // whose child run it is; zero: of none
	ParentStep   string            `json:"parent_step,omitzero"` // the step of that run that began it; "": in a page, or that run is gone
	Labels       map[string]string `json:"labels,omitzero"`
	CreatedAt    time.Time         `json:"created_at"`
	StartedAt    time.Time         `json:"started_at,omitzero"`  // zero: not yet
	FinishedAt   time.Time         `json:"finished_at,omitzero"` // zero: not yet
	FailedStep   string            `json:"failed_step"`          // the step that failed first, unhandled; "": none
	Class        string            `json:"class"`                // class of its error; see [Class]
	Error        string            `json:"error"`                // its text
	Steps        []StepStatus      `json:"steps,omitzero"`       // parents before their children, without elements of maps; nil: in a page
	LeftOut      int               `json:"left_out,omitzero"`    // of a state machine: how many activities, timers and child runs have ended that Steps does not have; it has the last 100
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
	Name       string    `json:"name"`
	State      State     `json:"state"`
	Attempt    int       `json:"attempt"`              // attempts begun
	Losses     int       `json:"losses"`               // attempts lost with their pod
	Output     []byte    `json:"-"`                    // as the codec encoded it; nil: none, or not read. In JSON it is "output"
	OutputSize int       `json:"output_size"`          // bytes of the output, also where it was not read; -1: there is none
	Class      string    `json:"class"`                // class of the last error, also of a step that completed later; see [Class]
	Error      string    `json:"error"`                // its text; "": no attempt failed
	WakeAt     time.Time `json:"wake_at,omitzero"`     // when its timer fires; zero: none
	Pod        string    `json:"pod"`                  // name of the pod that executes it, or did last; "": none yet, or forgotten
	StartedAt  time.Time `json:"started_at,omitzero"`  // of the last attempt; zero: none
	FinishedAt time.Time `json:"finished_at,omitzero"` // zero: not yet
	Waiting    string    `json:"waiting"`              // why a queued step cannot be claimed right now, or for which signal, child run or elements a step waits, as Explain says it; "": nothing of these
	Child      RunID     `json:"child,omitzero"`       // the child run that it has begun; zero: none
	Map        MapStatus `json:"map,omitzero"`         // of a map: how its elements stand, which [Engine.Elements] reads; zero: it has begun none
}

func runStatus(row persistence.RunRow, tasks []persistence.TaskRow) RunStatus {
	status := RunStatus{
		ID: row.ID, Workflow: row.Workflow, Tenant: row.Tenant, Key: row.Key,
		State: row.State, Canceling: row.Canceling, CancelReason: row.CancelReason,
		Origin: row.Origin, Labels: row.Labels, Parent: row.Parent.Run,
		CreatedAt: utc(row.CreatedAt), StartedAt: utc(row.StartedAt), FinishedAt: utc(row.FinishedAt),
		FailedStep: row.FailedStep, Class: row.Class, Error: row.Error,
	}
	tasks, status.LeftOut = listed(tasks)
	for _, t := range tasks {
		step := StepStatus{
			Name: t.Name, State: t.State, Attempt: int(t.Attempt), Losses: int(t.Lost),
			Output: t.Output, OutputSize: t.OutputSize, Class: t.Class, Error: t.Error, WakeAt: utc(t.WakeAt),
			Pod: t.PodName, StartedAt: utc(t.StartedAt), FinishedAt: utc(t.FinishedAt), Child: t.Child, Map: mapStatus(&t.Map),
		}
		if t.Parked {
			step.Waiting = "no living pod registers this version of the step"
		}
		status.Steps = append(status.Steps, step)
	}
	return status
}

// spawnedShown is how much of what a machine has started, and has ended, a status lists.
const spawnedShown = 100

// listed returns the tasks that a status lists, and how many it leaves out: a machine may have started
// thousands of things that have ended.
func listed(tasks []persistence.TaskRow) (list []persistence.TaskRow, left int) {
	ended := 0
	for i := range tasks {
		if isSpawned(&tasks[i]) && tasks[i].State.Terminal() {
			ended++
		}
	}
	if left = ended - spawnedShown; left <= 0 {
		return tasks, 0
	}
	skip := left
	for i := range tasks {
		if skip > 0 && isSpawned(&tasks[i]) && tasks[i].State.Terminal() {
			skip--
			continue
		}
		list = append(list, tasks[i])
	}
	return list, left
}

// isSpawned reports whether a machine has started the task: its name has its number.
func isSpawned(t *persistence.TaskRow) bool {
	_, n := lifecycle.SpawnedAs(t.Name)
	return n > 0 && t.Step == workflow.MachineSteps+n
}

// Event is one row of a run's history. Which fields beside the first four are
// set depends on the kind; in JSON the others are left out.
//
// The kinds of steps are queued, started, completed, failed, retrying,
// timed_out (waited in the queue, or for a signal, for too long), lost (with its pod),
// released (handed back by a pod that stops), skipped, canceled, sleeping, woken and
// waiting (for a signal, a child run or elements); of a state machine activated (it has handled
// entries, and N counts up to this activation), and trimmed (stands for older ones, up to its N, that
// were removed). Those of runs are run_created, run_started, signaled, signal_refused (a machine could
// not decode it), cancel_requested, run_completed, run_failed and run_canceled.
type Event struct {
	Step    string        `json:"step"` // "": the run itself; of an element of a map as in "files[17]"
	N       int64         `json:"n"`    // counts the events of this step, or of the run itself, from 1
	Kind    string        `json:"kind"` // in the past tense; later versions may add kinds
	At      time.Time     `json:"at"`
	Pod     int64         `json:"pod,omitzero"`      // started: the pod that executes it; lost, released, canceled: the pod that held it; a number for each start of a pod
	PodName string        `json:"pod_name,omitzero"` // its name; "": forgotten. The names of the last 100,000 starts of pods are kept
	Attempt int           `json:"attempt,omitzero"`  // started; retrying, failed, canceled: the attempt that failed
	Delay   time.Duration `json:"delay_ns,omitzero"` // retrying: before the next attempt
	WakeAt  time.Time     `json:"wake_at,omitzero"`  // retrying, sleeping; waiting: its deadline, if there is one
	By      string        `json:"by,omitzero"`       // the cause; timed_out, retrying: which timeout, as in "attempt"; waiting, signaled, signal_refused: which signal or child run, or how many elements; activated: how many entries; "": none
	Class   string        `json:"class,omitzero"`    // of the error; see [Class]
	Text    string        `json:"text,omitzero"`     // the error, or the reason of a cancel
}

func publicEvent(e lifecycle.Event, name string) Event {
	return Event{
		Step: name, N: e.N, Kind: e.Kind.String(), At: utc(e.At), Pod: e.Pod, PodName: e.PodName, Attempt: int(e.Attempt),
		Delay: e.Delay, WakeAt: utc(e.WakeAt), By: e.By, Class: e.Class, Text: e.Text,
	}
}

// Filter selects runs. Zero fields select all.
type Filter struct {
	Tenant   string // "": the engine's default tenant; of OpenReader: all
	Workflow string
	States   []State
	Labels   map[string]string // all must match; as many and as long as those of a run
	Key      string            // idempotency key; quick with a tenant
	Origin   string            // what triggered it: api, tx, message, requeue, child, or the name of an operator, such as cli
	Parent   RunID             // whose child runs they are; zero: of any run, or of none
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
	Runs []RunStatus `json:"runs"`
	Next RunID       `json:"next,omitzero"` // up to where runs were searched: the Filter.Before of the next page; zero: nothing older matches
}
