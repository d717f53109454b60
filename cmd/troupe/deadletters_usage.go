package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/persistence"
)

// Letters of a page of a listing.
const (
	deadPage    = 100
	deadPageMax = persistence.PageMax
)

// check refuses filters that are given and say nothing: an unset variable of a
// script must not select everything.
func (f *deadFlags) check(c *cobra.Command) error {
	for _, name := range append(selectingFlags(), "tenant", "after") {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		switch text := flag.Value.String(); {
		case text == "" || text == "[]":
			return fmt.Errorf("--%s is empty: say which, or leave it out for all", name)
		case !utf8.ValidString(text):
			return fmt.Errorf("--%s is %q, which is not valid UTF-8: write it in UTF-8", name, text)
		case name == "older-than" && f.filter.OlderThan < 0, name == "younger-than" && f.filter.YoungerThan <= 0:
			return fmt.Errorf("--%s is %s: use a positive duration such as 72h", name, text)
		case name == "older-than" && f.filter.OlderThan > ageMax, name == "younger-than" && f.filter.YoungerThan > ageMax:
			return fmt.Errorf("--%s is %s: use at most %.0fh, a hundred years", name, text, ageMax.Hours())
		case name == "after" && checkID(text) != nil:
			return fmt.Errorf("--after: %w", checkID(text))
		}
	}
	return nil
}

// selectingFlags names the flags that select dead letters, without that for the tenant.
func selectingFlags() []string {
	return []string{"workflow", "step", "reason", "older-than", "younger-than", "requeued"}
}

// complete fills in the filter and the target, and says what is wrong with
// them.
func (f *deadFlags) complete(c *cobra.Command, w world) error {
	if err := f.check(c); err != nil {
		return err
	}
	for _, name := range f.reasons {
		reason, err := troupe.ParseDeadReason(name)
		if err != nil {
			return fmt.Errorf("--reason: %w", err)
		}
		f.filter.Reasons = append(f.filter.Reasons, reason)
	}
	switch f.requeued {
	case "":
	case "yes":
		f.filter.RequeuedOnly = true
	case "no":
		f.filter.NotRequeued = true
	default:
		return fmt.Errorf("--requeued is %q: use yes or no", f.requeued)
	}
	chosen, err := f.target.complete(w.environ)
	if err == nil {
		f.target = chosen
	}
	return err
}

// oneID accepts the id of one letter.
func oneID(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s takes the id of one dead letter, got %s: troupe dead-letters list shows ids",
			c.CommandPath(), output.Count(len(args), "argument"))}
	}
	if err := checkID(args[0]); err != nil {
		return &usageError{err}
	}
	return nil
}

// checkID says why a text cannot be the id of a dead letter.
func checkID(text string) error {
	run, step, _ := strings.Cut(text, "/")
	_, err := troupe.ParseRunID(run)
	n, wrong := strconv.ParseInt(step, 10, 32)
	if err != nil || wrong != nil || n < 0 || strconv.FormatInt(n, 10) != step {
		return fmt.Errorf("%.80q is not the id of a dead letter: troupe dead-letters list shows ids, such as 0190c2f3-7a1b-7c3d-8e4f-0123456789ab/3", text)
	}
	return nil
}

// inFlags rewords what the library says about its options, of which the command
// has flags.
func inFlags(err error, args []string, tenant string) error {
	switch {
	case errors.Is(err, troupe.ErrRequeuedBefore):
		return errors.New(strings.Replace(err.Error(), "pass Again", "pass --again", 1))
	case errors.Is(err, troupe.ErrFailureHandled):
		return errors.New(strings.Replace(err.Error(), "(FromStart)", "(--from-start)", 1))
	case errors.Is(err, troupe.ErrDeadLetterNotFound) && len(args) == 1 && tenant != "":
		return fmt.Errorf("%w: %s may be of another tenant than %q or another schema, or have been purged: leave out --tenant to look at all",
			troupe.ErrDeadLetterNotFound, args[0], tenant)
	case errors.Is(err, troupe.ErrDeadLetterNotFound) && len(args) == 1:
		return fmt.Errorf("%w: %s may have been purged, or be of another schema: troupe dead-letters list shows ids", troupe.ErrDeadLetterNotFound, args[0])
	}
	return err
}
