package chaos

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// F25: answers of the server are lost on the way, those to COMMIT among them:
// the pods cannot know what was stored, and ask again. So do callers that
// trigger, await and cancel.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F25", Name: "commit-ambiguity", Fault: "connections cut in place of an answer of the server, those to COMMIT among them",
		Must:    "I1 I2 I3 I8; a cancel that was acknowledged takes place",
		Allowed: []figure{atLeast("cuts", float64(spell(60, 1000)), ""), atLeast("runs canceled meanwhile", float64(spell(5, 50)), "")},
	})
	y, way := newLossyYard(r)
	way.cutOneIn.Store(60)
	before := y.number(canceledSQL)
	y.until("answers were lost", 4*patience, func() bool { return way.cuts.Load() >= int64(spell(60, 1000)) })
	r.count("runs canceled meanwhile", y.number(canceledSQL)-before)
	way.cutOneIn.Store(0)
	r.count("cuts", int(way.cuts.Load()))
	y.settle()
}

// F25: the same, but neither side hears that the connection is gone: it stays open, and
// the server's answers are dropped.
func TestAnswersAreSwallowed(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F25", Name: "commit-silence", Fault: "connections fall silent in place of an answer of the server, and stay open",
		FullOnly: true, Must: "I1 I2 I3 I8; a cancel that was acknowledged takes place",
		Allowed: []figure{
			atLeast("silences", 30, ""), atLeast("runs canceled", 5, ""), within("the load has ended after", 90*time.Second),
		},
	})
	y, way := newLossyYard(r)
	before := y.number(canceledSQL)
	way.silenceOneIn.Store(100)
	y.until("connections are silent", 2*patience, func() bool { return way.silences.Load() >= 30 })
	way.silenceOneIn.Store(0)
	began := time.Now()
	y.resumed()
	y.quiet(2 * patience) // a call is given up after half a minute, and a run may meet several
	r.took("the load has ended after", time.Since(began))
	r.count("silences", int(way.silences.Load()))
	r.count("runs canceled", y.number(canceledSQL)-before)
	y.judge()
}

// newLossyYard returns a warm yard of three pods, whose callers cancel runs, too, and
// the way to its server.
func newLossyYard(r *trial) (*yard, *way) {
	r.Helper()
	direct := pgtest.Database(r)
	way := openWay(r, direct)
	y := newYardOn(r, direct, brisk(), 6)
	y.url = way.url
	y.each = func(s *podSpec) { s.Cancels, s.Await = true, 3*patience }
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	return y, way
}

const canceledSQL = `select count(*)::int from troupe.every_run where state = 'canceled'`

// way is a proxy that loses answers.
type way struct {
	url          string
	cutOneIn     atomic.Int64 // one answer in so many is lost with its connection; 0: none
	cuts         atomic.Int64
	silenceOneIn atomic.Int64 // one answer in so many is lost with all that follow; 0: none
	silences     atomic.Int64
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
		if one := w.silenceOneIn.Load(); one > 0 && rand.N(one) == 0 {
			w.silences.Add(1)
			return errSilent
		}
		_, err := client.Write(answer)
		return err
	})
	return w
}
