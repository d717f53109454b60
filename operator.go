package troupe

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Operator acts on the runs of a schema without an engine, for tools: it cancels,
// requeues and triggers them. It knows no code of workflows. OpenOperator gives one. It is
// safe for concurrent use.
type Operator struct {
	by      string
	backend *backend
	pool    *pgxpool.Pool
	letters *DeadLetters
}

// OpenOperator returns an operator of a schema. What acts, such as "cli", is named by the
// history of the runs. The pool stays the caller's; Close gives back the connections that
// are the operator's own.
func OpenOperator(ctx context.Context, pool *pgxpool.Pool, schema, by string) (*Operator, error) {
	if by == "" {
		return nil, errors.New("open operator: by is empty: name what acts, such as \"cli\"")
	}
	backend, err := openTool(ctx, pool, schema)
	if err != nil {
		return nil, fmt.Errorf("open operator: %w", err)
	}
	return &Operator{by: by, backend: backend, pool: pool, letters: toolLetters(backend)}, nil
}

// openTool opens what a program needs that is no pod.
func openTool(ctx context.Context, pool *pgxpool.Pool, schema string) (*backend, error) {
	if pool == nil {
		return nil, errors.New("the pool is nil: pass a *pgxpool.Pool of the database to use")
	}
	config := Config{Schema: schema}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return called(ctx, func(ctx context.Context) (*backend, error) { return openPostgres(ctx, pool, config.withDefaults()) })
}

// toolRunID makes the id of a run for a program that is no pod.
func toolRunID() RunID {
	var random [10]byte
	_, _ = rand.Read(random[:])                  // never fails (documented since Go 1.24)
	return workflow.NewRunID(time.Now(), random) //nolint:forbidigo // a tool has no clock of a pod
}

// Close gives back what OpenOperator opened.
func (o *Operator) Close() error { return o.backend.close() }

// DeadLetters returns the dead letters of the schema. They are closed with the operator.
func (o *Operator) DeadLetters() *DeadLetters { return o.letters }

// CancelOptions say how a run is canceled.
type CancelOptions struct {
	Reason string        // for those who read the run; at most 8 KiB are kept
	Grace  time.Duration // after which running steps are given up; 0: the default of Config.CancelGrace
}

// CancelOutcome is what became of a cancel.
type CancelOutcome struct {
	State  State // of the run, afterwards: it may go on until what runs has stopped
	Before bool  // nothing was changed: the run had ended, or had been asked to stop
}

// Cancel asks a run of a tenant ("": any) to stop. It returns when the request is durable,
// not when the run has stopped. An unknown run gives [ErrRunNotFound].
func (o *Operator) Cancel(ctx context.Context, tenant string, run RunID, options CancelOptions) (CancelOutcome, error) {
	if options.Grace < 0 || options.Grace > durationMax {
		return CancelOutcome{}, fmt.Errorf("cancel run %v: Grace is %v: use 0 to 100 years", run, options.Grace)
	}
	if options.Grace == 0 {
		options.Grace = Config{}.withDefaults().CancelGrace
	}
	order := persistence.Cancel{Run: run, Tenant: tenant, Reason: options.Reason, By: o.by, Grace: options.Grace}
	answer, err := repeated(ctx, func(ctx context.Context) (persistence.Canceled, error) { return o.backend.store.CancelRun(ctx, order) })
	if err != nil {
		return CancelOutcome{}, fmt.Errorf("cancel run %v: %w", run, err)
	}
	if wakes := wakesOf(answer.Wake); len(wakes) > 0 {
		o.backend.wake(ofCaller(ctx), wakes...)
	}
	return CancelOutcome{State: answer.State, Before: answer.Result != lifecycle.Moved}, nil
}

// wakesOf are the wakes for what a transaction has changed.
func wakesOf(changed persistence.Wake) []cluster.Wake {
	var wakes []cluster.Wake
	for _, r := range changed.Ready {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeReady, Queue: r.Queue, Count: r.Count})
	}
	if changed.Submitted {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeSubmitted})
	}
	if !changed.NextTimer.IsZero() {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeTimer, At: changed.NextTimer})
	}
	for _, run := range changed.Ended {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeEnded, Run: run})
	}
	for _, run := range changed.Canceling {
		wakes = append(wakes, cluster.Wake{Kind: cluster.WakeCanceling, Run: run})
	}
	return wakes
}

// Triggered is what became of a trigger.
type Triggered struct {
	Run      RunID
	Existing bool // the key named this run, which has the same input: no other one was stored
}

// Trigger stores a run of a workflow, whose input is encoded as the program that registers
// the workflow does it. The version is how the hash of a stored definition begins, in
// hexadecimal; "": the only one that living pods register, or that is stored.
// A tenant that no option names is "default". It returns when the run is durable; a
// refusal is a [*TriggerError], and then nothing was stored. A workflow whose conditions
// look at the input is refused, because only its code can judge the input.
func (o *Operator) Trigger(ctx context.Context, name, version string, input []byte, options ...TriggerOption) (Triggered, error) {
	chosen, err := collect(options)
	if err != nil {
		return Triggered{}, err
	}
	if chosen.tenant == "" {
		chosen.tenant = Config{}.withDefaults().DefaultTenant
	}
	trigger := persistence.Trigger{
		Run: toolRunID(), Workflow: name, Tenant: chosen.tenant, Key: chosen.key, Input: input, InputHash: sha256.Sum256(input),
		At: chosen.at, Queue: chosen.queue, Labels: chosen.labels, TraceContext: chosen.trace, Origin: o.by,
	}
	if refused := actors.CheckTrigger(&trigger, payloadLimitMax); refused != nil {
		return Triggered{}, triggerError(refused)
	}
	answer, err := repeated(ctx, func(ctx context.Context) (answer persistence.TriggerAnswer, err error) {
		if trigger.Definition, err = o.definition(ctx, name, version); err != nil {
			return answer, err
		}
		return o.store(ctx, trigger)
	})
	if err != nil {
		return Triggered{}, fmt.Errorf("trigger %q: %w", name, err)
	}
	if err := answerError(&trigger, answer); err != nil {
		return Triggered{}, err
	}
	o.backend.wake(ofCaller(ctx), cluster.Wake{Kind: cluster.WakeSubmitted})
	return Triggered{Run: answer.Run, Existing: answer.Result == persistence.Existing}, nil
}

// Output returns the output of a run of a tenant ("": any) as the codec encoded it, and
// whether the run has ended. One that ended without an output gives a [*RunError], an
// unknown one [ErrRunNotFound].
func (o *Operator) Output(ctx context.Context, tenant string, run RunID) (output []byte, ended bool, err error) {
	row, err := called(ctx, func(ctx context.Context) (persistence.RunRow, error) { return o.backend.store.Run(ctx, tenant, run) })
	if err != nil || !row.State.Terminal() {
		return nil, false, err
	}
	return row.Output, true, endError(row)
}

// store stores a trigger in a transaction of its own.
func (o *Operator) store(ctx context.Context, trigger persistence.Trigger) (answer persistence.TriggerAnswer, err error) {
	err = pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		answer, err = o.backend.store.TriggerInTx(ctx, tx, trigger)
		return err
	})
	return answer, err
}

// definition finds the stored definition that a trigger is for, and refuses one whose
// conditions look at the input.
func (o *Operator) definition(ctx context.Context, name, version string) (workflow.Hash, error) {
	rows, err := o.backend.store.Workflows(ctx)
	if err != nil {
		return workflow.Hash{}, err
	}
	rows = slices.DeleteFunc(rows, func(r persistence.DefinitionRow) bool {
		return r.Workflow != name || !strings.HasPrefix(r.Hash.String(), version)
	})
	served := slices.DeleteFunc(slices.Clone(rows), func(r persistence.DefinitionRow) bool { return len(r.Unregistered) > 0 })
	if len(served) > 0 {
		rows = served
	}
	switch {
	case len(rows) == 0 && version != "":
		return workflow.Hash{}, &TriggerError{Code: UnknownWorkflow, Field: "version", Remedy: fmt.Sprintf(
			"no stored definition of %q begins with %q: take one as troupe workflows show lists them", name, version)}
	case len(rows) == 0:
		return workflow.Hash{}, &TriggerError{Code: UnknownWorkflow, Field: "workflow", Remedy: fmt.Sprintf(
			"%q is not stored: start a pod that registers it, which stores it", name)}
	case len(rows) > 1:
		names := make([]string, len(rows))
		for i := range rows {
			names[i] = rows[i].Hash.String()[:handlerDigits]
		}
		return workflow.Hash{}, &TriggerError{Code: BadInput, Field: "version", Remedy: fmt.Sprintf(
			"%q has %d versions to choose from: name one of %s", name, len(rows), strings.Join(names, ", "))}
	}
	graph, err := o.backend.store.Definition(ctx, rows[0].Hash)
	switch {
	case err != nil:
		return workflow.Hash{}, err
	case graph == nil || !graph.InputFree:
		return workflow.Hash{}, &TriggerError{Code: BadInput, Field: "input", Remedy: fmt.Sprintf(
			"conditions of workflow %q look at its input, or may, and its code is not here: trigger it in a program that registers it", name)}
	}
	return rows[0].Hash, nil
}
