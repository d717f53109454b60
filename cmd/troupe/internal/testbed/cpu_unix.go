//go:build unix

package bench

import (
	"syscall"
	"time"
)

// ownCPU returns what this process has used.
func ownCPU() time.Duration {
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err != nil {
		return 0
	}
	return time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
}
