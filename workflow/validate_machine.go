package workflow

import "fmt"

// VersionMax bounds the version of the state of a machine: a program executes all before its own.
const VersionMax = 1000

// spawnedNameMax leaves room in a name for how many the machine has started before.
const spawnedNameMax = NameMax - len("#2147483647")

// IsMachine reports whether the definition is one of a state machine.
func (d *Definition) IsMachine() bool { return len(d.Steps) > 0 && d.Steps[0].Kind == Machine }

// machine judges what only definitions with a machine have: the machine is their first step, and
// its activations start what the others declare.
func (r *report) machine(d *Definition) {
	for i := range d.Steps {
		s := &d.Steps[i]
		switch {
		case s.Kind == Machine && i > 0:
			r.check(s.Name, "kind", "a machine beside other steps", "declare it as the first step, and the others as what it starts")
		case s.Spawned && !d.IsMachine():
			r.check(s.Name, "spawned", "the workflow has no machine that starts it", "declare a machine as the first step")
		case !d.IsMachine():
		case i > 0 && !s.Spawned:
			r.check(s.Name, "spawned", "the workflow is a machine, which starts all that it has", "declare it as what the machine starts")
		case s.Kind == Map:
			r.check(s.Name, "kind", "a machine cannot start a map", "start an activity for each element")
		case s.Kind == Sleep:
			r.check(s.Name, "kind", "a machine cannot start a sleep of a fixed duration", "use SleepUntil")
		case len(s.Parents)+len(s.After)+len(s.Conditions) > 0 || s.RunIfAllSkipped || s.Kind == SleepUntil && s.WakeFrom != Input:
			r.check(s.Name, "parents", "what a machine starts depends on no step", "remove its edges and conditions")
		case s.Spawned && s.Kind != Wait && len(s.Name) > spawnedNameMax && len(s.Name) <= NameMax:
			r.check(s.Name, "name", fmt.Sprintf("the name of what a machine starts has %d bytes", len(s.Name)), fmt.Sprintf("use at most %d", spawnedNameMax))
		case s.Options.InTx && s.Kind == Machine:
			r.check(s.Name, "in_tx", "a machine has no transaction of its own", "remove the option")
		}
	}
	if !d.IsMachine() {
		return
	}
	m := &d.Steps[0]
	if m.Version < 1 || m.Version > VersionMax {
		r.check(m.Name, "version", fmt.Sprintf("the version is %d", m.Version), fmt.Sprintf("use 1 to %d", VersionMax))
	}
	r.duration(m.Name, "cancel", m.Sleep)
	if len(d.Steps) > MachineSteps {
		r.check("", "steps", fmt.Sprintf("%d activities, timers, children and signals", len(d.Steps)-1), fmt.Sprintf("use at most %d", MachineSteps-1))
	}
	if d.OnFailure != nil {
		r.check(d.OnFailure.Name, "on_failure", "a machine has no failure handler", "handle failures where the machine hears of them")
	}
	if d.Output != 0 {
		r.check("", "output", "the output of a machine is its own", "return that of the machine")
	}
}
