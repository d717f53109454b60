package wire

import (
	"crypto/tls"
	"net"
	"time"
)

// containedConn is a connection of the embedder's own making, as a tunnel or one that
// counts bytes: where it panics it is an error of that connection.
type containedConn struct{ net.Conn }

// containConn returns conn, contained unless it is of the standard library.
func containConn(conn net.Conn) net.Conn {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn, *tls.Conn, *deadlineless, *containedConn:
		return conn
	}
	return &containedConn{conn}
}

// NetConn returns what DialFunc returned, as that of tls.Conn does.
func (c *containedConn) NetConn() net.Conn { return c.Conn }

// LocalAddr implements net.Conn.
func (c *containedConn) LocalAddr() net.Addr { return address(c.Conn.LocalAddr) }

// RemoteAddr implements net.Conn.
func (c *containedConn) RemoteAddr() net.Addr { return address(c.Conn.RemoteAddr) }

// address is what tell says, or an empty one.
func address(tell func() net.Addr) (told net.Addr) {
	defer func() {
		if recover() != nil || told == nil {
			told = &net.TCPAddr{}
		}
	}()
	return tell()
}

// Read implements net.Conn.
func (c *containedConn) Read(into []byte) (n int, err error) {
	defer contain("the connection of DialFunc", &err)
	return c.Conn.Read(into)
}

// Write implements net.Conn.
func (c *containedConn) Write(data []byte) (n int, err error) {
	defer contain("the connection of DialFunc", &err)
	return c.Conn.Write(data)
}

// Close implements net.Conn.
func (c *containedConn) Close() (err error) {
	defer contain("the connection of DialFunc", &err)
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *containedConn) SetDeadline(at time.Time) (err error) {
	defer contain("the connection of DialFunc", &err)
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline implements net.Conn.
func (c *containedConn) SetReadDeadline(at time.Time) (err error) {
	defer contain("the connection of DialFunc", &err)
	return c.Conn.SetReadDeadline(at)
}

// SetWriteDeadline implements net.Conn.
func (c *containedConn) SetWriteDeadline(at time.Time) (err error) {
	defer contain("the connection of DialFunc", &err)
	return c.Conn.SetWriteDeadline(at)
}
