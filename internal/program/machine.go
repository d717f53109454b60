package program

import (
	"context"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Machine is what a step of kind Machine does.
type Machine struct {
	State reflect.Type

	// Activate handles the entries of Inputs.Machine. codec is that of the attempt: see
	// [StateCodec], [SpawnCodec], [ParentCodec] and [OutputCodec]. The machine has completed with
	// output if done. An error fails the attempt, and nothing of it is kept.
	Activate func(ctx context.Context, codec actors.Codec, in actors.Inputs) (decided *persistence.Activation, output any, done bool, err error)
}

// bindMachine makes the functions of a machine: one for each version of its state, the latest
// first. All of them are one function, which knows the older versions. Config.Wrap goes around what
// the machine starts.
func (p *Program) bindMachine(s *workflow.Step, fn Function, graph *workflow.Graph, with Binding) []actors.StepFunction {
	dynamic := with.JSON && isAny(fn.Result)
	f := actors.StepFunction{
		Workflow: p.Definition.Name, Step: s.Name, Fingerprint: graph.Nodes[0].Fingerprint,
		Queue: s.Options.Queue, Options: s.Options, RetryIf: retryIf(fn.RetryIf), Codec: with.Codec, Result: fn.Result,
		Call: func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			codec := attemptCodec(ctx, with.Codec)
			decided, output, done, err := fn.Machine.Activate(ctx, codec, in)
			if err != nil {
				return actors.Output{}, err
			}
			decided.Definition = graph.Hash
			if !done {
				return actors.Output{Activation: decided}, nil
			}
			payload, err := EncodeOutput(codec, output)
			if err == nil && dynamic {
				err = encoding(output, checkAny(output, payload))
			}
			return actors.Output{Payload: payload, Activation: decided}, err
		},
	}
	functions := []actors.StepFunction{f}
	for _, older := range graph.Older {
		f.Fingerprint = older
		functions = append(functions, f)
	}
	return functions
}

// MachineCodec returns what Activate is called with for a machine of a tenant, where no attempt
// executes it: when entries are replayed.
func MachineCodec(codec actors.Codec, tenant, workflow, step string) actors.Codec {
	if of, ok := codec.(actors.PayloadCodec); ok {
		return taskCodec{of, actors.PayloadPlace{Tenant: tenant, Workflow: workflow, Step: step, Kind: actors.PayloadOutput}}
	}
	return codec
}

// StateCodec returns, for the codec that Activate was called with, what encodes and decodes the
// state of the machine.
func StateCodec(codec actors.Codec) actors.Codec {
	c, ok := codec.(taskCodec)
	if !ok {
		return codec
	}
	return actors.CodecFor(c.of, StatePlace(c.output.Tenant, c.output.Workflow))
}

// StatePlace is that of the state of a machine.
func StatePlace(tenant, workflow string) actors.PayloadPlace {
	return actors.PayloadPlace{Tenant: tenant, Workflow: workflow, Kind: actors.PayloadState}
}

// SpawnCodec returns in the same way what encodes the input of what the machine starts under a
// name.
func SpawnCodec(codec actors.Codec, name string) actors.Codec {
	c, ok := codec.(taskCodec)
	if !ok {
		return codec
	}
	c.output.Step, c.output.Kind = name, actors.PayloadInput
	return actors.CodecFor(c.of, c.output)
}

// DecodeSpawned decodes the input of what a machine has started, for the codec that its Function
// was called with. No further attempt cures its error.
func DecodeSpawned[T any](codec actors.Codec, in actors.Inputs) (value T, err error) {
	if of, ok := codec.(taskCodec); ok {
		codec = SpawnCodec(codec, of.output.Step)
	}
	if in.Once {
		value, err = DecodeOwn[T](codec, in.Item)
	} else {
		value, err = Decode[T](codec, in.Item)
	}
	if err != nil {
		return value, decoding(fmt.Errorf("decode the input into %v: %w", reflect.TypeFor[T](), err))
	}
	return value, nil
}
