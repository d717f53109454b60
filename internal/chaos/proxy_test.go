package chaos

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// carrier writes a piece of what the server answers to a client, or returns an
// error to have the connection cut; after errSilent it stays open, and nothing
// arrives any more.
type carrier func(client net.Conn, answer []byte) error

var errSilent = errors.New("silent")

// openProxy stands between pods and the server of an address until the test
// ends, and returns the address that leads through it.
func openProxy(t testing.TB, to string, carry carrier) string {
	t.Helper()
	target, err := url.Parse(to)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := target.Host
	target.Host = listener.Addr().String()
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { connect(client, server, carry) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // it is closed once
		open.Wait()
	})
	return target.String()
}

// connect carries what a client and the server say to each other until one of
// them ends it, or it is cut.
func connect(client net.Conn, server string, carry carrier) {
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
			if err == nil {
				err = carry(client, answer[:n])
			}
			if errors.Is(err, errSilent) {
				_, _ = io.Copy(io.Discard, upstream) // until the client gives it up
			}
			if err != nil {
				return
			}
		}
	})
	both.Wait()
}
