package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/workflow"
)

// uuids is an array of run ids as an argument, encoded without reflection.
type uuids []workflow.RunID

var _ pgtype.ArrayGetter = uuids(nil)

// Dimensions implements pgtype.ArrayGetter.
func (u uuids) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(u)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (u uuids) Index(i int) any { return [16]byte(u[i]) }

// IndexType implements pgtype.ArrayGetter.
func (u uuids) IndexType() any { return [16]byte{} }

// instants is an array of timestamps in which zero is null.
type instants []time.Time

var _ pgtype.ArrayGetter = instants(nil)

// Dimensions implements pgtype.ArrayGetter.
func (t instants) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(t)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (t instants) Index(i int) any {
	return pgtype.Timestamptz{Time: t[i], Valid: !t[i].IsZero()}
}

// IndexType implements pgtype.ArrayGetter.
func (t instants) IndexType() any { return pgtype.Timestamptz{} }

// instant is a timestamp as an argument, in which zero is null.
func instant(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// orZero returns what a nullable column holds, or the zero value.
func orZero[T any](value *T) T {
	if value == nil {
		var zero T
		return zero
	}
	return *value
}
