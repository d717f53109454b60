package troupe

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// binding is what an engine adds to the step functions of a workflow.
type binding struct {
	codec          Codec
	retry          Retry         // of steps that have no Retry
	attemptTimeout time.Duration // of steps that have none; 0: none
	inTxTimeout    time.Duration // the same for steps with InTx
	nested         *nested       // nil: there is no engine
}

func (e *Engine) binding() binding {
	with := e.config.binding()
	with.nested = e.nested
	return with
}

func (c Config) binding() binding {
	return binding{codec: c.Codec, retry: c.Retry, attemptTimeout: c.AttemptTimeout, inTxTimeout: c.InTxTimeout}
}

// bound is a workflow without its Go types, ready for an engine.
type bound struct {
	graph     *workflow.Graph
	functions []actors.StepFunction // one per step with a function, the failure handler last
	output    string                // the step whose output is the run's

	// admit judges an input that arrives as bytes: it must decode, and the
	// decisions that look at it are made.
	admit func(payload []byte) ([]persistence.EdgeResult, error)
}

// bind validates the workflow and takes its types away.
func (w *Workflow[I, O]) bind(with binding) (bound, error) {
	if err := w.Validate(); err != nil {
		return bound{}, err
	}
	p := w.plan
	graph, err := workflow.NewGraph(&p.definition)
	if err != nil {
		return bound{}, err
	}
	b := bound{graph: graph, output: p.definition.Steps[p.definition.Output].Name}
	for i := range p.definition.Steps {
		if s := &p.definition.Steps[i]; s.Kind == workflow.Func {
			b.functions = append(b.functions, p.bindStep(s, p.functions[i], p.on[i], graph.Nodes[i].Fingerprint, with))
		}
	}
	if s := p.definition.OnFailure; s != nil {
		with.retry = Retry{} // one attempt unless it says otherwise
		b.functions = append(b.functions, p.bindStep(s, p.handler, nil, graph.OnFailure.Fingerprint, with))
	}
	onInput := p.on[workflow.Input]
	b.admit = func(payload []byte) ([]persistence.EdgeResult, error) {
		in, err := decode[I](with.codec, payload)
		if err != nil {
			return nil, fmt.Errorf("decode the input into %v: %w", reflect.TypeFor[I](), err)
		}
		return rule(onInput, in), nil
	}
	return b, nil
}

func (p *plan) bindStep(s *workflow.Step, fn stepFunction, decisions []*decision, fingerprint workflow.Hash, with binding) actors.StepFunction {
	options := s.Options
	if !fn.retry {
		options.Retry, fn.retryIf = with.retry.policy(), with.retry.If
	}
	if options.AttemptTimeout == 0 {
		options.AttemptTimeout = with.attemptTimeout
		if options.InTx {
			options.AttemptTimeout = with.inTxTimeout
		}
	}
	return actors.StepFunction{
		Workflow: p.definition.Name, Step: s.Name, Fingerprint: fingerprint,
		Queue: options.Queue, Options: options, RetryIf: retryIf(fn.retryIf),
		Codec: with.codec, Result: fn.result,
		Finish: func(value any) (actors.Output, error) {
			payload, err := encodeOutput(with.codec, value)
			if err != nil {
				return actors.Output{}, err
			}
			return actors.Output{Payload: payload, Edges: rule(decisions, value)}, nil
		},
		Replay: func(payload []byte) (actors.Output, error) {
			if len(decisions) == 0 {
				return actors.Output{Payload: payload}, nil
			}
			value, err := decodeResult(with.codec, payload, fn.result)
			if err != nil {
				return actors.Output{}, err
			}
			return actors.Output{Payload: payload, Edges: rule(decisions, value)}, nil
		},
		Call: func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			payload, value, err := fn.call(with.nested.withNested(withCodec(ctx, with.codec)), with.codec, in)
			if err != nil {
				return actors.Output{}, err
			}
			return actors.Output{Payload: payload, Edges: rule(decisions, value)}, nil
		},
	}
}

// retryIf returns the rule for errors of one step. It does not panic, whatever
// the embedder's function does: then the error is not retried.
func retryIf(worth func(error) bool) func(error) bool {
	return func(err error) (retry bool) {
		defer func() {
			if recover() != nil {
				retry = false
			}
		}()
		return !actors.IsTerminal(err) && (worth == nil || worth(err))
	}
}

// inputEdges makes the decisions that look at the input.
func (w *Workflow[I, O]) inputEdges(in I) ([]persistence.EdgeResult, error) {
	return rule(w.plan.on[workflow.Input], in), nil
}
