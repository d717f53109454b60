package troupe

import (
	"context"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/statemachine"
)

// machineState is that of the machine: how many activities have ended, and what the next one needs.
type machineState struct {
	Job   peer.Job `json:"job"`
	Ended int      `json:"ended"`
}

// machine executes activities one after the other: it starts the next one when it hears of the end of
// one, and completes with the last.
func machine(probe *peer.Probe) troupe.Definition[peer.Job, string] {
	type activation = statemachine.Activation[machineState, string]
	last := peer.Machine.Steps() - 1
	return statemachine.Define(string(peer.Machine), func(m *statemachine.Builder[peer.Job, machineState, string]) {
		activity := statemachine.Activity(m, "activity", func(_ context.Context, in machineState) (string, error) {
			switch in.Ended {
			case 0:
				probe.Begin(in.Job)
			case last:
				probe.End(in.Job.ID)
			}
			return peer.Machine.Output(), nil
		})
		m.OnStart(func(a *activation, job peer.Job) {
			a.State.Job = job
			activity.Start(a, a.State)
		})
		statemachine.OnCompleted(m, activity, func(a *activation, out string) {
			if a.State.Ended == last {
				a.Complete(out)
				return
			}
			a.State.Ended++
			activity.Start(a, a.State)
		})
	})
}
