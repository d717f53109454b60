package chaos

import (
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// way is a proxy between pods and their server.
type way struct {
	url      string
	cutOneIn atomic.Int64 // one answer in so many is lost with its connection; 0: none
	cuts     atomic.Int64
}

// openWay listens for pods until the test ends.
func openWay(t testing.TB, to string) *way {
	t.Helper()
	target, err := url.Parse(to)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &way{}
	server := target.Host
	target.Host = listener.Addr().String()
	w.url = target.String()
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { w.carry(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // it is closed once
		open.Wait()
	})
	return w
}

// carry connects a client with the server until one of them, or a cut, ends it.
func (w *way) carry(client net.Conn, server string) {
	upstream, err := net.DialTimeout("tcp", server, time.Second)
	if err != nil {
		_ = client.Close() // the client sees it
		return
	}
	var both sync.WaitGroup
	hangUp := func() {
		_ = client.Close()   // whichever side is closed
		_ = upstream.Close() // ends the other one
	}
	both.Go(func() {
		defer hangUp()
		_, _ = io.Copy(upstream, client) // its end is the connection's
	})
	both.Go(func() {
		defer hangUp()
		for answer := make([]byte, 64<<10); ; {
			n, err := upstream.Read(answer)
			if err != nil {
				return
			}
			if one := w.cutOneIn.Load(); one > 0 && rand.N(one) == 0 {
				w.cuts.Add(1)
				return
			}
			if _, err := client.Write(answer[:n]); err != nil {
				return
			}
		}
	})
	both.Wait()
}
