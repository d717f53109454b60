package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/workflow"
)

// heldFlags are what holds for each step of the new run in place of what its program says.
type heldFlags struct {
	attempts   int
	first, cap time.Duration
	limit      time.Duration
}

func (h *heldFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&h.attempts, "attempts", 0, "attempts of each step, the first included, in place of what the program says, with its other options of retries")
	flags.DurationVar(&h.first, "retry-first", 0, "with --attempts: wait before the second attempt (default: 1s)")
	flags.DurationVar(&h.cap, "retry-cap", 0, "with --attempts: longest wait before an attempt (default: 1m0s)")
	flags.DurationVar(&h.limit, "attempt-timeout", 0, "longest attempt of each step, in place of what the program says")
}

// complete fills in the options, and says what is wrong with them.
func (h *heldFlags) complete(c *cobra.Command, options *troupe.RequeueOptions) error {
	changed := c.Flags().Changed
	switch {
	case changed("attempts") && h.attempts < 1:
		return fmt.Errorf("--attempts is %d: use 1 to %d; they include the first", h.attempts, workflow.AttemptsMax)
	case !changed("attempts") && (changed("retry-first") || changed("retry-cap")):
		return errors.New("--retry-first and --retry-cap are for --attempts: say how many")
	case changed("attempt-timeout") && (h.limit <= 0 || h.limit > workflow.DurationMax):
		return fmt.Errorf("--attempt-timeout is %v: use a positive duration, at most %.0fh", h.limit, workflow.DurationMax.Hours())
	}
	for name, value := range map[string]time.Duration{"retry-first": h.first, "retry-cap": h.cap} {
		if changed(name) && value <= 0 {
			return fmt.Errorf("--%s is %v: use a positive duration", name, value)
		}
	}
	if problems := workflow.Problems(workflow.CheckRetry(workflow.RetryPolicy{Attempts: h.attempts, First: h.first, Cap: h.cap})); len(problems) > 0 {
		flag := strings.NewReplacer("retry.attempts", "--attempts", "retry.first", "--retry-first", "retry.cap", "--retry-cap").Replace(problems[0].Field)
		return fmt.Errorf("%s: %s: %s", flag, problems[0].Text, problems[0].Remedy)
	}
	options.Retry = troupe.Retry{Attempts: h.attempts, First: h.first, Cap: h.cap}
	options.AttemptTimeout = h.limit
	return nil
}
