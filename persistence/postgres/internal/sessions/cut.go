package sessions

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
)

// Cut ends connections from below, for an owner who cannot wait for them any
// longer: a statement that a silent server does not answer, and a goodbye that it
// does not hear, end with it. It is safe for concurrent use.
type Cut struct {
	mu   sync.Mutex
	done bool
	last int
	open map[int]func() // ends a connection, or the making of one
}

// NewCut returns one with nothing to end.
func NewCut() *Cut { return &Cut{open: map[int]func(){}} }

var errCut = fmt.Errorf("%w: its connections were closed", persistence.ErrUnavailable)

// prepare has config make connections that can be ended.
func (c *Cut) prepare(config *pgx.ConnConfig) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx) // also after the dial: who knows what a user's dialer does with it
		made, err := c.add(cancel)
		if err != nil {
			cancel()
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		made()
		if err != nil {
			cancel()
			return nil, err
		}
		gone, err := c.add(func() { _ = conn.Close() }) // an error means that it is closed
		if err != nil {
			_ = conn.Close()
			cancel()
			return nil, err
		}
		return &cutConn{Conn: conn, gone: func() { gone(); cancel() }}, nil
	}
}

// add has end called once, unless remove is called before.
func (c *Cut) add(end func()) (remove func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return nil, errCut
	}
	c.last++
	number := c.last
	c.open[number] = end
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, number)
	}, nil
}

// All ends every connection; no other is made.
func (c *Cut) All() {
	c.mu.Lock()
	open := c.open
	c.open, c.done = nil, true
	c.mu.Unlock()
	for _, end := range open {
		end()
	}
}

// cutConn forgets itself when it is closed.
type cutConn struct {
	net.Conn

	gone func()
}

// Close implements net.Conn.
func (c *cutConn) Close() error {
	c.gone()
	return c.Conn.Close()
}
