package troupe

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
)

// Handle triggers runs of one registered workflow. It is safe for concurrent
// use.
type Handle[I, O any] struct {
	engine  *Engine
	program *program.Bound
}

// RunManyMax is the largest number of inputs that one RunMany stores
// atomically.
const RunManyMax = persistence.TriggerBatchMax

// Run triggers a run and waits for its output: RunNoWait, then Await.
func (h *Handle[I, O]) Run(ctx context.Context, in I, options ...TriggerOption) (O, error) {
	run, err := h.RunNoWait(ctx, in, options...)
	if err != nil {
		var zero O
		return zero, err
	}
	return run.Await(ctx)
}

// RunNoWait triggers a run. It returns once the run is durable; a refusal is a
// [*TriggerError], and then nothing was stored.
func (h *Handle[I, O]) RunNoWait(ctx context.Context, in I, options ...TriggerOption) (*Run[O], error) {
	runs, err := called(ctx, func(ctx context.Context) ([]*Run[O], error) { return h.trigger(ctx, []I{in}, options) })
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// RunMany triggers one run per input, all or none, in one transaction; the
// runs are in the order of the inputs, and without inputs there are none. It
// takes at most RunManyMax inputs. [Keys] gives each a key; Key is refused unless there
// is one input.
func (h *Handle[I, O]) RunMany(ctx context.Context, inputs []I, options ...TriggerOption) ([]*Run[O], error) {
	switch {
	case len(inputs) == 0:
		return nil, nil
	case len(inputs) > RunManyMax:
		return nil, &TriggerError{
			Code: LimitReached, Field: "inputs",
			Remedy: fmt.Sprintf("%d inputs in one call: pass at most %d, in several calls", len(inputs), RunManyMax),
		}
	}
	return called(ctx, func(ctx context.Context) ([]*Run[O], error) { return h.trigger(ctx, inputs, options) })
}

// TriggerTx stores the trigger in the caller's transaction: the run exists if
// and only if that commits, and starts right after. It takes no lock that other
// tenants or triggers wait for, except on its own Key. The run's id is known at
// once, but until the commit Await and the other calls of the run return
// [ErrRunNotFound]. PostgreSQL prepares no transaction that notifies, as this may:
// it is not for transactions of PREPARE TRANSACTION.
//
// A transaction that has ended, only reads, or leads to another database than the
// engine's is [ErrTxRefused]: nothing is stored. Where the transaction is of repeatable
// read or serializable, a Key that another has stored since it began is a serialization
// failure (SQLSTATE 40001), as any row would be: the transaction has failed, begin it
// again. Serializable transactions that trigger different runs do not conflict because of
// it; a transaction that finds an existing Key and stores another Key may. An engine of
// [NewInMemory] has no transactions at all.
func (h *Handle[I, O]) TriggerTx(ctx context.Context, tx pgx.Tx, in I, options ...TriggerOption) (*Run[O], error) {
	return called(ctx, func(ctx context.Context) (*Run[O], error) { return h.triggerTx(ctx, tx, in, options) })
}

func (h *Handle[I, O]) triggerTx(ctx context.Context, tx pgx.Tx, in I, options []TriggerOption) (*Run[O], error) {
	pod, err := h.engine.livePod()
	if err != nil {
		return nil, err
	}
	chosen, err := collect(options)
	if err != nil {
		return nil, err
	}
	if err := chosen.checkKeys(1); err != nil {
		return nil, err
	}
	if chosen.keys != nil {
		chosen.key = chosen.keys[0]
	}
	chosen.trace = h.engine.traceContext(ctx, chosen.trace)
	trigger, err := h.prepare(in, chosen)
	if err != nil {
		return nil, err
	}
	trigger.Run, trigger.Origin = pod.NewRunID(), "tx"
	if refused := pod.Check(trigger); refused != nil {
		return nil, triggerError(refused)
	}
	answer, err := h.engine.store.TriggerInTx(ctx, tx, trigger)
	if err != nil {
		return nil, fmt.Errorf("trigger %q in transaction: %w", h.program.Graph.Name, err)
	}
	if err := answerError(&trigger, answer); err != nil {
		return nil, err
	}
	if !pod.Streamed() {
		if err := h.engine.backend.announce(ctx, tx); err != nil {
			return nil, fmt.Errorf("trigger %q in transaction: %w", h.program.Graph.Name, err)
		}
	}
	pod.Submitted()
	return h.handleOf(answer, trigger.Tenant), nil
}

// Get returns a handle of an existing run of a tenant ("": the default one).
// It reads nothing: an unknown id shows when the handle is used.
func (h *Handle[I, O]) Get(tenant string, id RunID) *Run[O] {
	return &Run[O]{engine: h.engine, id: id, tenant: h.engine.tenant(tenant), workflow: h.program.Graph.Name, output: h.decodeOutput}
}

// GetByKey returns a handle of the run of a tenant ("": the default one) that has a
// key, or [ErrRunNotFound]. It also finds runs that have ended, as long as they are
// kept. A run of TriggerTx is found once its transaction has committed.
func (h *Handle[I, O]) GetByKey(ctx context.Context, tenant, key string) (*Run[O], error) {
	id, err := h.engine.RunByKey(ctx, tenant, h.program.Graph.Name, key)
	if err != nil {
		return nil, err
	}
	return h.Get(tenant, id), nil
}

func (h *Handle[I, O]) trigger(ctx context.Context, inputs []I, options []TriggerOption) ([]*Run[O], error) {
	pod, err := h.engine.livePod()
	if err != nil {
		return nil, err
	}
	chosen, err := collect(options)
	if err != nil {
		return nil, err
	}
	if err := chosen.checkKeys(len(inputs)); err != nil {
		return nil, err
	}
	if err := chosen.checkFirst(pod); err != nil {
		return nil, err
	}
	chosen.trace = h.engine.traceContext(ctx, chosen.trace)
	batch := make([]persistence.Trigger, len(inputs))
	for i, in := range inputs {
		if chosen.keys != nil {
			chosen.key = chosen.keys[i]
		}
		if batch[i], err = h.prepare(in, chosen); err != nil {
			return nil, err
		}
	}
	answers, refused, err := pod.Trigger(ctx, batch)
	switch {
	case err != nil:
		return nil, fmt.Errorf("trigger %q: %w", h.program.Graph.Name, podEnded(err))
	case refused != nil:
		return nil, triggerError(refused)
	}
	runs := make([]*Run[O], len(answers))
	for i, answer := range answers {
		runs[i] = h.handleOf(answer, batch[i].Tenant)
		if refused := actors.TriggerSignalRefusal(&batch[i], answer); refused != nil {
			err = sendError(refused)
		}
	}
	return runs, err
}

func (h *Handle[I, O]) handleOf(answer persistence.TriggerAnswer, tenant string) *Run[O] {
	return &Run[O]{
		engine: h.engine, id: answer.Run, tenant: tenant, workflow: h.program.Graph.Name,
		existing: answer.Result == persistence.Existing, output: h.decodeOutput,
	}
}

// prepare encodes an input, evaluates the conditions on it and fills in a
// trigger.
func (h *Handle[I, O]) prepare(in I, chosen triggerOptions) (persistence.Trigger, error) {
	tenant := h.engine.tenant(chosen.tenant)
	payload, err := h.program.EncodeInput(tenant, in)
	if err != nil {
		return persistence.Trigger{}, &TriggerError{Code: BadInput, Field: "input", Remedy: "pass a value that the codec can encode", cause: err}
	}
	hash, err := h.program.InputHash(tenant, in, payload, chosen.key != "")
	if err != nil {
		return persistence.Trigger{}, &TriggerError{Code: BadInput, Field: "key", cause: err}
	}
	edges, err := h.program.Admit(in)
	if err != nil {
		return persistence.Trigger{}, &TriggerError{Code: BadInput, Field: "input", cause: err}
	}
	trigger := persistence.Trigger{
		Definition: h.program.Graph.Hash, Workflow: h.program.Graph.Name,
		Tenant: tenant, Key: chosen.key, Input: payload, InputHash: hash,
		At: chosen.at, Queue: chosen.queue, Labels: chosen.labels,
		TraceContext: chosen.trace, Origin: "api", Edges: edges,
	}
	if chosen.first != nil {
		if trigger.Signal, err = h.engine.signal(chosen.first, tenant, h.program.Graph.Name); err != nil {
			return persistence.Trigger{}, err
		}
	}
	return trigger, nil
}

// decodeOutput decodes the output of a run, which may be of another version.
func (h *Handle[I, O]) decodeOutput(ctx context.Context, row *persistence.RunRow) (O, error) {
	codec, graph := h.engine.config.Codec, h.program.Graph
	if _, told := codec.(PayloadCodec); !told {
		return program.Decode[O](codec, row.Output)
	}
	if row.Definition != graph.Hash {
		stored, err := h.engine.store.Definition(ctx, row.Definition)
		if err != nil {
			var none O
			return none, err
		}
		if stored != nil { // else it was removed, and one of the same name is the best guess
			graph = stored
		}
	}
	node := &graph.Nodes[graph.Output]
	return program.Decode[O](actors.CodecFor(codec, program.OutputPlace(row.Tenant, node.OutputOf(row.Workflow))), row.Output)
}

func collect(options []TriggerOption) (triggerOptions, error) {
	var chosen triggerOptions
	for i, option := range options {
		if option == nil {
			return chosen, &TriggerError{Code: BadInput, Field: fmt.Sprintf("options[%d]", i), Remedy: "the option is nil: leave it out"}
		}
		option(&chosen)
	}
	return chosen, nil
}
