package chaos

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// F28: the network between pods and their server is slow, in each of three ways.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F28", Name: "slow-net", Fault: "answers take 200 ± 80 ms, then come in pieces of 64 bytes, then with 64 KB/s for each connection",
		Must:    "I1 to I8; leases are kept",
		Allowed: leasesKept(atLeast("runs ended while slow", 20, "")),
	})
	direct := pgtest.Database(r)
	road := openRoad(r, direct)
	tune := brisk()
	tune.Pulse, tune.Lease = 500*time.Millisecond, 2500*time.Millisecond // a round trip takes less than a fifth of the lease
	y := newYardOn(r, direct, tune, 4)
	y.url = road.url
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	before := y.number(endedSQL)
	for _, pace := range []pace{
		{delay: 200 * time.Millisecond, jitter: 80 * time.Millisecond},
		{piece: 64, delay: 50 * time.Microsecond},
		{rate: 64 << 10},
	} {
		road.pace.Store(&pace)
		y.under(spell(3*time.Second, 10*time.Second))
	}
	road.pace.Store(&pace{})
	r.count("runs ended while slow", y.number(endedSQL)-before)
	y.countLeases(y.settle())
}

// pace is how a road carries the answers of the server.
type pace struct {
	delay, jitter time.Duration // of each piece
	piece         int           // bytes at once; 0: as they come
	rate          int           // bytes per second of one connection; 0: any
}

// road is a proxy that carries everything, at some pace.
type road struct {
	url  string
	pace atomic.Pointer[pace]
}

// openRoad listens for pods until the test ends.
func openRoad(t testing.TB, to string) *road {
	t.Helper()
	w := &road{}
	w.pace.Store(&pace{})
	w.url = openProxy(t, to, w.slowly)
	return w
}

// slowly writes an answer at the road's pace.
func (w *road) slowly(client net.Conn, answer []byte) error {
	p := *w.pace.Load()
	for len(answer) > 0 {
		n := len(answer)
		if p.piece > 0 {
			n = min(n, p.piece)
		}
		wait := p.delay
		if p.jitter > 0 {
			wait += rand.N(2*p.jitter) - p.jitter
		}
		if p.rate > 0 {
			n = min(n, p.rate/10)
			wait += time.Duration(n) * time.Second / time.Duration(p.rate)
		}
		if wait > 0 {
			_ = pause(context.Background(), wait) // it never ends early
		}
		if _, err := client.Write(answer[:n]); err != nil {
			return err
		}
		answer = answer[n:]
	}
	return nil
}
