// Package wire prepares connections to PostgreSQL so that they detect a dead server, a
// standby, and a former primary.
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
	// unacknowledged is how long sent data may stay unacknowledged.
	unacknowledged = 10 * time.Second
)

// Prepare changes how config connects. Connecting has a timeout. A read-only server and, by
// lineage, a former primary are refused, and the next address of config is tried: after a
// failover a name may lead to a standby, whose answers are old. A server that vanishes is
// noticed within ten seconds, also on an idle connection. The dialer and the checks of config
// stay.
func Prepare(config *pgx.ConnConfig, lineage *Lineage) {
	lineage.writable(config)
	PrepareReads(config)
}

// PrepareReads is Prepare for connections that only read: any server will do, also a
// standby.
func PrepareReads(config *pgx.ConnConfig) {
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = ConnectTimeout
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			watch(conn)
		}
		return conn, err
	}
}

// watch sets keepalives and the limit of unacknowledged data; a connection that is not TCP
// stays as it is.
func watch(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	// An error means that the connection is gone, which its user will find out.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 2})
	_ = limitUnacknowledged(tcp, unacknowledged)
}

// probes is how many keepalive intervals a limit has.
const probes = 4

// Borrow sets kernel timeouts on a connection of the embedder's, also under TLS. The kernel
// ends the connection when the peer is silent for about limit, or has not acknowledged data
// for that long. giveBack restores the setting of unacknowledged data, and keepalives as
// package net sets them. A connection that is not TCP stays as it is.
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
