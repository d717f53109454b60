package actors

import (
	"math"
	"time"
)

// nanos is an instant in a message; 0 for none. One that nanoseconds cannot
// count to, before 1678 or after 2262, is the nearest that they can.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.Equal(time.Unix(0, 0)):
		return 1
	}
	return t.UnixNano()
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// micros is an instant that a message carries exactly, whatever the year; 0 for none. It
// rounds up, so that no timer is early.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	us := t.Add(time.Microsecond - time.Nanosecond).UnixMicro()
	if us == 0 {
		return 1
	}
	return us
}

func instantOfMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
