package lifecycle

import "github.com/troupe-dev/troupe/workflow"

// Resumed is what a run that continues an ended run of a machine begins with, beside the state
// and the signals that the machine has not handled. An activation that fails stores nothing, so
// that is the state before it.
type Resumed struct {
	// Ended are the tasks that have completed and whose ends the machine has not handled: it hears
	// of them in the new run, under Entry.
	Ended []Task
	// Again are the tasks that the new run executes once more, under their numbers and names: the
	// machine has started them, they did not complete, and it has not handled how they ended.
	// Timers have the instants that they had.
	Again []Task
	// Signals is the number of the last entry of the inbox.
	Signals int64
}

// ResumeMachine says what a run that continues an ended run of a machine takes over. tasks are
// those of the ended run, and taken is the number up to which its machine has handled entries.
//
// What the machine has canceled stays canceled; what was canceled because the machine or its run
// ended begins again. A cancel that the machine has heard of was of the ended run, and is not
// taken over.
func ResumeMachine(run Run, tasks []Task, taken int64) Resumed {
	r := Resumed{Signals: run.Signals}
	for i := range tasks {
		t := &tasks[i]
		if !t.IsSpawned() || t.Entry < 0 || t.Entry > 0 && t.Entry <= taken {
			continue
		}
		next := Task{
			Step: t.Step, State: Pending, Traits: t.Traits, Sleep: t.Sleep, Signal: t.Signal, WakeAt: t.WakeAt,
			StartTimeout: t.StartTimeout, Dynamic: t.Dynamic,
		}
		if t.State != Completed {
			r.Again = append(r.Again, next)
			continue
		}
		next.State, next.Flags, next.Epoch, next.Entry = Completed, FlagKept, 1, t.Entry
		if next.Entry == 0 { // it completed behind the end of the machine
			r.Signals++
			next.Entry = r.Signals
		}
		r.Ended = append(r.Ended, next)
	}
	return r
}

// LeftBehind reports whether a run that continues an ended run of a machine has no use for the
// failure of one of its tasks: the machine has handled it, or has completed. taken is as for
// [ResumeMachine]. Tasks that were handled long ago have no rows.
func LeftBehind(tasks []Task, dead int32, taken int64) bool {
	found := false
	for i := range tasks {
		t := &tasks[i]
		if t.Traits.Has(workflow.TraitMachine) && t.State == Completed {
			return true
		}
		if t.Step == dead {
			found = true
			if t.IsSpawned() && t.Entry > 0 && t.Entry <= taken {
				return true
			}
		}
	}
	return !found
}
