package program

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/fidelity"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Admit judges an input and makes the decisions that look at it.
func (b *Bound) Admit(input any) ([]persistence.EdgeResult, error) {
	if b.program.Admit == nil {
		return nil, nil
	}
	return b.program.Admit(input)
}

// AdmitPayload decodes an input of a tenant and admits it.
func (b *Bound) AdmitPayload(tenant string, payload []byte) ([]persistence.EdgeResult, error) {
	input, err := b.decodeInput(tenant, payload)
	if err != nil {
		return nil, err
	}
	return b.Admit(input)
}

// errNotText refuses what package json would decode into another text.
var errNotText = errors.New("it is not UTF-8: JSON replaces the bytes that are not")

// AdmitTrigger fills in a trigger whose input came encoded.
func (b *Bound) AdmitTrigger(t *persistence.Trigger) error {
	if b.with.JSON && b.with.Plain == nil && !utf8.Valid(t.Input) {
		return errNotText
	}
	input, err := b.decodeInput(t.Tenant, t.Input)
	if err != nil {
		return err
	}
	t.Definition = b.Graph.Hash
	if t.Edges, err = b.Admit(input); err != nil || t.Key == "" || b.with.Plain == nil {
		return err
	}
	t.InputHash, err = b.plainHash(t.Tenant, input)
	return err
}

func (b *Bound) decodeInput(tenant string, payload []byte) (any, error) {
	input, err := decodeAs(actors.CodecFor(b.with.Codec, inputOf(tenant, b.Graph.Name)), payload, b.program.Input)
	if err != nil {
		return nil, fmt.Errorf("decode the input into %v: %w", b.program.Input, err)
	}
	return input, nil
}

// EncodeInput encodes an input of a tenant.
func (b *Bound) EncodeInput(tenant string, input any) ([]byte, error) {
	payload, err := Encode(actors.CodecFor(b.with.Codec, inputOf(tenant, b.Graph.Name)), input)
	if err == nil && b.with.JSON && isAny(b.program.Input) {
		err = checkAny(input, payload)
	}
	return payload, err
}

// errVaries refuses a key where nothing tells whether two inputs are equal.
var errVaries = errors.New("the codec gives equal values different bytes, so that no key can compare inputs: " +
	"give it the method Plain, which returns the codec below it (troupe.PlainCodec), or trigger without a key")

// InputHash returns the hash that tells whether two inputs under one key are equal: of
// the plain encoding. Without a key nothing is compared.
func (b *Bound) InputHash(tenant string, input any, payload []byte, keyed bool) ([32]byte, error) {
	switch {
	case !keyed || b.with.JSON && b.with.Plain == nil:
		return sha256.Sum256(payload), nil
	case b.with.Plain != nil:
		return b.plainHash(tenant, input)
	}
	again, err := b.EncodeInput(tenant, input)
	if err == nil && !bytes.Equal(again, payload) {
		err = errVaries
	}
	return sha256.Sum256(payload), err
}

func (b *Bound) plainHash(tenant string, input any) ([32]byte, error) {
	plain, err := Encode(actors.CodecFor(b.with.Plain, inputOf(tenant, b.Graph.Name)), input)
	if err != nil {
		return [32]byte{}, fmt.Errorf("encode the input plainly: %w", err)
	}
	return sha256.Sum256(plain), nil
}

// CodecProblems returns the types of inputs and outputs of which JSON would lose parts;
// with another codec there are none.
func (p *Program) CodecProblems(with Binding) (problems []workflow.Problem) {
	if !with.JSON {
		return nil
	}
	add := func(step, field string, t reflect.Type) {
		if t == nil {
			return
		}
		for _, loss := range fidelity.Losses(t) {
			text := "the type " + loss.Text
			if loss.Path != "" {
				text = fmt.Sprintf("%v: %s %s", t, loss.Path, loss.Text)
			}
			if len(problems) < workflow.ProblemsMax {
				problems = append(problems, workflow.Problem{Step: step, Field: field, Text: text, Remedy: loss.Remedy})
			}
		}
	}
	add("", "input", p.Input)
	for i := range p.Functions {
		add(p.Definition.Steps[i].Name, "output", p.Functions[i].Result)
		if m := p.Functions[i].Map; m != nil {
			add(p.Definition.Steps[i].Name, "items", m.Item)
		}
		if m := p.Functions[i].Machine; m != nil {
			add(p.Definition.Steps[i].Name, "state", m.State)
		}
		if input := p.Functions[i].Spawn; input != nil && p.Functions[i].Child == nil { // that of a child run is checked with it
			add(p.Definition.Steps[i].Name, "input", input)
		}
	}
	return problems
}

// checkAny checks a value that is decoded without its type. Methods of the value may
// panic.
func checkAny(value any, payload []byte) error {
	return Contain(func() error { return fidelity.CheckAny(value, payload) })
}

// isAny reports whether values of a type are decoded without the type that they had.
func isAny(t reflect.Type) bool {
	return t != nil && t.Kind() == reflect.Interface && t.NumMethod() == 0
}
