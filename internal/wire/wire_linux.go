package wire

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h.
const tcpUserTimeout = 18

// limitUnacknowledged ends the connection when the peer has not acknowledged data for that
// long. The default is a quarter of an hour of retransmission. It returns the limit before;
// 0 is none.
func limitUnacknowledged(conn *net.TCPConn, limit time.Duration) (before time.Duration) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // without it the connection is noticed later
		was, _ := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
		before = time.Duration(was) * time.Millisecond
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(limit.Milliseconds()))
	})
	return before
}
