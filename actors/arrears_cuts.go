package actors

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

const (
	// arrearsBlocks is how far below where the frontier was a while ago stands what is
	// late.
	arrearsBlocks = 64
	// arrearsAge is how long ago that is at least: whoever read the frontier before it
	// moved has committed what it enqueued behind it.
	arrearsAge = time.Second
)

// arrearsAges are how long ago, at least, the frontier was where a line is cut. Almost
// everybody enqueues behind a frontier that was read just now, and waits there for no more
// of what is late than others were served since.
var arrearsAges = [...]time.Duration{arrearsAge, arrearsAge / 4, arrearsAge / 16, arrearsAge / 64}

// cuts are the places where a line is cut, from the lowest on: above what is late, where the
// frontier was since, and where it is. Between two of them stand the last of those who are
// late, and what was enqueued behind an older frontier.
type cuts [len(arrearsAges) + 1]int64

// late reports whether what was granted stands far below where the frontier was.
func (c cuts) late(claimed *persistence.Claimed) bool {
	return claimed.Lowest > 0 && claimed.Lowest < c[0]
}

// cuts notes where the frontier is, and returns where a line would be cut.
func (a *arrears) cuts(frontier int64, now time.Time) (where cuts) {
	for i, age := range arrearsAges {
		where[i] = placeOf(a.frontier[i].look(frontier, age, now) + 1)
	}
	where[0] -= placeOf(1 + arrearsBlocks)
	where[len(arrearsAges)] = placeOf(frontier + 1)
	return where
}

// glimpse knows where the frontier was a while ago.
type glimpse struct {
	past   int64     // its block; 0: nobody looked
	seen   int64     // what past becomes
	seenAt time.Time // when that was seen
}

// look notes where the frontier is, and returns where it was at least so long ago, as far as
// is known.
func (g *glimpse) look(block int64, age time.Duration, now time.Time) int64 {
	if now.Sub(g.seenAt) >= age {
		g.past, g.seen, g.seenAt = g.seen, block, now
	}
	if g.past == 0 {
		return min(g.seen, block)
	}
	return min(g.past, block)
}

// placeOf is the first place of a block.
func placeOf(block int64) int64 { return lifecycle.FairID(0, 0, max(block, 0)) }
