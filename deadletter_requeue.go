package troupe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RequeueOptions say what is different the second time. The zero value changes
// nothing.
type RequeueOptions struct {
	At     time.Time         // start no earlier, by the database's clock; zero: now
	Queue  string            // for steps that name none; "": as before
	Labels map[string]string // instead of those of the run; nil: as before

	// FromStart executes every step again, under the workflow as the engine
	// registers it now, with idempotency keys of its own.
	FromStart bool
	// Input replaces the run's input; nil: as before. It implies FromStart: what
	// the steps returned came from the old one.
	Input any
	// Payload is the same for an input that is encoded already, as the codec of the
	// program that registers the workflow does it. Set one of the two.
	Payload []byte
	// Again requeues letters that were requeued before, too.
	Again bool

	// Retry and AttemptTimeout hold for every step of the new run, every activity of a machine and
	// every element of a map, in place of what the program says; zero: that holds. They belong to
	// the new run: one that continues it has them only if it is asked again. Retry is whole: zero
	// fields have their defaults, and not the values of the program. Retry.If is code, and cannot
	// be given here. Handlers of machines keep their own.
	Retry          Retry
	AttemptTimeout time.Duration
}

// Requeued is what became of a requeue.
type Requeued struct {
	Run       RunID // the new run
	TakenOver int   // steps whose outputs it takes over, and which are not executed again; of a machine: what has completed and its state does not know of yet
	Letters   int   // dead letters of the ended run, all of which get their chance in the new one
}

// RequeueReport is what RequeueAll did.
type RequeueReport struct {
	Runs      []RunID // the new ones
	TakenOver int     // steps whose outputs they take over
	Letters   int     // dead letters that they give another chance
	GoOn      int     // letters left alone: their runs have not ended yet
	Gone      int     // letters left alone: their runs are no longer kept
	Handled   int     // letters left alone: state machines have handled these failures
}

// Requeue lets the run of a dead letter go on, as a new run. The ended run stays
// as it is. Steps that completed are taken over with their outputs; the failed
// ones, those canceled or never reached, and all that comes after them are
// executed, under the same idempotency keys as before. All dead letters of the
// run count as requeued. It returns when that is durable.
//
// A state machine continues from its state: that before the activation that failed. It hears of
// what that has not handled. What it has started and has not completed is executed again, under
// the same ids and keys, unless the machine has handled how it ended, or has canceled it.
//
// It fails with [ErrDeadLetterNotFound], [ErrRequeuedBefore], [ErrRunGoesOn],
// [ErrRunGone], [ErrFailureHandled], or a [*TriggerError] if an option is refused.
func (d *DeadLetters) Requeue(ctx context.Context, tenant, id string, options RequeueOptions) (Requeued, error) {
	office, err := d.open()
	if err != nil {
		return Requeued{}, err
	}
	task, err := parseDeadID(id)
	if err != nil {
		return Requeued{}, err
	}
	answer, err := office.requeue(ctx, office.tenant(tenant), task, options)
	if err != nil {
		return Requeued{}, fmt.Errorf("requeue %s: %w", id, err)
	}
	office.stored(ofCaller(ctx))
	return Requeued{Run: answer.Run, TakenOver: answer.Kept, Letters: answer.Letters}, nil
}

// RequeueAll requeues the selected dead letters, those of the oldest runs first unless
// the filter says otherwise, each run once. Without options.Again those requeued before are left out.
// Letters of the new runs are left out, too.
// filter.Limit bounds the new runs. On an error the report says what was done
// before it.
func (d *DeadLetters) RequeueAll(
	ctx context.Context, filter DeadLetterFilter, options RequeueOptions,
) (report RequeueReport, err error) {
	office, err := d.open()
	if err != nil {
		return report, err
	}
	if options.Input != nil || options.Payload != nil {
		return report, errors.New("requeue dead letters: Input and Payload are for one of them: use Requeue")
	}
	filter.NotRequeued = filter.NotRequeued || !options.Again && !filter.RequeuedOnly
	selected, err := filter.filter(office.tenant)
	if err != nil {
		return report, err
	}
	selected.Limit = requeuePage
	defer func() {
		if len(report.Runs) > 0 && !errors.Is(err, ErrUnavailable) {
			office.stored(ofCaller(ctx))
		}
	}()
	last, made := workflow.RunID{}, map[workflow.RunID]bool{}
	for {
		page, err := repeated(ctx, func(ctx context.Context) ([]persistence.DeadLetter, error) {
			return office.store.ListDeadLetters(ctx, selected)
		})
		if err != nil {
			return report, err
		}
		for i := range page {
			selected.After = page[i].Task
			if page[i].Task.Run == last || made[page[i].Task.Run] {
				continue
			}
			if filter.Limit > 0 && len(report.Runs) == filter.Limit {
				return report, nil
			}
			answer, err := office.requeue(ctx, page[i].Tenant, page[i].Task, options)
			if wrong := report.add(answer, err); wrong != nil {
				return report, fmt.Errorf("requeue %s: %w", deadID(page[i].Task), wrong)
			}
			if !errors.Is(err, ErrFailureHandled) { // that of the machine may come behind it
				last = page[i].Task.Run
			}
			made[answer.Run] = true
		}
		if len(page) < requeuePage {
			return report, nil
		}
	}
}

// requeuePage is how many letters RequeueAll reads at once.
const requeuePage = 200

// add counts one requeue. It returns the errors that end all.
func (r *RequeueReport) add(answer persistence.RequeueAnswer, err error) error {
	switch {
	case errors.Is(err, ErrRunGoesOn):
		r.GoOn++
	case errors.Is(err, ErrRunGone):
		r.Gone++
	case errors.Is(err, ErrFailureHandled):
		r.Handled++
	case errors.Is(err, ErrRequeuedBefore), errors.Is(err, ErrDeadLetterNotFound): // another caller was faster
	case err != nil:
		return err
	default:
		r.Runs = append(r.Runs, answer.Run)
		r.TakenOver += answer.Kept
		r.Letters += answer.Letters
	}
	return nil
}

// requeue carries out one requeue; what is refused is an error.
func (o *deadOffice) requeue(
	ctx context.Context, tenant string, task workflow.TaskID, options RequeueOptions,
) (persistence.RequeueAnswer, error) {
	var order persistence.RequeueOrder
	answer, err := repeated(ctx, func(ctx context.Context) (answer persistence.RequeueAnswer, err error) {
		if order.Run.IsZero() { // an order is carried out once, however often it is given
			made, err := o.order(ctx, tenant, task, options)
			if err != nil {
				return answer, err
			}
			order = made
		}
		return o.store.RequeueDeadLetter(ctx, order)
	})
	if err != nil {
		return answer, err
	}
	switch answer.Result {
	case persistence.RequeueStored:
		return answer, nil
	case persistence.RequeuedBefore:
		return answer, fmt.Errorf("%w, as run %v: pass Again to requeue it once more", ErrRequeuedBefore, answer.Run)
	case persistence.RunGoesOn:
		return answer, fmt.Errorf("%w: wait for the end of run %v, or cancel it", ErrRunGoesOn, task.Run)
	case persistence.RunGone:
		return answer, fmt.Errorf("%w: requeue it from the start, in a program that registers its workflow if conditions look at the input", ErrRunGone)
	case persistence.LetterLeftBehind:
		return answer, fmt.Errorf("%w, or has completed, and would not hear of another attempt: requeue the letter of the machine itself if it has one, trigger a new run, or requeue this letter from the start (FromStart)", ErrFailureHandled)
	case persistence.InputUnjudged:
		_, err := called(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, o.unjudged(ctx, tenant, task) })
		return answer, err
	case persistence.RequeueRefused:
	}
	return answer, answerError(&persistence.Trigger{Queue: order.Queue}, persistence.TriggerAnswer{Result: answer.Trigger, Err: answer.Err})
}

// unjudged is the error for an input that only another program can judge.
func (o *deadOffice) unjudged(ctx context.Context, tenant string, task workflow.TaskID) error {
	letter, err := o.store.DeadLetter(ctx, tenant, task)
	if err != nil {
		return err
	}
	return &TriggerError{Code: BadInput, Field: "input", Remedy: fmt.Sprintf(
		"conditions of workflow %q look at its input, or may, and its code is not here: requeue it in a program that registers it", letter.Workflow)}
}

// requeueTries bounds the calls for one request while the database does not answer.
const requeueTries = 3

// repeated calls again while the database does not answer, all within the limit of
// one call.
func repeated[T any](ctx context.Context, ask func(ctx context.Context) (T, error)) (T, error) {
	return called(ctx, func(ctx context.Context) (answer T, err error) {
		for range requeueTries {
			answer, err = ask(ctx)
			if ctx.Err() != nil || errors.Is(err, persistence.ErrSchema) ||
				!errors.Is(err, ErrUnavailable) && !errors.Is(err, persistence.ErrConflict) {
				break
			}
		}
		return answer, err
	})
}

// order turns options into an order.
func (o *deadOffice) order(
	ctx context.Context, tenant string, task workflow.TaskID, options RequeueOptions,
) (persistence.RequeueOrder, error) {
	order := persistence.RequeueOrder{
		Letter: task, Tenant: tenant, Run: o.newRun(), Again: options.Again, At: options.At, Queue: options.Queue,
		Labels: maps.Clone(options.Labels), TraceContext: o.trace(ctx), Fresh: options.FromStart || options.Input != nil || options.Payload != nil,
	}
	held, err := options.heldFor()
	if err != nil {
		return order, err
	}
	order.Options = held
	var letter persistence.DeadDetail
	if o.judge != nil {
		read, err := o.store.DeadLetter(ctx, tenant, task)
		if err != nil {
			return order, err
		}
		letter = read
	}
	if err := o.input(&order, &letter, options); err != nil {
		return order, err
	}
	check := persistence.Trigger{
		Workflow: "w", Tenant: "t", Input: order.Input, Queue: order.Queue, Labels: order.Labels, At: order.At, TraceContext: order.TraceContext,
	}
	if refused := actors.CheckTrigger(&check, o.inputMax); refused != nil {
		return order, triggerError(refused)
	}
	if o.judge == nil {
		return order, nil
	}
	judged, err := o.judge(&letter, &order)
	if err != nil {
		return order, &TriggerError{Code: BadInput, Field: "input", cause: err}
	}
	order.Judged = judged
	return order, nil
}

// input fills in the new input, if there is one.
func (o *deadOffice) input(order *persistence.RequeueOrder, letter *persistence.DeadDetail, options RequeueOptions) error {
	wrong := func(remedy string, cause error) error {
		return &TriggerError{Code: BadInput, Field: "input", Remedy: remedy, cause: cause}
	}
	switch {
	case options.Input == nil:
		order.Input = bytes.Clone(options.Payload)
		return nil
	case options.Payload != nil:
		return wrong("set Input or Payload, not both", nil)
	case o.encode == nil:
		return wrong("no codec is known here: pass Payload, the input as the workflow's program encodes it", nil)
	}
	payload, err := o.encode(letter, options.Input)
	if err != nil {
		return wrong("pass a value that the codec can encode", err)
	}
	order.Input = payload
	return nil
}

// DeadLetters returns the dead letters that this engine can reach, once it runs.
func (e *Engine) DeadLetters() *DeadLetters {
	return &DeadLetters{open: func() (deadOffice, error) {
		pod, err := e.livePod()
		if err != nil {
			return deadOffice{}, err
		}
		return deadOffice{
			store: e.store, tenant: e.tenant, newRun: pod.NewRunID, judge: e.judge, inputMax: e.config.PayloadLimit,
			encode: e.encodeInput,
			trace:  func(ctx context.Context) string { return e.traceContext(ctx, "") },
			stored: func(ctx context.Context) {
				if !pod.Streamed() && e.backend.wake != nil {
					e.backend.wake(ctx, cluster.Wake{Kind: cluster.WakeSubmitted})
				}
				pod.Submitted()
			},
		}, nil
	}}
}

// encodeInput encodes a new input for the run of a dead letter.
func (e *Engine) encodeInput(letter *persistence.DeadDetail, value any) ([]byte, error) {
	if p := e.programs[letter.Workflow]; p != nil {
		return p.EncodeInput(letter.Tenant, value)
	}
	return program.Encode(actors.CodecFor(e.config.Codec, PayloadPlace{
		Tenant: letter.Tenant, Workflow: letter.Workflow, Kind: PayloadInput,
	}), value)
}

// judge evaluates conditions on the input with the code that is registered
// here. A run that continues is of the version that it began with.
func (e *Engine) judge(letter *persistence.DeadDetail, order *persistence.RequeueOrder) (bool, error) {
	p := e.programs[letter.Workflow]
	if p == nil || !order.Fresh && p.Graph.Hash != letter.Definition {
		return false, nil
	}
	input := order.Input
	if input == nil {
		input = letter.Input
	}
	edges, err := p.AdmitPayload(letter.Tenant, input)
	switch {
	case err != nil && order.Fresh:
		return false, err
	case err != nil:
		return false, nil //nolint:nilerr // the steps will say so
	}
	order.Edges = edges
	if order.Fresh {
		order.Definition = p.Graph.Hash
	}
	return true, nil
}

// OpenDeadLetters returns the dead letters of a schema without an engine, for
// tools: an empty tenant stands for all. It knows no code, so conditions on
// inputs stay as they were decided, and another input is a Payload, for
// workflows none of whose conditions look at it. The pool stays the caller's;
// Close gives back the connections that are its own.
func OpenDeadLetters(ctx context.Context, pool *pgxpool.Pool, schema string) (*DeadLetters, error) {
	backend, err := openTool(ctx, pool, schema)
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	letters := toolLetters(backend)
	letters.shut = backend.close
	return letters, nil
}

// toolLetters are the dead letters of a program that is no pod.
func toolLetters(b *backend) *DeadLetters {
	office := deadOffice{
		store: b.store, tenant: func(name string) string { return name }, inputMax: payloadLimitMax, newRun: toolRunID,
		stored: func(ctx context.Context) { b.wake(ctx, cluster.Wake{Kind: cluster.WakeSubmitted}) },
		trace:  func(context.Context) string { return "" },
	}
	return &DeadLetters{open: func() (deadOffice, error) { return office, nil }}
}
