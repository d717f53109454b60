package load

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

const (
	machineKind       = "machine"
	activitiesDefault = 20 // of a machine without a number

	// machineStep is the name of the step that a machine is: its attempts are the activations.
	machineStep = "machine"
)

// machineState is the state of a machine: what its activities need, and how many have ended. The
// payload of the input is not kept in it: as in other shapes, it is written once.
type machineState struct {
	Order order `json:"order"`
	Ended int   `json:"ended"`
}

// activityInput is the input of an activity.
type activityInput struct {
	Order order `json:"order"`
	Step  int   `json:"step"`
}

// machine is a state machine that executes n activities, one after the other. Each activation
// handles the end of one and starts the next one; the last of them ends the run, as the last step
// of other shapes does.
func machine(w *worker, n int) troupe.Definition[order, result] {
	type activation = statemachine.Activation[machineState, result]
	return statemachine.Define("bench-machine", func(m *statemachine.Builder[order, machineState, result]) {
		activity := statemachine.Activity(m, "activity", func(ctx context.Context, in activityInput) (result, error) {
			return w.work(ctx, in.Order, in.Step, in.Step == n-1)
		}, w.retry())
		m.OnStart(func(a *activation, in order) {
			in.Pad = ""
			a.State.Order = in
			activity.Start(a, activityInput{in, 0})
		})
		statemachine.OnCompleted(m, activity, func(a *activation, out result) {
			a.State.Ended++
			if a.State.Ended == n {
				a.Complete(out)
				return
			}
			activity.Start(a, activityInput{a.State.Order, a.State.Ended})
		})
		m.OnFailed(activity, func(a *activation, why *troupe.StepError) {
			a.Fail(troupe.Class(why.Class, fmt.Errorf("%s has failed for good: %w", a.ID, why)))
		})
	})
}
