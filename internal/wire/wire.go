// Package wire prepares connections to PostgreSQL so that they notice soon what
// is gone: a server that vanished without a word, and a primary that is none.
package wire

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// ConnectTimeout is how long connecting may take where the address says
	// nothing about it (connect_timeout).
	ConnectTimeout = 5 * time.Second
	// unacknowledged is how long the network may keep what was sent to itself.
	unacknowledged = 10 * time.Second
)

// Prepare changes how config connects. Connecting ends in time. A server that is only read
// from is refused, and one that was the primary before, by what lineage knows, and the next
// address of config is tried: after a failover some name may lead to a standby, whose
// answers are old. A server that vanishes is noticed within ten seconds, also while nothing
// is sent. The dialer and the checks of config stay.
func Prepare(config *pgx.ConnConfig, lineage *Lineage) {
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = ConnectTimeout
	}
	lineage.writable(config)
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			watch(conn)
		}
		return conn, err
	}
}

// watch sets what the kernel may do; a connection of another kind stays as it
// is.
func watch(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	// An error means that the connection is gone, which its user will find out.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 2})
	_ = limitUnacknowledged(tcp, unacknowledged)
}

// probes is how many of a limit's parts the kernel's questions are apart.
const probes = 4

// Borrow has the kernel end a connection that is somebody else's, also under TLS,
// when the other side has vanished without a word for about so long, or has taken
// nothing for so long of what was sent. The returned function sets that back to
// what it was, except that keepalives are then those of package net. A connection
// of another kind stays as it is.
func Borrow(conn net.Conn, limit time.Duration) (giveBack func()) {
	if wrapped, ok := conn.(*tls.Conn); ok {
		conn = wrapped.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok || limit <= 0 {
		return func() {}
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: limit / probes, Interval: limit / probes, Count: probes - 1})
	before := limitUnacknowledged(tcp, limit)
	return func() {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true})
		_ = limitUnacknowledged(tcp, before)
	}
}
