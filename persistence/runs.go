package persistence

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// RunRow is a run as a reader sees it.
type RunRow struct {
	ID           workflow.RunID
	Workflow     string
	Definition   workflow.Hash
	Tenant       string
	Key          string
	State        lifecycle.State
	Canceling    bool
	CancelReason string
	Origin       string
	Labels       map[string]string
	CreatedAt    time.Time
	StartedAt    time.Time       // zero: not yet
	FinishedAt   time.Time       // zero: not yet
	Output       []byte          // of the output step, once completed; nil otherwise
	HasOutput    bool            // the output step completed
	FailedStep   string          // first unhandled failure
	Error        string          // its text
	Class        string          // its class
	Parent       workflow.TaskID // whose child run it is; zero: none
}

// TaskRow is a task as a reader sees it.
type TaskRow struct {
	Step       int32
	Name       string
	State      lifecycle.State
	Epoch      int64
	Attempt    int32 // attempts begun; 0: none
	Lost       int32
	Pod        int64  // last pod; 0: none
	PodName    string // "": none, or forgotten, see PodNamesMax
	Output     []byte
	OutputSize int // bytes of the output, read or not; -1: there is none
	Class      string
	Error      string
	WakeAt     time.Time // of its timer; zero: none
	StartedAt  time.Time
	FinishedAt time.Time
	Child      workflow.RunID // the child run that it has begun; zero: none
	Map        MapRow         // of a map: how far it has come; zero: it has begun no elements
	Parked     bool           // queued, but no living pod registers its handler
}

// Without names a part that a read leaves out.
type Without uint8

// WithoutOutputs leaves out the outputs of steps and of the run: they are not
// read from the tables.
const WithoutOutputs Without = 1

// EndedMax bounds the runs of one EndedRuns.
const EndedMax = 1000

// Runs reads. Nothing is ever decided from what it returns.
type Runs interface {
	// Run returns a run of a tenant ("": any) or ErrRunNotFound. WithoutOutputs
	// leaves Output nil; HasOutput is set all the same.
	Run(ctx context.Context, tenant string, run workflow.RunID, without ...Without) (RunRow, error)
	// Tasks returns the tasks of a run by step, without the elements of maps; none before
	// it was expanded. WithoutOutputs leaves their Output nil.
	Tasks(ctx context.Context, tenant string, run workflow.RunID, without ...Without) ([]TaskRow, error)
	// EndedRuns returns those of some runs, at most EndedMax, that do not go on: they
	// have ended, or do not exist.
	EndedRuns(ctx context.Context, runs []workflow.RunID) ([]workflow.RunID, error)
	// Payloads returns the outputs of tasks of a run, in the order of the steps;
	// step -1 is the input of the run. Each step is named once. It returns
	// ErrRunNotFound if the run does not exist, or has no such step.
	Payloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error)
	// Elements returns a page of the elements of a map of a tenant ("": any), or
	// ErrRunNotFound.
	Elements(ctx context.Context, tenant string, of workflow.TaskID, query ElementQuery) (ElementPage, error)
	// Machine returns how far the machine of a run of a tenant ("": any) has come, and a page of
	// its inbox, also in history. ErrRunNotFound if there is no such run, ErrNoMachine if it is
	// none.
	Machine(ctx context.Context, tenant string, run workflow.RunID, query EntryQuery) (MachineRow, error)
}

// Payload returns the output of one task, or the input for step -1.
func Payload(ctx context.Context, runs Runs, task workflow.TaskID) ([]byte, error) {
	payloads, err := runs.Payloads(ctx, task.Run, []int32{task.Step})
	if err != nil {
		return nil, err
	}
	return payloads[0], nil
}

// Handler is one registered step: workflow, step and fingerprint, numbered by
// the database.
type Handler struct {
	Workflow    string
	Step        string
	Fingerprint workflow.Hash
}

// Registry knows definitions, handlers and queues.
type Registry interface {
	// RegisterDefinitions stores what is not known yet and returns the numbers
	// of all handlers of the graphs: in the order of their nodes, then the failure handler, then
	// those of the older versions of a machine. Queues are made known too.
	RegisterDefinitions(ctx context.Context, graphs []*workflow.Graph, queues []string) ([][]int32, error)
	// Definition returns a stored graph by hash, or nil.
	Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error)
	// StepNames returns the names in the definition of a run by step, the failure handler
	// last, also before the run was expanded, then those of its dynamic tasks. Their
	// numbers begin behind that of the failure handler: "" stands for one that is not
	// declared. A run that the tenant ("": any) does not have gives ErrRunNotFound.
	StepNames(ctx context.Context, tenant string, run workflow.RunID) ([]string, error)
}

// Store is everything an engine keeps.
//
//nolint:interfacebloat // The sum of the ports, each of which keeps the limit.
type Store interface {
	Intake
	Inbox
	Queue
	Journal
	Lease
	Timekeeping
	Housekeeping
	History
	Leadership
	Runs
	Reader
	Situations
	Backlogs
	DeadLetters
	Registry
}
