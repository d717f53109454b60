package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/persistence"
)

// signalFlags are those of runs signal.
type signalFlags struct {
	id, workflow, key string
	raw               bool

	to      troupe.SignalTo
	name    string
	payload []byte
}

func runsSignal(w world, f *readFlags) *cobra.Command {
	s := &signalFlags{}
	c := &cobra.Command{
		Use: "signal RUN NAME [JSON]", Short: "Send a signal to a run, which a step of it waits for",
		Long: `Sends a signal to a run: its first step that waits for signals of this name takes it,
also one that begins to wait later. JSON is the value, as the default codec writes it;
@file, or - for standard input. Without it the value is null, which a step reads as the
zero value of its Go type. Whether the value fits shows when a step decodes it.

With --workflow and --key in place of RUN it goes to the run that was triggered with the
key, or to the one that continues it. A run takes one signal of each --id, whatever its
value: with it a script may send again.`,
		Example: `  troupe runs signal 0190c2f3-7a1b-7c3d-8e4f-0123456789ab approved '{"By": "ann"}'
  troupe runs signal --workflow orders --key o-1 --tenant acme paid @payment.json --id evt_9`,
		Args:              func(c *cobra.Command, args []string) error { return s.check(c, w, f, args) },
		ValidArgsFunction: s.arguments(w, f),
		RunE: f.operate(w, "select, insert, update", originCLI, func(ctx context.Context, operator *troupe.Operator, _ *pgxpool.Pool, args []string) error {
			return s.send(ctx, w, f, operator, args)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&s.id, "id", "", "id of the signal: a run takes one of each")
	flags.StringVar(&s.workflow, "workflow", "", "with --key: the workflow of the run")
	flags.StringVar(&s.key, "key", "", "idempotency key of the run, in place of RUN")
	flags.BoolVar(&s.raw, "raw", false, "take the value as it is: the program has a codec of its own")
	flags.StringVar(&f.tenant, "tenant", "", "tenant of the run (default: any; with --key TROUPE_DEFAULT_TENANT, else default)")
	completes(c, "tenant", f.completer(w, tenantNames))
	completes(c, "workflow", f.completer(w, workflowNames))
	return f.inJSON(c)
}

// arguments completes the run, and then the name of a signal.
func (s *signalFlags) arguments(w world, f *readFlags) completion {
	runs, names := f.completer(w, runIDs), f.completer(w, signalNames)
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := len(args)
		if c.Flags().Changed("key") || c.Flags().Changed("workflow") {
			before++
		}
		switch before {
		case 0:
			return runs(c, args, begun)
		case 1:
			return names(c, args, begun)
		}
		return nil, cobra.ShellCompDirectiveDefault // a file, perhaps
	}
}

// check says what is wrong with the call before anything is tried, and reads the value.
func (s *signalFlags) check(c *cobra.Command, w world, f *readFlags, args []string) error {
	for _, name := range []string{"id", "workflow", "key", "tenant"} {
		if flag := c.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return &usageError{fmt.Errorf("--%s is empty: give it a value, or leave it out", name)} // an unset variable of a script
		}
	}
	byKey := s.workflow != "" || s.key != ""
	switch {
	case byKey && (s.workflow == "" || s.key == ""):
		return &usageError{errors.New("--workflow and --key name a run together: give both")}
	case byKey && (len(args) < 1 || len(args) > 2):
		return &usageError{fmt.Errorf("%s with --key takes the name of a signal and its value, got %s", c.CommandPath(), output.Count(len(args), "argument"))}
	case byKey:
	case len(args) < 2 || len(args) > 3:
		return &usageError{fmt.Errorf("%s takes a run, the name of a signal and its value, got %s: troupe explain RUN names what a run waits for",
			c.CommandPath(), output.Count(len(args), "argument"))}
	default:
		if err := oneRun(c, args[:1]); err != nil {
			return err
		}
		s.to.Run, args = runArg(args), args[1:]
	}
	s.name = args[0]
	s.to.Tenant, s.to.Workflow, s.to.Key = f.tenant, s.workflow, s.key
	value := append(args[1:len(args):len(args)], "null")[0]
	if value == "" && !s.raw {
		return &usageError{errors.New("the value is empty: give it as JSON, or leave it out for null")} // an unset variable of a script
	}
	payload, err := readPayload(w, "the value", value, s.raw)
	if err != nil {
		return &usageError{err}
	}
	s.payload = payload
	return s.checkTexts()
}

// checkTexts says which text cannot be that of a signal.
func (s *signalFlags) checkTexts() error {
	refused := actors.CheckSignal(&persistence.Signal{
		Run: s.to.Run, Tenant: s.to.Tenant, Key: persistence.RunKey{Workflow: s.workflow, Key: s.key}, Name: s.name, ID: s.id,
	}, 0)
	switch {
	case refused == nil:
		return nil
	case refused.Field == "name":
		return &usageError{fmt.Errorf("the name of the signal: %s", refused.Remedy)}
	}
	return &usageError{fmt.Errorf("--%s: %s", refused.Field, refused.Remedy)}
}

// signaledJSON is what became of a signal, as scripts get it.
type signaledJSON struct {
	Run      string `json:"run"`
	Repeated bool   `json:"repeated"` // the run has a signal of this id: nothing was stored
}

func (s *signalFlags) send(ctx context.Context, w world, f *readFlags, operator *troupe.Operator, args []string) error {
	if s.key != "" {
		s.to.Tenant = cmp.Or(s.to.Tenant, f.config.DefaultTenant)
	}
	done, err := operator.Signal(ctx, s.to, s.name, s.payload, troupe.SignalID(s.id))
	switch {
	case errors.Is(err, troupe.ErrRunNotFound) && s.key == "":
		return noRun(args[0], f.schema, f.tenant)
	case errors.Is(err, troupe.ErrRunNotFound):
		return &notFoundError{errors.New(err.Error())} // no argument names the run
	case errors.Is(err, troupe.ErrUnknownSignal):
		return &notFoundError{err}
	case err != nil:
		return err
	case f.json:
		return output.Line(w.out, signaledJSON{Run: done.Run.String(), Repeated: done.Repeated})
	}
	text := "signal %s is sent to run %v\n"
	if done.Repeated {
		text = "signal %s: run %v has one of this id, and nothing was sent\n"
	}
	_, err = fmt.Fprintf(w.out, text, output.Plain(s.name), done.Run)
	return err
}
