package adaptive

import (
	"sync"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ClaimsMax bounds how many claims a store remembers. A pod that renews its lease forgets
// those of which it holds nothing.
const ClaimsMax = 100_000

// Claims counts how many tasks of each claim have ended, as far as this store was told by
// committed records. A claim whose tasks have all ended need not be compared with the
// tables task by task. What a record said is true of the server that answered it. Another
// server may have lost the record, so all of it is forgotten with the connection that
// renews. It is safe for concurrent use.
type Claims struct {
	mu     sync.Mutex
	on     any // the connection
	pods   map[int64]*podClaims
	known  int   // claims of all pods
	number int64 // of the latest claim
}

// podClaims is what one pod was granted.
type podClaims struct {
	claims map[persistence.ClaimID]*claim
	open   map[grant]*claim // of tasks that have not ended
}

type claim struct {
	number int64 // in the order in which they were met
	ended  int32
}

// grant is a task that was granted, for as long as the grant lasts.
type grant struct {
	task  workflow.TaskID
	epoch int64
}

// Counted is what is known of a pod's claims: of each how many of its tasks have ended.
type Counted struct {
	Claims [][16]byte
	Ended  []int32
	latest int64 // number of the latest claim that was known then
}

// NewClaims returns one that knows no claim.
func NewClaims() *Claims { return &Claims{pods: map[int64]*podClaims{}} }

// Granted notes what a committed claim has granted, or a part of it.
func (c *Claims) Granted(pod int64, id persistence.ClaimID, grants []persistence.Grant) {
	if len(grants) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known >= ClaimsMax {
		c.clear()
	}
	p := c.pods[pod]
	if p == nil {
		p = &podClaims{claims: map[persistence.ClaimID]*claim{}, open: map[grant]*claim{}}
		c.pods[pod] = p
	}
	one := p.claims[id]
	if one == nil {
		c.number++
		c.known++
		one = &claim{number: c.number}
		p.claims[id] = one
	}
	for i := range grants {
		p.open[grant{grants[i].Task, grants[i].Epoch}] = one
	}
}

// Ended notes that a grant is over: a record says so that is committed.
func (c *Claims) Ended(pod int64, task workflow.TaskID, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[pod]
	if p == nil {
		return
	}
	if one := p.open[grant{task, epoch}]; one != nil {
		delete(p.open, grant{task, epoch})
		one.ended++
	}
}

// Counted returns the claims of a pod of which tasks have ended, for a renewal on a
// connection.
func (c *Claims) Counted(pod int64, on any) Counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on != on {
		c.clear()
		c.on = on
	}
	out := Counted{latest: c.number}
	if p := c.pods[pod]; p != nil {
		for id, one := range p.claims {
			if one.ended > 0 {
				out.Claims, out.Ended = append(out.Claims, id), append(out.Ended, one.ended)
			}
		}
	}
	return out
}

// Keep forgets the claims that a renewal was told of, or could have been, but those of
// which the pod holds something by the tables.
func (c *Claims) Keep(pod int64, counted Counted, held [][16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[pod]
	if p == nil {
		return
	}
	holding := make(map[[16]byte]bool, len(held))
	for _, id := range held {
		holding[id] = true
	}
	gone := map[*claim]bool{}
	for id, one := range p.claims {
		if one.number <= counted.latest && !holding[id] {
			gone[one] = true
			delete(p.claims, id)
		}
	}
	c.known -= len(gone)
	for g, one := range p.open {
		if gone[one] {
			delete(p.open, g)
		}
	}
}

// Forget forgets a pod.
func (c *Claims) Forget(pod int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pods[pod]; p != nil {
		c.known -= len(p.claims)
		delete(c.pods, pod)
	}
}

func (c *Claims) clear() {
	clear(c.pods)
	c.known = 0
}
