package lifecycle

import "github.com/troupe-dev/troupe/workflow"

// Flags gather what a task's parents meant for it. Each parent adds its bits
// when it ends, so the verdict needs the task's own row only.
type Flags uint16

// The flags.
const (
	FlagCancel    Flags = 1 << iota // a parent ended in a way that its edge cancels, or a running task was fenced
	FlagFail                        // a condition panicked
	FlagSkip                        // a parent was skipped, or a condition says no
	FlagLive                        // at least one parent was not skipped
	FlagKept                        // its output is there before it begins: another run has completed it, or its signal came
	FlagInputSkip                   // a condition on the input says no
	FlagInputFail                   // a condition on the input panicked
	FlagSuspect                     // lost with its pods, and executed apart: nothing that a parent meant
	FlagSpread                      // a map whose elements have ended, or will: it gathers what they gave
	FlagStop                        // asked to stop while it ran, or a machine that its run's cancel was told to
	FlagLeft                        // with FlagStop: its machine ended while it ran, and had not canceled it
)

// Has reports whether all of the given flags are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Verdict is what a task becomes when its last parent has ended.
type Verdict uint8

// The verdicts, strongest first: cancel > fail > skip > run.
const (
	_ Verdict = iota
	VerdictCancel
	VerdictFail
	VerdictSkip
	VerdictRun
)

// EdgeFlags returns what a parent that ended as parent means for the child at
// the other end of the edge, edge by ending:
//
//	edge \ parent   completed  skipped  failed  canceled
//	plain           ok         skip     cancel  cancel
//	maybe           ok         ok       cancel  cancel
//	settled         ok         ok       ok      ok
//
// A conditioned edge (If, Switch) needs the output, so any ending but
// completed skips the child unless it cancels it.
func EdgeFlags(edge workflow.Child, parent State) Flags {
	var flags Flags
	if parent != Skipped {
		flags |= FlagLive
	}
	if parent != Completed && edge.Conditioned {
		flags |= FlagSkip
	}
	switch edge.Kind {
	case workflow.Plain:
		if parent == Skipped {
			flags |= FlagSkip
		}
		if parent == Failed || parent == Canceled {
			flags |= FlagCancel
		}
	case workflow.Maybe:
		if parent == Failed || parent == Canceled {
			flags |= FlagCancel
		}
	case workflow.Settled:
	}
	return flags
}

// DecideVerdict says what a task becomes once the last of its parents has
// ended, parents being how many it has. A task without parents has no flags
// but those of conditions on the input.
func DecideVerdict(flags Flags, traits workflow.Traits, parents int32) Verdict {
	switch {
	case flags&FlagCancel != 0:
		return VerdictCancel
	case flags&FlagFail != 0:
		return VerdictFail
	case flags&FlagSkip != 0:
		return VerdictSkip
	}
	allSkipped := parents > 0 && flags&FlagLive == 0
	if allSkipped && !traits.Has(workflow.TraitHoldsSettled) && !traits.Has(workflow.TraitRunIfAllSkipped) {
		return VerdictSkip
	}
	return VerdictRun
}

// Handled reports whether a failure of a task with these children is handled:
// there is at least one, and each holds it by Settled.
func Handled(children []workflow.Child) bool {
	for _, c := range children {
		if c.Kind != workflow.Settled {
			return false
		}
	}
	return len(children) > 0
}
