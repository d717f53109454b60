package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

const (
	completionMax    = time.Second // a shell waits for it
	completionsShown = 50
)

// completion is cobra's signature of what completes an argument or a flag.
type completion = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// finding returns what begins with a text, as the database has it.
type finding func(ctx context.Context, f *readFlags, pool *pgxpool.Pool, begun string) ([]cobra.Completion, error)

// completes names what completes a flag.
func completes(c *cobra.Command, flag string, with completion) {
	if err := c.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // the flag is not there, or has one
	}
}

// completer asks the database, for a second at most. A shell that gets no answer has
// nothing to complete with.
func (f *readFlags) completer(w world, find finding) completion {
	return func(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), cmp.Or(w.completing, completionMax))
		defer cancel()
		chosen, err := f.target.complete(w.environ)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		pool, err := chosen.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer pool.Close()
		asked := *f
		asked.target = chosen
		found, err := find(ctx, &asked, pool, begun)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// argument is completer for the only argument of a command.
func (f *readFlags) argument(w world, find finding) completion {
	complete := f.completer(w, find)
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, begun)
	}
}

// lastRunID is above all ids of runs.
const lastRunID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// after is the id that follows an id, or the zero id, which is no bound, after the last.
func after(id troupe.RunID) troupe.RunID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// runIDs finds the newest runs whose ids begin with a text: ids are ordered by time, so
// that they are one page.
func runIDs(ctx context.Context, f *readFlags, pool *pgxpool.Pool, begun string) ([]cobra.Completion, error) {
	if len(begun) > len(lastRunID) {
		return nil, nil
	}
	last, err := troupe.ParseRunID(begun + lastRunID[len(begun):])
	if err != nil {
		return nil, err
	}
	reader, err := troupe.OpenReader(ctx, pool, f.schema)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }() // it was only read
	page, err := reader.Runs(ctx, troupe.Filter{Tenant: f.tenant, Before: after(last), Limit: completionsShown})
	if err != nil {
		return nil, err
	}
	var found []cobra.Completion
	for i := range page.Runs {
		r := &page.Runs[i]
		if id := r.ID.String(); strings.HasPrefix(id, begun) {
			found = append(found, cobra.CompletionWithDesc(id, output.Plain(r.Workflow)+" "+r.State.String()+" "+output.Stamp(r.CreatedAt)))
		}
	}
	return found, nil
}

// workflowNames finds the names of stored workflows.
func workflowNames(ctx context.Context, f *readFlags, pool *pgxpool.Pool, begun string) ([]cobra.Completion, error) {
	return namesFrom(ctx, pool, f.schema, "select distinct name from {schema}.workflow_definitions where starts_with(name, $1) order by name limit $2", begun)
}

// tenantNames finds the names of tenants.
func tenantNames(ctx context.Context, f *readFlags, pool *pgxpool.Pool, begun string) ([]cobra.Completion, error) {
	return namesFrom(ctx, pool, f.schema, "select tenant from {schema}.tenants where starts_with(tenant, $1) order by tenant limit $2", begun)
}

// signalNames finds the names of the signals that steps of stored workflows wait for.
func signalNames(ctx context.Context, f *readFlags, pool *pgxpool.Pool, begun string) ([]cobra.Completion, error) {
	return namesFrom(ctx, pool, f.schema, "select distinct signal from {schema}.definition_steps where starts_with(signal, $1) order by signal limit $2", begun)
}

// namesFrom reads names, without those that a shell could not show.
func namesFrom(ctx context.Context, pool *pgxpool.Pool, schema, query, begun string) ([]cobra.Completion, error) {
	rows, err := pool.Query(ctx, strings.ReplaceAll(query, "{schema}", pgx.Identifier{schema}.Sanitize()), begun, completionsShown)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.DeleteFunc(names, func(name string) bool { return output.Plain(name) != name }), err
}

// stateCompletionOf completes a list of some of these states.
func stateCompletionOf(states []troupe.State) completion {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		var found []cobra.Completion
		for _, state := range states {
			if name := before + state.String(); strings.HasPrefix(name, begun) {
				found = append(found, name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
