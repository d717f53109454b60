package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/migrations"
)

func grantCommand(w world) *cobra.Command {
	flags := target{local: true}
	var kind, to string
	var apply bool
	c := &cobra.Command{
		Use:   "grant --role reader --to ROLE",
		Short: "Let a role of the database read the views of docs/sql.md, and nothing else",
		Long: `Prints the SQL that gives rights on the schema to a role, and changes nothing.
With --apply it makes these statements; the role of the address owns the schema.

A reader may read run_list, step_list, event_list, dead_letter_list and
signal_list. They have inputs, outputs and payloads of signals.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			flags.local = !apply
			chosen, err := flags.complete(w.environ)
			if err != nil {
				return &usageError{err}
			}
			statements, err := migrations.Grants(chosen.schema, kind, to)
			if err != nil {
				return &usageError{fmt.Errorf("--%w", err)}
			}
			if apply {
				pool, err := chosen.open(c.Context())
				if err != nil {
					return &usageError{err}
				}
				defer pool.Close()
				if err := migrations.Grant(c.Context(), pool, chosen.schema, kind, to); err != nil {
					return mended(c.Context(), pool, err, chosen.schema, "")
				}
			}
			for _, statement := range statements {
				if _, err := fmt.Fprintln(w.out, output.Visible(statement)+";"); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.add(c)
	c.Flags().StringVar(&kind, "role", migrations.RoleReader, "what the role becomes: "+migrations.RoleReader)
	c.Flags().StringVar(&to, "to", "", "the role of the database")
	c.Flags().BoolVar(&apply, "apply", false, "make the statements")
	return c
}
