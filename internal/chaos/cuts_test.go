package chaos

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// F25: answers of the server are lost on the way, those to COMMIT among them:
// the pods cannot know what was stored, and ask again.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F25", Name: "commit-ambiguity", Fault: "connections cut in place of an answer of the server, those to COMMIT among them",
		Must:    "I1 I2 I3 I8",
		Allowed: []figure{atLeast("cuts", float64(spell(60, 1000)), "")},
	})
	direct := pgtest.Database(r)
	way := openWay(r, direct)
	y := newYardOn(r, direct, brisk(), 6)
	y.url = way.url
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	way.cutOneIn.Store(60)
	y.until("answers were lost", 4*patience, func() bool { return way.cuts.Load() >= int64(spell(60, 1000)) })
	way.cutOneIn.Store(0)
	r.count("cuts", int(way.cuts.Load()))
	y.settle()
}

// way is a proxy that cuts connections.
type way struct {
	url      string
	cutOneIn atomic.Int64 // one answer in so many is lost with its connection; 0: none
	cuts     atomic.Int64
}

var errCut = errors.New("cut")

// openWay listens for pods until the test ends.
func openWay(t testing.TB, to string) *way {
	t.Helper()
	w := &way{}
	w.url = openProxy(t, to, func(client net.Conn, answer []byte) error {
		if one := w.cutOneIn.Load(); one > 0 && rand.N(one) == 0 {
			w.cuts.Add(1)
			return errCut
		}
		_, err := client.Write(answer)
		return err
	})
	return w
}
