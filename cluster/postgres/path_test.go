package postgres_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// path is a network path to the server that a test can break.
type path struct {
	url string

	mu    sync.Mutex
	gate  *sync.Cond
	deaf  bool
	conns []net.Conn
}

func newPath(t *testing.T, address string) *path {
	t.Helper()
	to, err := url.Parse(address)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &path{}
	p.gate = sync.NewCond(&p.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to.Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.add(client, server)
			running.Go(func() { p.pass(client, server) })
			running.Go(func() { p.pass(server, client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		running.Wait()
	})
	from := *to
	from.Host = listener.Addr().String()
	p.url = from.String()
	return p
}

func (p *path) add(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conns...)
}

// pass copies until an end closes. While the path is deaf nothing passes, not
// even that.
func (p *path) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		for p.deaf {
			p.gate.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			return
		}
	}
}

// drop loses everything from here on, silently.
func (p *path) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

// cut closes every connection at both ends.
func (p *path) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = false
	p.gate.Broadcast()
	for _, c := range p.conns {
		_ = c.Close()
	}
}
