package load

// purpose keeps the chances of one run apart.
type purpose uint64

const (
	toFail purpose = iota + 1
	toFailForGood
	toTake
	toReject
)

// chance returns a number between 0 and 1 that looks random, and is the same
// on whatever pod and however often it is asked: a step that is to fail its
// first attempt does not fail the second because another pod executes it.
func chance(run int64, step int, what purpose) float64 {
	x := uint64(run)*0x9e3779b97f4a7c15 + uint64(step)<<8 + uint64(what)
	for range 2 { // the finalizer of splitmix64
		x += 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return float64(x>>11) / (1 << 53)
}
