package cluster

import (
	"fmt"
	"time"
)

// StreamPodsMax is the number of pods up to which each reads a replication
// stream of its own. Every slot decodes all WAL, so beyond it the leader reads
// the only one and relays.
const StreamPodsMax = 2

// SparePodsMax is the number of pods up to which the stream is spared while all
// are busy. Beyond it, the notifications that stand in for it cost as much:
// every pod hears each of them.
const SparePodsMax = 8

// View is what a pod knows about how wakes reach it.
type View struct {
	Leading   bool
	Streaming bool          // its own replication stream flows
	Counted   bool          // a renewal has counted the pods
	Pods      int           // living pods, by the last renewal or ping
	Waiting   int           // of them, that are not busy, by the last renewal
	Refused   bool          // the server takes no notifications
	Submits   bool          // this pod stores runs in transactions of the embedder's, of which only the stream tells for free
	Heard     bool          // a ping of the current leader was heard
	Silence   time.Duration // since that ping
	Said      Mode          // the mode it carried
	Last      Feed          // what was decided last
	For       time.Duration // how long that has been to spare the stream, or not to
}

// Told reports whether this pod follows a leader that has said of late how wakes
// travel.
func (v View) Told(times FeedTimes) bool {
	return !v.Leading && v.Heard && v.Silence < times.Silence
}

// FeedTimes are the durations a feed is decided by.
type FeedTimes struct {
	Silence     time.Duration // after which a leader does not relay any more
	Sweep       time.Duration // between two sweeps while wakes arrive
	SweepSpared time.Duration // between two sweeps while writers notify because no pod waits
	SweepBlind  time.Duration // between two sweeps while wakes may not arrive
	Spare       time.Duration // how long a stream is at least spared, and at least read
	Linger      time.Duration // how long it is read on: writers must have heard that they are to notify
}

// DefaultFeedTimes returns the durations of the design.
func DefaultFeedTimes() FeedTimes {
	return FeedTimes{
		Silence: 1500 * time.Millisecond, Sweep: 30 * time.Second, SweepSpared: 5 * time.Second, SweepBlind: time.Second,
		Spare: 10 * time.Second, Linger: 3 * time.Second,
	}
}

// Feed is how a pod gets and gives wakes.
type Feed struct {
	Mode   Mode          // how wakes reach this pod; a leader's ping carries it
	Alone  bool          // there is no other pod
	Read   bool          // hold a replication stream, or try to
	Relay  bool          // notify what the stream brings
	Notify bool          // notify after own commits
	Sweep  time.Duration // between two sweeps
}

// DecideFeed decides how wakes reach a pod. The leader tries to read a stream
// unless it can be spared, because all pods take its mode. A pod without a
// leader's word for it relies on nothing but a stream of its own, and notifies all the same:
// the leader may not know of it yet. No pod begins to read before the pods were counted.
func DecideFeed(times FeedTimes, v View) Feed {
	few := v.Pods <= StreamPodsMax
	told := v.Told(times)
	if v.Leading && spares(times, v) || told && v.Said == ModeSpared {
		return spared(times, v)
	}
	feed := Feed{Mode: ModeNone, Notify: true, Sweep: times.SweepBlind}
	switch {
	case v.Leading:
		feed.Read = v.Counted
	case told:
		feed.Read = v.Said == ModeStream && (few || v.Streaming) // the leader may not have counted a new pod
	default:
		feed.Read = few && v.Counted
	}
	switch {
	case feed.Read && v.Streaming && (few || !v.Leading):
		feed.Mode = ModeStream
	case feed.Read && v.Streaming, told && v.Said == ModeRelay:
		feed.Mode = ModeRelay
	default:
		return feed
	}
	feed.Relay = v.Leading && feed.Mode == ModeRelay
	feed.Notify = !v.Leading && !told // a leader that takes itself to be alone reads no stream
	feed.Sweep = times.Sweep
	return feed
}

// spares reports whether a leader does without a stream: every slot costs the
// server the decoding of all that is written, and a busy pod finds its work
// without being woken, as one that is alone does. It changes its mind about
// busy pods only after a while, and about other pods at once.
func spares(times FeedTimes, v View) bool {
	alone := v.Pods <= 1
	spare := v.Counted && !v.Submits && !v.Refused && (alone || v.Waiting == 0 && v.Pods <= SparePodsMax)
	switch before := v.Last.Mode == ModeSpared; {
	case spare == before, v.For >= times.Spare, v.Refused:
		return spare
	case before:
		return alone || !v.Last.Alone
	default:
		return !v.Last.Read // it does not begin
	}
}

// spared is the feed of a pod while the stream is spared. One that flows is
// read on for a while, and relayed.
func spared(times FeedTimes, v View) Feed {
	feed := Feed{Mode: ModeSpared, Notify: true, Sweep: times.SweepSpared}
	feed.Read = v.Streaming && (v.Last.Mode != ModeSpared || v.For < times.Linger)
	feed.Relay = feed.Read && v.Leading && v.Pods > StreamPodsMax
	if v.Leading && v.Pods <= 1 {
		feed.Alone, feed.Notify, feed.Sweep = true, false, times.Sweep
	}
	return feed
}

const (
	// waitMin is the pause between two claims from which on a pod is said to wait
	// for wakes. Shorter ones hardly delay anything.
	waitMin = 100 * time.Millisecond
	// relayInterval is at most 200 notifications a second: each takes a
	// database-wide lock.
	relayInterval = 5 * time.Millisecond
	// relayPods is how many pods hear that many. Each of them costs the server a
	// message, so that more pods get fewer, at most 5,000 messages a second.
	relayPods = 25
	// notifyDelayMax bounds the wait of one of many writers.
	notifyDelayMax = time.Second
)

// Busy reports whether wakes would find nothing to do on a pod: it has no slot
// free, or has claimed so often within a period that it hardly waited.
func Busy(free, claims int, period time.Duration) bool {
	return free <= 0 || time.Duration(claims)*waitMin >= period
}

// NotifyDelay is how long a pod waits after its last notification, which was
// sent before the given duration, when so many pods hear it and so many send
// some. What accumulates meanwhile goes into one.
func NotifyDelay(sinceLast time.Duration, pods, writers int) time.Duration {
	interval := relayInterval * time.Duration(max(pods, relayPods)) / relayPods
	if writers > 1 {
		interval = min(interval*time.Duration(writers), notifyDelayMax)
	}
	return max(interval-sinceLast, 0)
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
	case ModeSpared:
		return "spared"
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
