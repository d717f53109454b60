package workflow

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a definition.
type Problem struct { //nolint:errname // it is one entry of a report, not a failure
	Step   string // name of the step; "": the workflow as a whole
	Field  string // what is wrong, e.g. "parents[1]" or "retry.first"
	Text   string // how it is wrong
	Remedy string // what to do about it
}

// Error returns the problem as one line.
func (p Problem) Error() string {
	var line strings.Builder
	if p.Step != "" {
		fmt.Fprintf(&line, "step %s: ", quoted(p.Step))
	}
	if p.Field != "" {
		line.WriteString(p.Field + ": ")
	}
	line.WriteString(p.Text)
	if p.Remedy != "" {
		line.WriteString(": " + p.Remedy)
	}
	return line.String()
}

// Problems returns the problems that err joins, in order; nil if it is not
// made of problems.
func Problems(err error) []Problem {
	var found []Problem
	for open := []error{err}; len(open) > 0; {
		next := open[0]
		open = open[1:]
		switch e := next.(type) { //nolint:errorlint // takes the tree apart itself
		case Problem:
			found = append(found, e)
		case interface{ Unwrap() []error }:
			open = append(e.Unwrap(), open...)
		case interface{ Unwrap() error }:
			open = append([]error{e.Unwrap()}, open...)
		}
	}
	return found
}

// ProblemsMax bounds the problems of one report: more would not be read, and a
// machine-made definition can have a hundred thousand.
const ProblemsMax = 100

// report gathers problems.
type report struct {
	problems []error
	dropped  int
}

func (r *report) add(p Problem) {
	if len(r.problems) >= ProblemsMax {
		r.dropped++
		return
	}
	r.problems = append(r.problems, p)
}

// check adds a problem of a field unless text is empty.
func (r *report) check(step, field, text, remedy string) {
	if text != "" {
		r.add(Problem{Step: step, Field: field, Text: text, Remedy: remedy})
	}
}

func (r *report) err() error {
	if r.dropped > 0 {
		last := Problem{Text: fmt.Sprintf("and %d more problems", r.dropped)}
		return errors.Join(append(r.problems, last)...)
	}
	return errors.Join(r.problems...)
}

// shownMax bounds what a message repeats of a name, in bytes.
const shownMax = 64

// quoted writes a name for a message: control characters and others that could
// forge the text around it are escaped, long names are cut.
func quoted(name string) string {
	if len(name) > shownMax {
		return fmt.Sprintf("%+q…", name[:shownMax])
	}
	return fmt.Sprintf("%+q", name)
}
