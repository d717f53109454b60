package wire

import (
	"bytes"
	"net"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
)

// deadlineless is a connection that keeps no deadlines, as the tunnels of some libraries
// are. Callers that give up set a deadline and wait for what they read or write to end, so
// a deadline that has passed closes it; and reads and writes end with that, also where
// those below go on, as in a tunnel that waits for the other side to agree.
type deadlineless struct {
	net.Conn
	closed chan struct{}
	once   sync.Once

	reading sync.Mutex
	pending chan reading // of a read that is under way; nil: none is
	rest    bytes.Buffer // was read, and not taken yet

	mu       sync.Mutex
	deadline int    // counts those that were set
	stop     func() // of the last; nil: none was set
}

// reading is the end of one read.
type reading struct {
	data []byte
	err  error
}

// chunk is how much is read at once.
const chunk = 16 << 10

func endDeadlines(conn net.Conn) *deadlineless {
	return &deadlineless{Conn: conn, closed: make(chan struct{})}
}

// Read implements net.Conn.
func (c *deadlineless) Read(into []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.rest.Len() > 0 {
		return c.rest.Read(into)
	}
	if c.pending == nil {
		pending := make(chan reading, 1)
		c.pending = pending
		go func() {
			data := make([]byte, chunk)
			n, err := c.Conn.Read(data)
			pending <- reading{data[:n], err}
		}()
	}
	select {
	case r := <-c.pending:
		c.pending = nil
		n := copy(into, r.data)
		c.rest.Write(r.data[n:])
		return n, r.err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// Write implements net.Conn.
func (c *deadlineless) Write(data []byte) (int, error) {
	type writing struct {
		n   int
		err error
	}
	written := make(chan writing, 1)
	own := bytes.Clone(data) // the caller may be gone before it is written
	go func() {
		n, err := c.Conn.Write(own)
		written <- writing{n, err}
	}()
	select {
	case w := <-written:
		return w.n, w.err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// SetDeadline implements net.Conn.
func (c *deadlineless) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
	c.deadline++
	if !at.IsZero() {
		number, now := c.deadline, clock.System{}.Now()
		c.stop = clock.System{}.After(at.Sub(now), func() { c.passed(number) })
	}
	return nil
}

// passed closes the connection, unless its deadline was moved meanwhile.
func (c *deadlineless) passed(number int) {
	c.mu.Lock()
	moved := number != c.deadline
	c.mu.Unlock()
	if !moved {
		_ = c.Close()
	}
}

// SetReadDeadline implements net.Conn.
func (c *deadlineless) SetReadDeadline(at time.Time) error { return c.SetDeadline(at) }

// SetWriteDeadline implements net.Conn.
func (c *deadlineless) SetWriteDeadline(at time.Time) error { return c.SetDeadline(at) }

// Close implements net.Conn. It does not wait for the other side.
func (c *deadlineless) Close() error {
	c.once.Do(func() {
		close(c.closed)
		go func() { _ = c.Conn.Close() }()
	})
	return nil
}
