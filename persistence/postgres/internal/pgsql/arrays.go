package pgsql

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/workflow"
)

// Arrays as arguments: pgx asks for their elements one at a time and for its own types makes
// one or two copies of each, so these give out pointers.

// UUIDs is an array of run ids.
type UUIDs []workflow.RunID

// Dimensions implements pgtype.ArrayGetter.
func (u UUIDs) Dimensions() []pgtype.ArrayDimension { return dimensions(len(u)) }

// Index implements pgtype.ArrayGetter.
func (u UUIDs) Index(i int) any { return (*uuid)(&u[i]) }

// IndexType implements pgtype.ArrayGetter.
func (u UUIDs) IndexType() any { return (*uuid)(nil) }

type uuid workflow.RunID

// UUIDValue implements pgtype.UUIDValuer.
func (u *uuid) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: *u, Valid: true}, nil }

// Instants is an array of timestamps in which zero is null.
type Instants []time.Time

// Dimensions implements pgtype.ArrayGetter.
func (t Instants) Dimensions() []pgtype.ArrayDimension { return dimensions(len(t)) }

// Index implements pgtype.ArrayGetter.
func (t Instants) Index(i int) any { return (*instant)(&t[i]) }

// IndexType implements pgtype.ArrayGetter.
func (t Instants) IndexType() any { return (*instant)(nil) }

type instant time.Time

// TimestamptzValue implements pgtype.TimestamptzValuer.
func (t *instant) TimestamptzValue() (pgtype.Timestamptz, error) { return Instant(time.Time(*t)), nil }

// texts is what Bind makes of a []string.
type texts []string

// Dimensions implements pgtype.ArrayGetter.
func (t texts) Dimensions() []pgtype.ArrayDimension { return dimensions(len(t)) }

// Index implements pgtype.ArrayGetter.
func (t texts) Index(i int) any { return (*text)(&t[i]) }

// IndexType implements pgtype.ArrayGetter.
func (t texts) IndexType() any { return (*text)(nil) }

type text string

// TextValue implements pgtype.TextValuer.
func (t *text) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: string(*t), Valid: true}, nil
}

// payloads is what Bind makes of a [][]byte, in which nil is null.
type payloads [][]byte

// Dimensions implements pgtype.ArrayGetter.
func (p payloads) Dimensions() []pgtype.ArrayDimension { return dimensions(len(p)) }

// Index implements pgtype.ArrayGetter.
func (p payloads) Index(i int) any {
	if p[i] == nil {
		return nil
	}
	return (*payload)(&p[i])
}

// IndexType implements pgtype.ArrayGetter.
func (p payloads) IndexType() any { return (*payload)(nil) }

type payload []byte

// BytesValue implements pgtype.BytesValuer.
func (p *payload) BytesValue() ([]byte, error) { return *p, nil }

func dimensions(n int) []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(n), LowerBound: 1}}
}

// Instant is a timestamp as an argument, in which zero is null.
func Instant(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// OrZero returns what a nullable column holds, or the zero value.
func OrZero[T any](value *T) T {
	if value == nil {
		var zero T
		return zero
	}
	return *value
}
