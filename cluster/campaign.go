package cluster

import (
	"errors"
	"time"
)

// CampaignTimes are the durations of an election.
type CampaignTimes struct {
	Silence time.Duration // of the leader, after which others try
	Retry   time.Duration // between two tries
}

// DefaultCampaignTimes returns the durations of the design.
func DefaultCampaignTimes() CampaignTimes {
	return CampaignTimes{Silence: 2500 * time.Millisecond, Retry: 500 * time.Millisecond}
}

// Contender is what a pod that does not lead knows.
type Contender struct {
	Heard    bool          // a ping was heard since the listener connected
	Silence  time.Duration // since the last ping
	Resigned bool          // that ping was the leader's last
	Tried    bool          // a try of this pod failed since that ping
	Jitter   float64       // in [-1, 1]
}

// PingInterval is how long a leader waits between two pings. One that is alone
// only has to keep its session, and says half as much.
func PingInterval(usual time.Duration, mode Mode, pods int) time.Duration {
	if mode == ModeSpared && pods == 1 {
		return 2 * usual
	}
	return usual
}

// CampaignDelay is how long a pod waits before it tries to lead: not at all on
// start and when the leader has resigned, until the leader has been silent for
// long enough otherwise. Tries are spread by a quarter, so that pods do not
// connect in step.
func CampaignDelay(times CampaignTimes, c Contender) time.Duration {
	if c.Tried {
		retry := times.Retry + time.Duration(c.Jitter*float64(times.Retry)/4)
		if c.Heard && !c.Resigned {
			return max(retry, times.Silence-c.Silence)
		}
		return retry
	}
	if !c.Heard || c.Resigned {
		return 0
	}
	return max(times.Silence-c.Silence, 0)
}

const (
	streamRetryMin         = 250 * time.Millisecond
	streamRetryMax         = 10 * time.Second
	streamRetryUnavailable = 10 * time.Second // what stands in the way is for people to mend, or a long transaction
)

// StreamRetry is how long to wait before reading the stream again after the
// given number of failures in a row, of which the last was err.
func StreamRetry(err error, failures int) time.Duration {
	if errors.Is(err, ErrStreamUnavailable) {
		return streamRetryUnavailable
	}
	delay := streamRetryMin
	for range min(failures-1, 10) {
		delay *= 2
	}
	return min(delay, streamRetryMax)
}
