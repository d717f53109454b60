package cluster

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

const (
	// answerStep is the head start that each pod has on the next in the order
	// of a wake: longer than a claim on an idle server takes.
	answerStep = 3 * time.Millisecond
	// answerDelayMax bounds how late the last pod looks: it stands in for
	// pods that are gone, frozen or full.
	answerDelayMax = 50 * time.Millisecond
)

// Rank is the place of pod among pods in the order of the wake with this key
// (rendezvous hashing): 0 is first. Pods that know the same pods agree on it,
// and over many keys each is first as often as any other. A pod that is not
// among pods is ranked as if it were.
func Rank(pod int64, pods []int64, queue string, key uint64) int {
	own := score(pod, queue, key)
	rank := 0
	for _, other := range pods {
		s := score(other, queue, key)
		if s > own || s == own && other < pod {
			rank++
		}
	}
	return rank
}

// EstimateRank is Rank for a pod that only knows how many pods there are. Two
// pods may get the same rank, or none the first.
func EstimateRank(pod int64, pods int, queue string, key uint64) int {
	if pods <= 1 {
		return 0
	}
	share := 1 - float64(score(pod, queue, key)>>11)/(1<<53)
	return min(int(share*float64(pods)), pods-1)
}

// AnswerDelay is how long a pod of this rank lets others go first when count
// tasks became ready and a pod takes about slots of them: as many pods as it
// takes look at once, the others a little later each. A count of 0 is unknown
// and everybody looks at once.
func AnswerDelay(rank, count, slots int) time.Duration {
	if count <= 0 {
		return 0
	}
	slots = max(slots, 1)
	first := (count + slots - 1) / slots // pods that look at once
	if rank < first {
		return 0
	}
	return min(time.Duration(min(rank-first+1, int(answerDelayMax/answerStep)+1))*answerStep, answerDelayMax)
}

func score(pod int64, queue string, key uint64) uint64 {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], key)
	binary.BigEndian.PutUint64(numbers[8:], uint64(pod))
	h := fnv.New64a()
	h.Write([]byte(queue))
	h.Write(numbers[:])
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
