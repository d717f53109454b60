package cluster

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

const (
	// answerStep is the head start that the pods which are named by a wake have
	// on the one that stands in for them: longer than a claim on an idle server
	// takes.
	answerStep = 3 * time.Millisecond
	// answerGrowth is how many times longer each further one waits: the later it
	// looks, the less likely is the task still there.
	answerGrowth = 2
	// standInsMax is how many stand in for pods that are gone, frozen, or full
	// since a few seconds. Each costs a claim that mostly finds nothing. The last
	// looks after 384 ms.
	standInsMax = 8
)

// Order is where a pod stands among those with a slot to spare, by number.
type Order struct {
	Idle  int // pods with a slot to spare, at their last renewal
	Place int // of them, those with a lower number
}

// Rank is the place of a pod in the order of the wake with this key: 0 is
// first. Pods that know the same others have different ranks, and over many
// keys each is first as often as any other. Before pods were counted the rank
// is 0.
func (o Order) Rank(queue string, key uint64) int {
	if o.Idle <= 1 {
		return 0
	}
	return int((hash(queue, key) + uint64(max(o.Place, 0))) % uint64(o.Idle)) //nolint:gosec // both are counts
}

// AnswerDelay is how long a pod of this rank lets others go first when count
// tasks became ready and a pod takes about slots of them: as many pods as it
// takes look at once, a few stand in for them, each a good deal later than the
// one before, and the rest does not look: ok is false. What all of them miss is
// left to pods that look for work to fill a slot, and to the sweep. A count of 0
// is unknown: every pod looks at once.
func AnswerDelay(rank, count, slots int) (delay time.Duration, ok bool) {
	if count <= 0 {
		return 0, true
	}
	slots = max(slots, 1)
	standIn := rank - (count+slots-1)/slots // below 0: it looks at once
	if standIn < 0 {
		return 0, true
	}
	if standIn >= standInsMax {
		return 0, false
	}
	delay = answerStep
	for range standIn {
		delay *= answerGrowth
	}
	return delay, true
}

func hash(queue string, key uint64) uint64 {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], key)
	h := fnv.New64a()
	h.Write([]byte(queue))
	h.Write(number[:])
	return mix(h.Sum64())
}

// mix spreads the bits of an FNV hash, whose high bits hardly depend on the
// last bytes (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
