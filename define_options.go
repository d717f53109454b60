package troupe

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/workflow"
)

// StepOption is an option of a step: an [EdgeOption] or a [FunctionOption]. Only
// packages of this module can implement it.
type StepOption interface{ ApplyStep(step *program.Step) }

// EdgeOption says when a step runs: [After], [RunIfAllSkipped], and what [If],
// [Switch] and [SkipIf] return. Steps, sleeps, waits, child runs and maps take it.
type EdgeOption interface {
	StepOption
	WaitOption
	ChildOption
	MapOption
	IsEdgeOption()
}

// WaitOption is an option of [WaitSignal]: an [EdgeOption], [SkipAfter] or [FailAfter].
// Only packages of this module can implement it.
type WaitOption interface{ ApplyWait(step *program.Step) }

// ChildOption is an option of [Child]: an [EdgeOption] or [AbandonChild]. Only packages of this
// module can implement it.
type ChildOption interface{ ApplyChild(step *program.Step) }

// MapOption is an option of [Map] and of [MapSettled]: an [EdgeOption], a [FunctionOption] or
// [MaxConcurrency]. Only packages of this module can implement it.
type MapOption interface {
	SettledMapOption
	IsMapOption()
}

// SettledMapOption is an option of [MapSettled]: a [MapOption] or [ToleratedFailures]. Only
// packages of this module can implement it.
type SettledMapOption interface{ ApplyMap(step *program.Step) }

// FunctionOption says how a step function is executed: [Retry],
// [AttemptTimeout], [HeartbeatTimeout], [ScheduleToStartTimeout], [Queue] and
// [InTx]. Steps and [Builder.OnFailure] take it, and for their elements [Map] and
// [MapSettled]; these refuse InTx. Of two that say the same thing the last counts.
type FunctionOption interface {
	StepOption
	MapOption
	IsFunctionOption()
}

type edgeOption func(s *program.Step)

func (o edgeOption) ApplyStep(s *program.Step)  { o(s) }
func (o edgeOption) ApplyWait(s *program.Step)  { o(s) }
func (o edgeOption) ApplyChild(s *program.Step) { o(s) }
func (o edgeOption) ApplyMap(s *program.Step)   { o(s) }
func (edgeOption) IsEdgeOption()                {}
func (edgeOption) IsMapOption()                 {}

type waitOption func(s *program.Step)

func (o waitOption) ApplyWait(s *program.Step) { o(s) }

type functionOption func(s *program.Step)

func (o functionOption) ApplyStep(s *program.Step) { o(s) }
func (o functionOption) ApplyMap(s *program.Step)  { o(s) }
func (functionOption) IsFunctionOption()           {}
func (functionOption) IsMapOption()                {}

// After makes a step wait for others without reading their outputs. A plain
// ref must complete; [Maybe] and [Settled] mean what they mean for parents.
func After(refs ...Dependency) EdgeOption {
	return edgeOption(func(s *program.Step) {
		for _, ref := range refs {
			if to, ok := edge(s, fmt.Sprintf("after[%d]", len(s.After)), ref); ok {
				s.After = append(s.After, to)
			}
		}
	})
}

// RunIfAllSkipped makes a step run even if every parent that it holds by
// [Maybe] was skipped. Without it such a step is skipped, too.
func RunIfAllSkipped() EdgeOption {
	return edgeOption(func(s *program.Step) { s.RunIfAllSkipped = true })
}

// Retry is the option that gives a failed step further attempts. The wait
// before attempt n+1 is min(Cap, First × Factorⁿ⁻¹), give or take Jitter. It is
// a durable timer: no process waits. Attempts lost with their process do not
// count. A Cap below First is refused. Without the option, and without
// Config.Retry, a step has one attempt.
//
//	troupe.Retry{Attempts: 5, First: 200 * time.Millisecond, Never: []string{"declined"}}
type Retry struct {
	Attempts int              // in all, with the first; 1: no retry
	First    time.Duration    // wait before the second attempt; 0: 1 s
	Factor   float64          // growth of the wait; 0: 2
	Cap      time.Duration    // longest wait; 0: 60 s, or First if that is longer
	Jitter   float64          // fraction by which a wait varies; 0: 0.1; negative: none
	If       func(error) bool // which errors are worth another attempt; nil: all but [Terminal] ones
	// Never names the classes of errors that no other attempt follows: those that
	// [Class] gave them, or the engine's, such as panic and timed_out. Of an error
	// with several classes the outermost counts.
	Never []string
}

// ApplyStep implements [StepOption].
func (r Retry) ApplyStep(s *program.Step) {
	if r.Attempts == 0 {
		s.Problem("retry.attempts", "0 attempts", "say how many in all, as in Retry{Attempts: 3}")
	}
	s.Options.Retry, s.Function.Retry, s.Function.RetryIf = r.policy(), true, r.If
}

// ApplyMap implements [MapOption].
func (r Retry) ApplyMap(s *program.Step) { r.ApplyStep(s) }

// IsFunctionOption implements [FunctionOption].
func (Retry) IsFunctionOption() {}

// IsMapOption implements [MapOption].
func (Retry) IsMapOption() {}

func (r Retry) policy() workflow.RetryPolicy {
	return workflow.RetryPolicy{Attempts: r.Attempts, First: r.First, Factor: r.Factor, Cap: r.Cap, Jitter: r.Jitter, Never: slices.Clone(r.Never)}
}

// AttemptTimeout limits one attempt: its context ends, and the attempt fails
// whatever it returns. A function that keeps running nevertheless cannot be stopped;
// Stats.Stuck counts those. Without the option Config.AttemptTimeout applies,
// or Config.InTxTimeout to a step with [InTx].
func AttemptTimeout(limit time.Duration) FunctionOption {
	return timeout("attempt_timeout", limit, func(o *workflow.Options) { o.AttemptTimeout = limit })
}

// HeartbeatTimeout limits the silence between two calls of [Heartbeat], the
// start of the attempt counting as one: it finds a step that hangs long before
// a generous [AttemptTimeout] does.
func HeartbeatTimeout(limit time.Duration) FunctionOption {
	return timeout("heartbeat_timeout", limit, func(o *workflow.Options) { o.HeartbeatLimit = limit })
}

// ScheduleToStartTimeout limits how long a step that is ready waits for a free
// slot; then it fails.
func ScheduleToStartTimeout(limit time.Duration) FunctionOption {
	return timeout("schedule_to_start_timeout", limit, func(o *workflow.Options) { o.ScheduleToStart = limit })
}

func timeout(field string, limit time.Duration, set func(*workflow.Options)) FunctionOption {
	return functionOption(func(s *program.Step) {
		if limit == 0 {
			s.Problem(field, "0s is not a limit", "give a positive duration, or leave the option out")
		}
		set(&s.Options)
	})
}

// Queue puts a step into a named queue instead of the run's: only pods that
// serve the queue execute it. A pod serves those in Config.QueueSlots, or
// without it "default" and those of the steps that it has registered.
func Queue(name string) FunctionOption {
	return functionOption(func(s *program.Step) {
		if name == "" {
			s.Problem("queue", "the name is empty", "name a queue, or leave the option out")
		}
		s.Options.Queue = name
	})
}

// InTx executes a step inside a transaction, [Tx], which commits together with
// the step's completion: what it writes there happens exactly once. The
// transaction is open as long as the step function runs, so keep it short; it
// takes a connection of the pool given to [New]. Where it is rolled back, as after
// a conflict, the function is called again: what it does elsewhere may be repeated.
func InTx() FunctionOption {
	return functionOption(func(s *program.Step) { s.Options.InTx = true })
}
