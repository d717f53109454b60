package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
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
	} else {
		text += ": there are " + strings.Join(commandNames(c), ", ")
	}
	return &usageError{fmt.Errorf("%s", text)}
}

// strictHelp lets the command help refuse what is no command. Cobra's own says so
// and succeeds.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.RunE = func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil {
				return &usageError{err}
			}
			if err := noArguments(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag() // as it is shown when the flag is used
			return about.Help()
		}
	}
}

// strictCompletion lets the command completion refuse a shell that it does not know, and
// arguments. Cobra's own prints help, and succeeds.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, completion := range root.Commands() {
		if completion.Name() != "completion" {
			continue
		}
		completion.Args = noArguments
		completion.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		for _, shell := range completion.Commands() {
			shell.Args = noArguments
		}
	}
}

// commandNames are the names that help lists.
func commandNames(c *cobra.Command) []string {
	var names []string
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	return names
}

// wrongFlag says where the right ones are.
func wrongFlag(c *cobra.Command, err error) error {
	return &usageError{fmt.Errorf("%w: %s --help lists the flags", err, c.CommandPath())}
}

var (
	urlPassword = regexp.MustCompile(`(://[^:/@\s]*:)\S*@`)
	keyPassword = regexp.MustCompile(`(?is)(password\s*=\s*)('(?:[^'\\]|\\.)*(?:'|$)|"[^"]*(?:"|$)|(?:\\.|[^\s&\x60])+)`)
	colonBreak  = regexp.MustCompile(`:\s*[\r\n]\s*`)
	lineBreak   = regexp.MustCompile(`\s*[\r\n]\s*`)
)

// oneLine renders an error for a terminal or a log: one line, no password,
// nothing that a terminal takes for a command.
func oneLine(text string) string {
	text = urlPassword.ReplaceAllString(text, "${1}xxxxx@")
	text = keyPassword.ReplaceAllString(text, "${1}xxxxx")
	text = colonBreak.ReplaceAllString(text, ": ")
	return output.Plain(lineBreak.ReplaceAllString(strings.TrimSpace(text), "; "))
}
