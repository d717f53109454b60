package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// ReadInstants has a connection read instants that are infinite, which an operator may
// write to mean "now" or "never", as long ago and as far ahead.
func ReadInstants(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &instantCodec{}})
	return nil
}

// What infinite instants are read as: JSON knows years of four digits.
var (
	LongAgo  = time.Unix(0, 0)
	FarAhead = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// instantCodec is pgx's but for infinite instants, which it refuses.
type instantCodec struct{ pgtype.TimestamptzCodec }

// PlanScan implements pgtype.Codec.
func (c *instantCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if into, is := target.(*time.Time); is {
		if plan := c.TimestamptzCodec.PlanScan(m, oid, format, (*OptionalInstant)(into)); plan != nil {
			return instantPlan{plan}
		}
	}
	return c.TimestamptzCodec.PlanScan(m, oid, format, target)
}

type instantPlan struct{ pgtype.ScanPlan }

// Scan implements pgtype.ScanPlan.
func (p instantPlan) Scan(source []byte, target any) error {
	into, is := target.(*time.Time)
	switch {
	case !is:
		return errors.New("an instant is read into something else")
	case source == nil:
		return errors.New("no instant: want a *time.Time that may be nil")
	}
	return p.ScanPlan.Scan(source, (*OptionalInstant)(into))
}

// OptionalInstant is what an instant may be read into that may be null: zero.
type OptionalInstant time.Time

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t *OptionalInstant) ScanTimestamptz(v pgtype.Timestamptz) error {
	at := v.Time
	switch {
	case v.InfinityModifier == pgtype.NegativeInfinity:
		at = LongAgo
	case v.InfinityModifier == pgtype.Infinity:
		at = FarAhead
	case at.Year() > 9999: // in the zone of the process, and not in UTC
		at = at.UTC()
	}
	*t = OptionalInstant(at)
	return nil
}
