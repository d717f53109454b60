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
		if plan := c.TimestamptzCodec.PlanScan(m, oid, format, &instantScanner{into}); plan != nil {
			return instantPlan{plan}
		}
	}
	return c.TimestamptzCodec.PlanScan(m, oid, format, target)
}

type instantPlan struct{ pgtype.ScanPlan }

// Scan implements pgtype.ScanPlan.
func (p instantPlan) Scan(source []byte, target any) error {
	into, is := target.(*time.Time)
	if !is {
		return errors.New("an instant is read into something else")
	}
	return p.ScanPlan.Scan(source, &instantScanner{into})
}

type instantScanner struct{ into *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (s *instantScanner) ScanTimestamptz(v pgtype.Timestamptz) error {
	switch {
	case !v.Valid:
		return errors.New("no instant: want a *time.Time that may be nil")
	case v.InfinityModifier == pgtype.NegativeInfinity:
		*s.into = LongAgo
	case v.InfinityModifier == pgtype.Infinity:
		*s.into = FarAhead
	case v.Time.Year() > 9999: // in the zone of the process, and not in UTC
		*s.into = v.Time.UTC()
	default:
		*s.into = v.Time
	}
	return nil
}
