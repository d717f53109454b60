package lifecycle

import (
	"strings"
	"time"
)

// TextMax is the longest error text or reason that is kept, in bytes: a stack
// trace fits, a dumped payload does not fill the history.
const TextMax = 8 << 10

// Event is one row of the append-only history: one per transition. N is the
// task's epoch after it, so a task's events are gapless; the run itself is
// step RunStep and counts on its own. Of a machine only the end of an activation is an event: it
// stands for the wake and the claim before it, too. Where events were removed of a machine that
// has gone on for long, trimmed stands for all before it.
type Event struct {
	Step    int32
	N       int64
	Kind    EventKind
	At      time.Time
	Pod     int64         // started; lost, released, canceled: the pod that held it
	PodName string        // its name, as reads bring it; "": no pod, or its name is forgotten
	Attempt int32         // started; retrying, failed, timed_out, canceled: the attempt that ended
	Delay   time.Duration // retrying
	WakeAt  time.Time     // sleeping, retrying; waiting: the deadline, if there is one
	By      string        // canceled, skipped, cancel_requested: who or what; timed_out, retrying: which timeout; waiting: which signal or child run; signaled: which signal
	Class   string        // failed, retrying, timed_out, canceled
	Text    string        // error or reason, as CleanText leaves it
}

// Instant is t as it is stored: databases keep whole microseconds. What is
// decided and what is read later must be the same.
func Instant(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// EventKind names what happened, in the past tense. The codes are stored and
// never renumbered.
type EventKind uint8

// The kinds of events. Tasks use those below 32, runs those from 32.
const (
	EventQueued    EventKind = 1
	EventStarted   EventKind = 2
	EventCompleted EventKind = 3
	EventFailed    EventKind = 4
	EventRetrying  EventKind = 5
	EventTimedOut  EventKind = 6
	EventLost      EventKind = 7
	EventReleased  EventKind = 8
	EventSkipped   EventKind = 9
	EventCanceled  EventKind = 10
	EventSleeping  EventKind = 11
	EventWoken     EventKind = 12
	EventActivated EventKind = 13
	EventTrimmed   EventKind = 15
	EventWaiting   EventKind = 16

	EventRunCreated      EventKind = 32
	EventRunStarted      EventKind = 33
	EventCancelRequested EventKind = 34
	EventRunCompleted    EventKind = 35
	EventRunFailed       EventKind = 36
	EventRunCanceled     EventKind = 37
	EventSignaled        EventKind = 38
	EventSignalRefused   EventKind = 39
)

// eventMeaning is the name of each kind and the state that it leads to; 0: it
// leaves the state as it is.
type eventMeaning struct {
	name string
	next State
}

// unknownKind is the name of kinds of later versions.
const unknownKind = "unknown"

func meaning(k EventKind) eventMeaning {
	switch k {
	case EventQueued:
		return eventMeaning{"queued", Queued}
	case EventStarted:
		return eventMeaning{"started", Running}
	case EventCompleted:
		return eventMeaning{"completed", Completed}
	case EventFailed:
		return eventMeaning{"failed", Failed}
	case EventRetrying:
		return eventMeaning{"retrying", Backoff}
	case EventTimedOut:
		return eventMeaning{"timed_out", Failed}
	case EventLost:
		return eventMeaning{"lost", Queued}
	case EventReleased:
		return eventMeaning{"released", Queued}
	case EventSkipped:
		return eventMeaning{"skipped", Skipped}
	case EventCanceled:
		return eventMeaning{"canceled", Canceled}
	case EventSleeping:
		return eventMeaning{"sleeping", Sleeping}
	case EventWoken:
		return eventMeaning{"woken", Completed}
	case EventActivated:
		return eventMeaning{"activated", Waiting}
	case EventTrimmed:
		return eventMeaning{"trimmed", Waiting}
	case EventWaiting:
		return eventMeaning{"waiting", Waiting}
	case EventRunCreated:
		return eventMeaning{"run_created", Pending}
	case EventRunStarted:
		return eventMeaning{"run_started", Running}
	case EventCancelRequested:
		return eventMeaning{"cancel_requested", 0}
	case EventRunCompleted:
		return eventMeaning{"run_completed", Completed}
	case EventRunFailed:
		return eventMeaning{"run_failed", Failed}
	case EventRunCanceled:
		return eventMeaning{"run_canceled", Canceled}
	case EventSignaled:
		return eventMeaning{"signaled", 0}
	case EventSignalRefused:
		return eventMeaning{"signal_refused", 0}
	}
	return eventMeaning{unknownKind, 0}
}

// String returns the name used in logs, columns and answers.
func (k EventKind) String() string { return meaning(k).name }

// Next returns the state that an event of this kind leads to; 0 if it leaves
// the state as it is.
func (k EventKind) Next() State { return meaning(k).next }

// Fold rebuilds a state from the kinds of the events of one task or of the run
// itself, in order. Without events a task is Pending.
func Fold(kinds []EventKind) State {
	state := Pending
	for _, k := range kinds {
		if next := k.Next(); next != 0 {
			state = next
		}
	}
	return state
}

// CleanText returns a text as it is kept: at most TextMax bytes, without NUL
// and without bytes that are not UTF-8, both of which databases refuse. Decide
// applies it to what facts carry. It reads little more of a long text than it
// returns, and what it returns keeps none of it in memory.
func CleanText(text string) string {
	const read = 4 * TextMax // some of it may be dropped
	long := len(text) > TextMax
	text = text[:min(len(text), read)]
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if long || len(text) > TextMax {
		text = strings.Clone(strings.ToValidUTF8(text[:min(len(text), TextMax)], ""))
	}
	return text
}
