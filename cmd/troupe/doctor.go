package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/doctor"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// errUnwell is why doctor exits with 1: what is wrong was printed.
var errUnwell = errors.New("there are problems")

func doctorCommand(w world) *cobra.Command {
	var flags target
	var deep, strict, asJSON bool
	patience := time.Minute
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the database, the schema, the pods and their work; changes nothing",
		Long: `Prints what is not as it should be, each with a remedy: problems, which stop
something now or soon, and warnings. It changes nothing, and can run at any time.

Exit codes: 0 there is no problem, 1 there is one (with --strict: or a warning),
2 the call was wrong. docs/operations.md lists the checks.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen, err := flags.complete(w.environ)
			if err != nil {
				return &usageError{err}
			}
			if patience <= 0 {
				return &usageError{fmt.Errorf("--deep-timeout is %v: use a duration above 0", patience)}
			}
			pool, err := chosen.open(c.Context())
			if err != nil {
				return &usageError{err}
			}
			defer pool.Close()
			report, err := doctor.Examine(c.Context(), pool, doctor.Options{
				Schema: chosen.schema, PoolSize: chosen.config.PoolSize, Now: time.Now, Deep: deep, Patience: patience,
			})
			if err != nil {
				return err
			}
			if err := printExamination(w.out, report, asJSON); err != nil {
				return err
			}
			if report.Problems() > 0 || strict && len(report.Findings) > 0 {
				return errUnwell
			}
			return nil
		},
	}
	flags.add(c)
	c.Flags().BoolVar(&deep, "deep", false, "look through the tables for broken promises, too: reads them all, one query at a time")
	c.Flags().DurationVar(&patience, "deep-timeout", patience, "for one query of --deep")
	c.Flags().BoolVar(&strict, "strict", false, "warnings count as problems")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func printExamination(out io.Writer, report doctor.Report, asJSON bool) error {
	if asJSON {
		return output.Document(out, report)
	}
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintln(out, output.Visible(oneLine(fmt.Sprintf(format, args...))))
		errs = append(errs, err)
	}
	for _, fact := range report.Facts {
		line("%s", fact)
	}
	for _, f := range report.Findings {
		line("%s  %s: %s", f.Level, f.Check, f.Text)
		_, err := fmt.Fprintln(out, "         "+output.Visible(oneLine(f.Remedy)))
		errs = append(errs, err)
	}
	problems := report.Problems()
	line("%s, %s, %s", output.Count(len(report.Checks), "check"), output.Count(problems, "problem"), output.Count(len(report.Findings)-problems, "warning"))
	return errors.Join(errs...)
}
