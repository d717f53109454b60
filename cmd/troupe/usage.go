package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// usageError is a call that cannot be meant: an unknown flag or variable, two
// sources that disagree, an address that is none. Nothing was tried.
type usageError struct{ error }

// Unwrap returns what is wrong.
func (e *usageError) Unwrap() error { return e.error }

// noArguments accepts none. For a command that has commands below it, an
// argument is the misspelled name of one.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasAvailableSubCommands() {
		return &usageError{fmt.Errorf("%s takes no argument, got %q", c.CommandPath(), args[0])}
	}
	text := fmt.Sprintf("%s has no command %q", c.CommandPath(), args[0])
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return &usageError{fmt.Errorf("%s", text)}
}

var (
	urlPassword = regexp.MustCompile(`(://[^:/@\s]*:)\S*@`)
	keyPassword = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)`)
	lineBreak   = regexp.MustCompile(`\s*[\r\n]\s*`)
)

// oneLine renders an error for a terminal or a log: one line, no password.
func oneLine(text string) string {
	text = urlPassword.ReplaceAllString(text, "${1}xxxxx@")
	text = keyPassword.ReplaceAllString(text, "${1}xxxxx")
	return lineBreak.ReplaceAllString(strings.TrimSpace(text), "; ")
}
