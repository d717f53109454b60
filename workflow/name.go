package workflow

import (
	"fmt"
	"strings"
)

// NameMax is the longest name of a workflow, step or queue, in bytes: it fits
// every index, path and label that a name ends up in.
const NameMax = 255

// CheckName says what is wrong with the name of a workflow, step or queue, or
// returns nil. A name has 1 to NameMax bytes, each an ASCII letter, a digit or
// one of . _ -, begins with a letter or a digit and has no two dots in a row:
// it can stand in a path, a metric or a log line as it is, and no two names
// look the same.
func CheckName(name string) error {
	text, remedy := judgeName(name)
	if text == "" {
		return nil
	}
	return Problem{Text: text, Remedy: remedy}
}

const nameRemedy = "use ASCII letters, digits and . _ - only, beginning with a letter or a digit"

func judgeName(name string) (text, remedy string) {
	switch {
	case name == "":
		return "the name is empty", nameRemedy
	case len(name) > NameMax:
		return fmt.Sprintf("the name has %d bytes", len(name)), fmt.Sprintf("use at most %d", NameMax)
	}
	for i, r := range name {
		if !nameRune(r) {
			return fmt.Sprintf("the name has %+q at byte %d", r, i), nameRemedy
		}
	}
	switch {
	case strings.ContainsRune("._-", rune(name[0])):
		return fmt.Sprintf("the name begins with %q", name[0]), nameRemedy
	case strings.Contains(name, ".."):
		return `the name has ".." in it`, "use one dot at a time"
	}
	return "", ""
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}
