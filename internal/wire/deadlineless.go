package wire

import (
	"net"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// deadlineless is a connection that keeps no deadlines, as the tunnels of some libraries
// are: a read of it ends when it is closed, and not before. Callers that give up set a
// deadline and wait for the read to end, so a deadline closes it once it has passed.
type deadlineless struct {
	net.Conn
	mu   sync.Mutex
	stop func() // of the deadline that was set last; nil: none was
}

// SetDeadline implements net.Conn.
func (c *deadlineless) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
	if !at.IsZero() {
		now := clock.System{}.Now()
		c.stop = clock.System{}.After(at.Sub(now), func() { _ = c.Conn.Close() })
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *deadlineless) SetReadDeadline(at time.Time) error { return c.SetDeadline(at) }

// SetWriteDeadline implements net.Conn.
func (c *deadlineless) SetWriteDeadline(at time.Time) error { return c.SetDeadline(at) }

// Close implements net.Conn.
func (c *deadlineless) Close() error {
	_ = c.SetDeadline(time.Time{})
	return c.Conn.Close()
}
