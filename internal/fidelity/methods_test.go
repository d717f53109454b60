package fidelity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/fidelity"
)

type (
	note  struct{ Note string }
	stamp struct {
		time.Time

		Note string
	}
	money struct {
		*big.Int

		Currency string
	}
	visit struct { // by a field that is embedded twice
		stamp

		Place string
	}
	leaf  struct{ text []byte }
	short struct { // the method is so short that the compiler inlines it
		leaf

		Note string
	}
	address struct {
		netip.Addr

		Zone int
	}
	ownValue struct {
		time.Time

		Note string
	}
	ownPointer struct {
		*big.Int

		Note string
	}
	box[T any] struct {
		time.Time

		Of T
	}
	only  struct{ time.Time }
	aside struct {
		time.Time

		zone string //nolint:unused // that is what it is for
		Skip int    `json:"-"`
	}
	level  int
	reason interface{ Reason() string }
	chain  struct{ *note }
)

func (l leaf) MarshalJSON() ([]byte, error)           { return l.text, nil }
func (*leaf) UnmarshalJSON([]byte) error              { return nil }
func (o ownValue) MarshalJSON() ([]byte, error)       { return json.Marshal(o.Note) }
func (o *ownValue) UnmarshalJSON(data []byte) error   { return json.Unmarshal(data, &o.Note) }
func (o *ownPointer) MarshalJSON() ([]byte, error)    { return json.Marshal(o.Note) }
func (o *ownPointer) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.Note) }
func (b box[T]) MarshalJSON() ([]byte, error)         { return json.Marshal(b.Of) }
func (b *box[T]) UnmarshalJSON(data []byte) error     { return json.Unmarshal(data, &b.Of) }
func (l level) MarshalText() ([]byte, error)          { return fmt.Append(nil, int(l)), nil }

// A struct whose only method for JSON is that of an embedded field writes nothing else.
func TestEmbeddedMethodsDropTheOtherFields(t *testing.T) {
	t.Parallel()
	const remedy = ": give the embedded field a name, or give the type MarshalJSON and UnmarshalJSON"
	for _, c := range []struct {
		value any
		text  string
	}{
		{stamp{}, "the value is a fidelity_test.stamp, which has MarshalJSON only by its embedded field Time: JSON drops Note" + remedy},
		{&stamp{}, "by its embedded field Time: JSON drops Note"},
		{struct{ At []stamp }{}, "At[] is a fidelity_test.stamp, which"},
		{money{}, "by its embedded field Int: JSON drops Currency"},
		{visit{}, "by its embedded field stamp: JSON drops Place"},
		{short{}, "by its embedded field leaf: JSON drops Note"},
		{address{}, "has MarshalText only by its embedded field Addr: JSON drops Zone"},
		{struct {
			time.Time
			note
		}{}, "by its embedded field Time: JSON drops note.Note"},
	} {
		losses := fidelity.Losses(reflect.TypeOf(c.value))
		require.Len(t, losses, 1, "%T", c.value)
		require.ErrorContains(t, losses[0], c.text)
	}
	require.ErrorContains(t, check(t, struct{ V any }{stamp{Note: "n"}}), "V is a fidelity_test.stamp", "an any loses it, too")
}

func TestMethodsOfItsOwnAreTakenAtTheirWord(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		ownValue{},
		&ownValue{}, &ownPointer{},
		[]ownPointer{},
		box[int]{},
		&box[string]{},
		only{},
		aside{},
		struct{ time.Time }{},
		struct {
			time.Time `json:"at"`

			Note string `json:"-"`
		}{},
	} {
		require.Empty(t, fidelity.Losses(reflect.TypeOf(value)), "%T", value)
	}
}

// What can be encoded and never be decoded would fail the step that reads it.
func TestTypesThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		text  string
	}{
		{struct{ Err error }{}, "Err is of type error, an interface with methods, into which JSON cannot be decoded: use a type that is no interface"},
		{struct{ By fmt.Stringer }{}, "By is of type fmt.Stringer"},
		{struct{ C context.Context }{}, "C is of type context.Context"},
		{[]reason{}, "[] is of type fidelity_test.reason"},
		{own{}, "the value is a fidelity_test.own, which has MarshalJSON and nothing that decodes what it writes: give the type UnmarshalJSON"},
		{&behind{}, "the value is a fidelity_test.behind, which has MarshalText and nothing that decodes what it writes: give the type UnmarshalText"},
		{level(0), "the value is a fidelity_test.level, which has MarshalText"},
		{map[folded]int{}, "the value has keys of type fidelity_test.folded, which has MarshalText and not UnmarshalText"},
		{chain{}, "note is an embedded pointer to fidelity_test.note, which is not exported: package json cannot set it"},
	} {
		losses := fidelity.Losses(reflect.TypeOf(c.value))
		require.Len(t, losses, 1, "%T", c.value)
		require.ErrorContains(t, losses[0], c.text)
		require.NoError(t, fidelity.CheckAny(c.value, nil), "an any is decoded without the type")
	}
	require.Empty(t, fidelity.Losses(reflect.TypeFor[struct {
		Err error `json:"-"`
		Any any
	}]()))
}
