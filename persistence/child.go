package persistence

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// OriginChild is the origin of runs that a step of another run began.
const OriginChild = "child"

// Child is the run that a step of kind [workflow.ChildRun] begins and waits for. It has the tenant,
// the labels and the default queue of the run of that step.
type Child struct {
	Run          workflow.RunID // made by the caller of the port, as that of a Trigger
	Definition   workflow.Hash
	Workflow     string
	KeyRun       workflow.RunID // ChildKeys of the step
	Input        []byte
	Edges        []EdgeResult // conditions on the input
	TraceContext string
}

// ChildKeys returns after which run the idempotency keys of a child run are named: of a step,
// whose own keys are named after keys. A run that continues the parent begins another child run
// with the same keys. No run has the id: its version is 8 (RFC 9562, section 5.8).
func ChildKeys(keys workflow.RunID, step string) (id workflow.RunID) {
	sum := sha256.Sum256(append(append([]byte("troupe child keys 1"), keys[:]...), step...))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// OfChild reports whether keys are those of a child run, or of a run that continues one.
func OfChild(keys workflow.RunID) bool { return keys[6]>>4 == 8 }

// CheckChild returns as ErrBadRow why a store refuses what a transition says about a child run.
// node declares its task; nil: none is known to. known reports whether a definition is registered.
func (t *Transition) CheckChild(node *workflow.Node, known func(workflow.Hash) bool) error {
	if t.Report != lifecycle.Yielded || t.Map != nil || t.Activation != nil {
		return nil
	}
	switch {
	case node == nil || node.Kind != workflow.ChildRun || t.Child == nil:
		return fmt.Errorf("%w: only a step with a child run waits for one", ErrBadRow)
	case t.Child.Workflow != node.Child.Workflow:
		return fmt.Errorf("%w: the child run of step %q is of workflow %q, not %.40q", ErrBadRow, node.Name, node.Child.Workflow, t.Child.Workflow)
	case !known(t.Child.Definition):
		return fmt.Errorf("%w: workflow %q is not registered: register it with the one whose step begins it", ErrBadRow, t.Child.Workflow)
	}
	return nil
}

// ParentCanceled is the request to stop that reaches a child run when the step that began it is
// canceled. Its running tasks may go on for as long as a cancel allows by default.
func ParentCanceled() lifecycle.CancelRequested {
	return lifecycle.CancelRequested{By: "parent", Reason: "the step that waits for this run was canceled", Grace: 30 * time.Second}
}

// Family is how a child run belongs to the step that waits for it.
type Family struct {
	Parent   workflow.TaskID // zero: the run is no child
	Abandons bool            // the run continues when the step is canceled
	Depth    int16           // how many runs are above it
}
