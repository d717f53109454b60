package program

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Binding is what an engine adds to a program.
type Binding struct {
	Codec          actors.Codec
	Plain          actors.Codec         // below Codec, which may give equal values different bytes; nil: there is none
	JSON           bool                 // the bytes are JSON's, maybe changed by Codec without loss
	Retry          workflow.RetryPolicy // of steps without one
	RetryIf        func(error) bool     // the same
	AttemptTimeout time.Duration        // of steps without one; 0: none
	InTxTimeout    time.Duration        // the same for steps with InTx
	Context        func(context.Context) context.Context
	Wrap           func(ctx context.Context, next func(context.Context) error) error // around every attempt; nil: nothing is
}

// Bound is a program that is ready for one engine.
type Bound struct {
	Graph     *workflow.Graph
	Functions []actors.StepFunction // one for each step that is no sleep; of a wait without Call; the failure handler last
	Children  []*workflow.Graph     // of the workflows whose runs the steps begin, each once

	program Program
	with    Binding
}

// Bind makes a program without problems ready for an engine.
func (p Program) Bind(with Binding) (*Bound, error) {
	graph, err := workflow.NewGraph(&p.Definition)
	if err != nil {
		return nil, err
	}
	b := &Bound{Graph: graph, program: p, with: with}
	for i := range p.Definition.Steps {
		switch s := &p.Definition.Steps[i]; s.Kind {
		case workflow.Func:
			b.Functions = append(b.Functions, p.bindStep(s, p.Functions[i], graph.Nodes[i].Fingerprint, with))
		case workflow.Machine:
			b.Functions = append(b.Functions, p.bindMachine(s, p.Functions[i], graph, with)...)
		case workflow.Wait:
			if s.Spawned { // a machine hears it
				continue
			}
			b.Functions = append(b.Functions, p.bindWait(s, p.Functions[i], graph.Nodes[i].Fingerprint, with))
		case workflow.Map:
			b.Functions = append(b.Functions, p.bindMap(s, p.Functions[i], graph.Nodes[i].Fingerprint, with))
		case workflow.ChildRun:
			f, child, err := p.bindChild(s, p.Functions[i], graph.Nodes[i].Fingerprint, with)
			if err != nil {
				return nil, err
			}
			b.Functions = append(b.Functions, f)
			if !slices.ContainsFunc(b.Children, func(g *workflow.Graph) bool { return g.Hash == child.Hash }) {
				b.Children = append(b.Children, child)
			}
		case workflow.Sleep, workflow.SleepUntil:
		}
	}
	if s := p.Definition.OnFailure; s != nil {
		with.Retry, with.RetryIf = workflow.RetryPolicy{}, nil // one attempt unless the handler has a policy of its own
		b.Functions = append(b.Functions, p.bindStep(s, p.OnFailure, graph.OnFailure.Fingerprint, with))
	}
	return b, nil
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
	dynamic := with.JSON && isAny(fn.Result)
	output := func(payload []byte, value any, err error) (actors.Output, error) {
		if err == nil && dynamic {
			err = encoding(value, checkAny(value, payload))
		}
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
		Codec: with.Codec, Result: fn.Result, Wrap: with.Wrap,
		Call: func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			return output(fn.Call(with.Context(ctx), attemptCodec(ctx, with.Codec), in))
		},
		Finish: func(ctx context.Context, value any) (actors.Output, error) {
			payload, err := EncodeOutput(attemptCodec(ctx, with.Codec), value)
			return output(payload, value, err)
		},
		Replay: func(ctx context.Context, payload []byte) (actors.Output, error) {
			if fn.Decide == nil {
				return output(payload, nil, nil)
			}
			value, err := decodeAs(ParentCodec(attemptCodec(ctx, with.Codec), s.Name), payload, fn.Result)
			if err != nil {
				err = decoding(fmt.Errorf("decode the output that is taken over into %v: %w", fn.Result, err))
			}
			return output(payload, value, err)
		},
	}
}

// bindWait makes the function of a step that waits for a signal.
func (p *Program) bindWait(s *workflow.Step, fn Function, fingerprint workflow.Hash, with Binding) actors.StepFunction {
	return p.bindArrival(s, fn, fingerprint, with, fmt.Sprintf("the signal %q", s.Signal))
}

// bindArrival makes the function of a step whose output comes from elsewhere. It decodes every
// payload, so that what no step could read fails this one. No other attempt cures that.
func (p *Program) bindArrival(s *workflow.Step, fn Function, fingerprint workflow.Hash, with Binding, what string) actors.StepFunction {
	return actors.StepFunction{
		Workflow: p.Definition.Name, Step: s.Name, Fingerprint: fingerprint,
		Queue: s.Options.Queue, Options: s.Options, RetryIf: retryIf(nil), Codec: with.Codec, Result: fn.Result,
		Replay: func(ctx context.Context, payload []byte) (actors.Output, error) {
			value, err := decodeAs(OutputCodec(attemptCodec(ctx, with.Codec), s.OutputOf(p.Definition.Name)), payload, fn.Result)
			switch {
			case err != nil:
				return actors.Output{}, decoding(fmt.Errorf("decode %s into %v: %w", what, fn.Result, err))
			case fn.Decide == nil:
				return actors.Output{Payload: payload}, nil
			}
			return actors.Output{Payload: payload, Edges: fn.Decide(value)}, nil
		},
	}
}

// bindChild makes the function of a step that begins a child run, and returns the graph of that.
func (p *Program) bindChild(s *workflow.Step, fn Function, fingerprint workflow.Hash, with Binding) (actors.StepFunction, *workflow.Graph, error) {
	child, err := fn.Child.Bind(with)
	if err != nil {
		return actors.StepFunction{}, nil, fmt.Errorf("step %q: workflow %q: %w", s.Name, fn.Child.Definition.Name, err)
	}
	f := p.bindArrival(s, fn, fingerprint, with, fmt.Sprintf("the output of the child run of %q", child.Graph.Name))
	f.Call = func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
		input, err := fn.Input(attemptCodec(ctx, with.Codec), in)
		if err != nil {
			return actors.Output{}, err
		}
		edges, err := child.Admit(input)
		if err != nil {
			return actors.Output{}, actors.Terminal(fmt.Errorf("the input of workflow %q: %w", child.Graph.Name, err))
		}
		payload, err := child.EncodeInput(actors.AttemptFrom(ctx).Info().Tenant, input)
		if err != nil {
			return actors.Output{}, actors.Terminal(actors.WithClass(lifecycle.ClassEncoding, fmt.Errorf("encode the input of workflow %q: %w", child.Graph.Name, err)))
		}
		return actors.Output{Child: &persistence.Child{
			Definition: child.Graph.Hash, Workflow: child.Graph.Name, Input: payload, Edges: edges,
		}}, nil
	}
	return f, child.Graph, nil
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
