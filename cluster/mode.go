package cluster

import (
	"fmt"
	"time"
)

// StreamPodsMax is the number of pods up to which each reads a replication
// stream of its own. Every slot decodes all WAL, so beyond it the leader reads
// the only one and relays.
const StreamPodsMax = 2

// View is what a pod knows about how wakes reach it.
type View struct {
	Leading   bool
	Streaming bool          // its own replication stream flows
	Pods      int           // living pods, by the last renewal or ping
	Heard     bool          // a ping of the current leader was heard
	Silence   time.Duration // since that ping
	Said      Mode          // the mode it carried
}

// FeedTimes are the durations a feed is decided by.
type FeedTimes struct {
	Silence    time.Duration // after which a leader does not relay any more
	Sweep      time.Duration // between two sweeps while wakes arrive
	SweepBlind time.Duration // between two sweeps while none may
}

// DefaultFeedTimes returns the durations of the design.
func DefaultFeedTimes() FeedTimes {
	return FeedTimes{Silence: 1500 * time.Millisecond, Sweep: 30 * time.Second, SweepBlind: time.Second}
}

// Feed is how a pod gets and gives wakes.
type Feed struct {
	Mode   Mode          // how wakes reach this pod; a leader's ping carries it
	Read   bool          // hold a replication stream, or try to
	Relay  bool          // notify what the stream brings
	Notify bool          // notify after own commits
	Sweep  time.Duration // between two sweeps
}

// DecideFeed decides how wakes reach a pod. The leader always tries to read a
// stream, because its mode is everybody's. A pod without a leader's word for
// it relies on nothing but a stream of its own.
func DecideFeed(times FeedTimes, v View) Feed {
	few := v.Pods <= StreamPodsMax
	told := v.Heard && v.Silence < times.Silence
	feed := Feed{Mode: ModeNone, Notify: true, Sweep: times.SweepBlind}
	switch {
	case v.Leading:
		feed.Read = true
	case told:
		feed.Read = v.Said == ModeStream
	default:
		feed.Read = few
	}
	switch {
	case feed.Read && v.Streaming && (few || !v.Leading):
		feed.Mode = ModeStream
	case feed.Read && v.Streaming, told && !v.Leading && v.Said == ModeRelay:
		feed.Mode = ModeRelay
	default:
		return feed
	}
	feed.Relay = v.Leading && feed.Mode == ModeRelay
	feed.Notify = false
	feed.Sweep = times.Sweep
	return feed
}

// String returns the name used in logs and answers.
func (m Mode) String() string {
	switch m {
	case ModeStream:
		return "stream"
	case ModeRelay:
		return "relay"
	case ModeNone:
		return "none"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// String returns the name used in logs.
func (k WakeKind) String() string {
	switch k {
	case WakeReady:
		return "ready"
	case WakeSubmitted:
		return "submitted"
	case WakeTimer:
		return "timer"
	case WakeEnded:
		return "ended"
	case WakeCanceling:
		return "canceling"
	}
	return fmt.Sprintf("wake(%d)", uint8(k))
}
