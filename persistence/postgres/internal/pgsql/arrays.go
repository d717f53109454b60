package pgsql

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/workflow"
)

// UUIDs is an array of run ids as an argument, encoded without reflection.
type UUIDs []workflow.RunID

var _ pgtype.ArrayGetter = UUIDs(nil)

// Dimensions implements pgtype.ArrayGetter.
func (u UUIDs) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(u)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (u UUIDs) Index(i int) any { return [16]byte(u[i]) }

// IndexType implements pgtype.ArrayGetter.
func (u UUIDs) IndexType() any { return [16]byte{} }

// Instants is an array of timestamps in which zero is null.
type Instants []time.Time

var _ pgtype.ArrayGetter = Instants(nil)

// Dimensions implements pgtype.ArrayGetter.
func (t Instants) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(t)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (t Instants) Index(i int) any {
	return pgtype.Timestamptz{Time: t[i], Valid: !t[i].IsZero()}
}

// IndexType implements pgtype.ArrayGetter.
func (t Instants) IndexType() any { return pgtype.Timestamptz{} }

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
