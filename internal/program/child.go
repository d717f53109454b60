package program

import "fmt"

// BeginsRunsOf says which workflow the step runs, and notes what is wrong with that.
func (s *Step) BeginsRunsOf(child *Program) {
	d := &child.Definition
	s.Function.Child, s.Child.Workflow = child, d.Name
	if problems := child.Validate(); len(problems) > 0 {
		text := fmt.Sprintf("workflow %q is wrong: %v", d.Name, problems[0])
		if more := len(problems) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		s.Problem("workflow", text, "mend that workflow")
		return
	}
	s.Child.Output = d.Steps[d.Output].OutputOf(d.Name)
}
