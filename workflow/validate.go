package workflow

import (
	"fmt"
	"strings"
)

// StepsMax bounds the steps of a definition: a run has a row for each.
const StepsMax = 100_000

// Validate reports everything that is wrong with a definition at once: the
// error joins a [Problem] for each, at most [ProblemsMax] of them. It takes
// time linear in the edges and does not recurse, so a chain of any length is
// fine.
//
// A step is unreachable, and a problem, if no run can ever execute it: it
// waits for a cycle, or it needs two branches of one decision.
func (d *Definition) Validate() error {
	var r report
	r.definition(d)
	if len(d.Steps) > StepsMax {
		r.check("", "steps", fmt.Sprintf("%d steps", len(d.Steps)),
			fmt.Sprintf("use at most %d: split the workflow", StepsMax))
		return r.err()
	}
	r.names(d)
	for i := range d.Steps {
		r.step(d, i)
	}
	r.decisions(d)
	if d.OnFailure != nil {
		r.handler(d.OnFailure)
	}
	r.machine(d)
	order := r.cycles(d)
	r.contradictions(d, order)
	return r.err()
}

// definition judges what belongs to the workflow as a whole.
func (r *report) definition(d *Definition) {
	text, remedy := judgeName(d.Name)
	r.check("", "name", text, remedy)
	if d.Policy != FailFast && d.Policy != FinishSiblings {
		r.check("", "policy", fmt.Sprintf("unknown failure policy %d", d.Policy), "use FailFast or FinishSiblings")
	}
	switch {
	case len(d.Steps) == 0:
		r.check("", "steps", "the workflow has no steps", "declare at least one")
	case d.Output < 0 || d.Output >= len(d.Steps):
		r.check("", "output", fmt.Sprintf("refers to step %d of %d", d.Output, len(d.Steps)), "return the ref of a step")
	case !d.Steps[d.Output].gives():
		r.check("", "output", fmt.Sprintf("%s is a sleep and has no output", quoted(d.Steps[d.Output].Name)),
			"return the ref of a step with a function")
	}
}

// names finds bad and duplicate ones. Names that differ by case only are one:
// people cannot tell them apart in a list, nor some file systems in a path.
func (r *report) names(d *Definition) {
	seen := make(map[string]string, len(d.Steps)+1)
	judge := func(s *Step) {
		text, remedy := judgeName(s.Name)
		r.check(s.Name, "name", text, remedy)
		key := strings.ToLower(s.Name)
		twin, taken := seen[key]
		switch {
		case s.Name == "":
		case !taken:
			seen[key] = s.Name
		case twin == s.Name:
			r.check(s.Name, "name", "another step has the same name", "rename one of them")
		default:
			r.check(s.Name, "name", fmt.Sprintf("differs from step %s by case only", quoted(twin)), "rename one of them")
		}
	}
	for i := range d.Steps {
		judge(&d.Steps[i])
	}
	if d.OnFailure != nil {
		judge(d.OnFailure)
	}
}

// step judges one step by itself and the range of what it refers to.
func (r *report) step(d *Definition, i int) {
	s := &d.Steps[i]
	switch s.Kind {
	case Func:
	case Sleep:
		if s.Sleep <= 0 {
			r.check(s.Name, "sleep", fmt.Sprintf("%v is not a positive duration", s.Sleep), "sleep for more than zero, or leave the step out")
		}
		r.duration(s.Name, "sleep", max(s.Sleep, 0))
	case SleepUntil:
		if s.WakeFrom != Input {
			r.ref(d, i, "wake_from", s.WakeFrom, true)
		}
	case Wait:
		r.wait(s)
	case ChildRun:
		r.child(s)
	case Map:
		r.mapped(s)
	case Machine:
	default:
		r.check(s.Name, "kind", fmt.Sprintf("unknown kind %d", s.Kind), "use Func, Sleep, SleepUntil, Wait, ChildRun, Map or Machine")
	}
	if s.Kind == Sleep || s.Kind == SleepUntil {
		r.sleeps(s)
	}
	for n, edge := range s.Parents {
		r.edge(d, i, fmt.Sprintf("parents[%d]", n), edge, true)
	}
	for n, edge := range s.After {
		r.edge(d, i, fmt.Sprintf("after[%d]", n), edge, false)
	}
	r.options(s)
}

// gives reports whether a step has an output.
func (s *Step) gives() bool { return s.Kind != Sleep && s.Kind != SleepUntil }

// wait judges a step that waits for a signal.
func (r *report) wait(s *Step) {
	if text, remedy := judgeName(s.Signal); text != "" {
		r.check(s.Name, "signal", text, remedy)
	}
	if s.Sleep < 0 {
		r.check(s.Name, "deadline", fmt.Sprintf("%v is not a positive duration", s.Sleep), "give a positive duration, or wait for ever")
	}
	r.duration(s.Name, "deadline", max(s.Sleep, 0))
	if len(s.Parents) > 0 {
		r.check(s.Name, "parents", "a wait for a signal takes no parameters", "use After")
	}
	r.noAttempts(s, "a wait for a signal")
}

// child judges a step that begins another run.
func (r *report) child(s *Step) {
	if text, remedy := judgeName(s.Child.Workflow); text != "" {
		r.check(s.Name, "workflow", text, remedy)
	}
	if len(s.Parents) != 1 && !s.Spawned {
		r.check(s.Name, "input", fmt.Sprintf("a child run has one input: the step has %d parents", len(s.Parents)), "make the input in a step of its own")
	}
	r.noAttempts(s, "a child run")
}

// mapNameMax is the longest name of a map: the names of its elements have the number of the item
// behind it, in brackets.
const mapNameMax = NameMax - len("[99999]")

// mapped judges a step that executes a function for each element of a list.
func (r *report) mapped(s *Step) {
	if len(s.Name) > mapNameMax && len(s.Name) <= NameMax {
		r.check(s.Name, "name", fmt.Sprintf("the name of a map has %d bytes", len(s.Name)), fmt.Sprintf("use at most %d", mapNameMax))
	}
	if len(s.Parents) != 1 {
		r.check(s.Name, "items", fmt.Sprintf("a map has one list of items: the step has %d parents", len(s.Parents)), "make the list in a step of its own")
	}
	if s.Options.InTx {
		r.check(s.Name, "in_tx", "the elements of a map have no transactions", "remove the option")
	}
}

// noAttempts judges the options of a step that is not a function.
func (r *report) noAttempts(s *Step, what string) {
	if o := s.Options; o.AttemptTimeout != 0 || o.HeartbeatLimit != 0 || o.ScheduleToStart != 0 || o.InTx || o.Retry.tried() {
		r.check(s.Name, "options", what+" has no attempts or timeouts", "remove the options")
	}
}

// tried reports whether a policy says anything.
func (p RetryPolicy) tried() bool {
	return p.Attempts != 0 || p.First != 0 || p.Factor != 0 || p.Cap != 0 || p.Jitter != 0 || p.Never != nil
}

// sleeps judges what only a function can have.
func (r *report) sleeps(s *Step) {
	if len(s.Parents) > 0 {
		r.check(s.Name, "parents", "a sleep takes no parameters", "use After")
	}
	if o := s.Options; o.Retry.tried() || o.Queue != "" || o.AttemptTimeout != 0 || o.HeartbeatLimit != 0 || o.ScheduleToStart != 0 || o.InTx {
		r.check(s.Name, "options", "a sleep has no attempts, queue or timeouts", "remove the options")
	}
}

func (r *report) edge(d *Definition, i int, field string, edge Edge, carriesOutput bool) {
	r.ref(d, i, field, edge.Parent, carriesOutput)
	if edge.Kind != Plain && edge.Kind != Maybe && edge.Kind != Settled {
		r.check(d.Steps[i].Name, field, fmt.Sprintf("unknown edge kind %d", edge.Kind), "use Plain, Maybe or Settled")
	}
}

// ref judges a reference to another step.
func (r *report) ref(d *Definition, i int, field string, to int, carriesOutput bool) {
	name := d.Steps[i].Name
	switch {
	case to < 0 || to >= len(d.Steps):
		r.check(name, field, fmt.Sprintf("refers to step %d of %d: there is no such step", to, len(d.Steps)),
			"use a ref of this workflow")
	case to == i:
		r.check(name, field, "the step depends on itself", "remove the edge")
	case carriesOutput && !d.Steps[to].gives():
		r.check(name, field, fmt.Sprintf("%s is a sleep and has no output", quoted(d.Steps[to].Name)), "use After")
	}
}

// decisions judges conditions, each by itself and those of one decision
// together.
func (r *report) decisions(d *Definition) {
	type shape struct {
		family conditionFamily
		ref    int
	}
	seen := map[int]shape{}
	for i := range d.Steps {
		name := d.Steps[i].Name
		for n, c := range d.Steps[i].Conditions {
			field := fmt.Sprintf("conditions[%d]", n)
			if c.Ref != Input {
				r.ref(d, i, field, c.Ref, true)
			}
			family := c.Kind.family()
			if family == 0 {
				r.check(name, field, fmt.Sprintf("unknown condition kind %d", c.Kind), "use Then, Otherwise, Case, Default or SkipIf")
				continue
			}
			if c.Kind != Case && c.Case != "" {
				r.check(name, field, "only a Case names a value", "leave Case empty")
			}
			first, known := seen[c.Decision]
			switch {
			case c.Decision < 0:
				r.check(name, field, fmt.Sprintf("refers to decision %d", c.Decision), "count decisions from 0")
			case !known:
				seen[c.Decision] = shape{family, c.Ref}
			case first != shape{family, c.Ref}:
				r.check(name, field, fmt.Sprintf("decision %d has another kind or ref elsewhere", c.Decision),
					"give each If, Switch and SkipIf a number of its own")
			}
		}
	}
}

// handler judges the failure handler, which depends on nothing: it runs when
// everything else has ended.
func (r *report) handler(s *Step) {
	if s.Kind != Func {
		r.check(s.Name, "kind", "the failure handler is not a function", "use Func")
	}
	if len(s.Parents)+len(s.After)+len(s.Conditions) > 0 || s.RunIfAllSkipped {
		r.check(s.Name, "parents", "the failure handler depends on steps", "remove its edges and conditions: it runs last")
	}
	if s.Options.ScheduleToStart != 0 {
		r.check(s.Name, "schedule_to_start_timeout", "the failure handler has a limit on its wait", "remove it: a failure of the handler is not handled")
	}
	r.options(s)
}

// conditionFamily is which function a condition's decision calls.
type conditionFamily uint8

const (
	_ conditionFamily = iota
	ifFamily
	switchFamily
	skipFamily
)

func (k ConditionKind) family() conditionFamily {
	switch k {
	case Then, Otherwise:
		return ifFamily
	case Case, Default:
		return switchFamily
	case SkipIf:
		return skipFamily
	}
	return 0
}
