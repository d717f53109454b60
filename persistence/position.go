package persistence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// EventPosition says which events of a run were seen: of the run itself, and then of
// each step, those up to a number. The events of a step are numbered without gaps, in the
// order in which they are committed, so that nothing that commits late is ever behind a
// position. Nil is before all events. What it holds is not to be changed.
type EventPosition []int64

// positionMax bounds what a text may hold: a place for the run, for each step, and for the
// failure handler.
const positionMax = workflow.StepsMax + 2

// After returns the position behind some events as well.
func (p EventPosition) After(events []lifecycle.Event) EventPosition {
	next := slices.Clone(p)
	for i := range events {
		at := int(events[i].Step) + 1 // lifecycle.RunStep is -1
		if at >= len(next) {
			next = append(next, make([]int64, at+1-len(next))...)
		}
		next[at] = max(next[at], events[i].N)
	}
	return next
}

// Covers reports whether an event was seen.
func (p EventPosition) Covers(e *lifecycle.Event) bool {
	at := int(e.Step) + 1
	return at < len(p) && e.N <= p[at]
}

// String returns the position as text: numbers with dots between them, and 3x1000 for a
// thousand times 3. It needs no escape in an address.
func (p EventPosition) String() string {
	var text []byte
	for at := 0; at < len(p); {
		same := at + 1
		for same < len(p) && p[same] == p[at] {
			same++
		}
		if at > 0 {
			text = append(text, '.')
		}
		text = strconv.AppendInt(text, p[at], 10)
		if same-at > 1 {
			text = strconv.AppendInt(append(text, 'x'), int64(same-at), 10)
		}
		at = same
	}
	return string(text)
}

// MarshalText implements encoding.TextMarshaler.
func (p EventPosition) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *EventPosition) UnmarshalText(text []byte) (err error) {
	*p, err = ParseEventPosition(string(text))
	return err
}

// ParseEventPosition reads what String returned.
func ParseEventPosition(text string) (EventPosition, error) {
	if text == "" {
		return nil, nil
	}
	var p EventPosition
	for part := range strings.SplitSeq(text, ".") {
		number, times, repeated := strings.Cut(part, "x")
		n, err := strconv.ParseInt(number, 10, 64)
		count := 1
		if repeated && err == nil {
			count, err = strconv.Atoi(times)
		}
		if err != nil || n < 0 || count < 1 || count > positionMax-len(p) {
			return nil, fmt.Errorf("%.80q is no position in events: want one as returned, such as 3.2x4, or none to begin", text)
		}
		p = append(p, slices.Repeat([]int64{n}, count)...)
	}
	return p, nil
}
