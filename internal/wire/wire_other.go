//go:build !linux

package wire

import (
	"net"
	"time"
)

// limitUnacknowledged is left to the deadlines of calls where the kernel has no
// such limit.
func limitUnacknowledged(*net.TCPConn, time.Duration) time.Duration { return 0 }
