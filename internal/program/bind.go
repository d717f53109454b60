package program

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Binding is what an engine adds to a program.
type Binding struct {
	Codec          actors.Codec
	Retry          workflow.RetryPolicy // of steps without one
	RetryIf        func(error) bool     // the same
	AttemptTimeout time.Duration        // of steps without one; 0: none
	InTxTimeout    time.Duration        // the same for steps with InTx
	Context        func(context.Context) context.Context
}

// Bound is a program that is ready for one engine.
type Bound struct {
	Graph     *workflow.Graph
	Functions []actors.StepFunction // one for each step that is no sleep; the failure handler last

	program Program
	codec   actors.Codec
}

// Bind makes a program without problems ready for an engine.
func (p Program) Bind(with Binding) (*Bound, error) {
	graph, err := workflow.NewGraph(&p.Definition)
	if err != nil {
		return nil, err
	}
	b := &Bound{Graph: graph, program: p, codec: with.Codec}
	for i := range p.Definition.Steps {
		if s := &p.Definition.Steps[i]; s.Kind == workflow.Func {
			b.Functions = append(b.Functions, p.bindStep(s, p.Functions[i], graph.Nodes[i].Fingerprint, with))
		}
	}
	if s := p.Definition.OnFailure; s != nil {
		with.Retry, with.RetryIf = workflow.RetryPolicy{}, nil // one attempt unless the handler has a policy of its own
		b.Functions = append(b.Functions, p.bindStep(s, p.OnFailure, graph.OnFailure.Fingerprint, with))
	}
	return b, nil
}

// Admit judges an input and makes the decisions that look at it.
func (b *Bound) Admit(input any) ([]persistence.EdgeResult, error) {
	if b.program.Admit == nil {
		return nil, nil
	}
	return b.program.Admit(input)
}

// AdmitPayload decodes an input and admits it.
func (b *Bound) AdmitPayload(payload []byte) ([]persistence.EdgeResult, error) {
	input, err := decodeAs(b.codec, payload, b.program.Input)
	if err != nil {
		return nil, fmt.Errorf("decode the input into %v: %w", b.program.Input, err)
	}
	return b.Admit(input)
}

func (p *Program) bindStep(s *workflow.Step, fn Function, fingerprint workflow.Hash, with Binding) actors.StepFunction {
	options := s.Options
	if !fn.Retry {
		options.Retry, fn.RetryIf = with.Retry, with.RetryIf
	}
	if options.AttemptTimeout == 0 {
		options.AttemptTimeout = with.AttemptTimeout
		if options.InTx {
			options.AttemptTimeout = with.InTxTimeout
		}
	}
	output := func(payload []byte, value any, err error) (actors.Output, error) {
		switch {
		case err != nil:
			return actors.Output{}, err
		case fn.Decide == nil:
			return actors.Output{Payload: payload}, nil
		}
		return actors.Output{Payload: payload, Edges: fn.Decide(value)}, nil
	}
	return actors.StepFunction{
		Workflow: p.Definition.Name, Step: s.Name, Fingerprint: fingerprint,
		Queue: options.Queue, Options: options, RetryIf: retryIf(fn.RetryIf),
		Codec: with.Codec, Result: fn.Result,
		Call: func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			return output(fn.Call(with.Context(ctx), with.Codec, in))
		},
		Finish: func(value any) (actors.Output, error) {
			payload, err := EncodeOutput(with.Codec, value)
			return output(payload, value, err)
		},
		Replay: func(payload []byte) (actors.Output, error) {
			if fn.Decide == nil {
				return output(payload, nil, nil)
			}
			value, err := decodeAs(with.Codec, payload, fn.Result)
			if err != nil {
				err = decoding(fmt.Errorf("decode the output that is taken over into %v: %w", fn.Result, err))
			}
			return output(payload, value, err)
		},
	}
}

// retryIf returns the rule for errors of one step. A panic in the embedder's rule
// means no: the error is not retried.
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
