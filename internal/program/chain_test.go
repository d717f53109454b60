package program_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// chain is a front end beside the root's Define: functions that change a text, one
// after another. It refuses empty texts.
type chain struct{ program program.Program }

var _ troupe.Definition[string, string] = (*chain)(nil)

// newChain declares a chain; the options are for each of its functions.
func newChain(name string, links []func(string) (string, error), options ...troupe.FunctionOption) *chain {
	text := reflect.TypeFor[string]()
	c := &chain{program.Program{
		Definition: workflow.Definition{Name: name, InputType: text.String(), Policy: workflow.FailFast, Output: len(links) - 1},
		Input:      text,
		Admit: func(input any) ([]persistence.EdgeResult, error) {
			if input == "" {
				return nil, errors.New("the text is empty")
			}
			return nil, nil
		},
	}}
	if len(links) == 0 {
		c.program.Problem("", "links", "the chain has none", "pass a function")
	}
	for i, link := range links {
		s := &program.Step{Of: &c.program, Step: workflow.Step{
			Name: fmt.Sprintf("link-%d", i), Kind: workflow.Func, Type: reflect.TypeOf(link).String(),
		}}
		if i > 0 {
			s.Parents = []workflow.Edge{{Parent: i - 1, Kind: workflow.Plain}}
		}
		for _, option := range options {
			option.ApplyStep(s)
		}
		s.Function.Result, s.Function.Call = text, call(link)
		s.Add()
	}
	return c
}

// call executes a link on the output of the one before it, or on the input.
func call(link func(string) (string, error)) func(context.Context, actors.Codec, actors.Inputs) ([]byte, any, error) {
	return func(_ context.Context, codec actors.Codec, in actors.Inputs) ([]byte, any, error) {
		from, decoder := in.Input, codec
		if len(in.Parents) > 0 {
			from, decoder = in.Parents[0].Output, program.ParentCodec(codec, in.Parents[0].Step)
		}
		text, err := program.Decode[string](decoder, from)
		if err != nil {
			return nil, nil, err
		}
		if text, err = link(text); err != nil {
			return nil, nil, err
		}
		payload, err := program.EncodeOutput(codec, text)
		return payload, text, err
	}
}

func (c *chain) Name() string                             { return c.program.Definition.Name }
func (c *chain) Program(*string, *string) program.Program { return c.program }

func (c *chain) Validate() error {
	if problems := c.program.Validate(); len(problems) > 0 {
		return &troupe.DefinitionError{Workflow: c.Name(), Problems: problems}
	}
	return nil
}
