//go:build unix

package testbed

import (
	"syscall"
	"time"
)

// OwnCPU returns what this process has used; 0: it is not known.
func OwnCPU() time.Duration {
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err != nil {
		return 0
	}
	return time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
}
