//go:build !unix

package testbed

import "time"

// OwnCPU is not known here.
func OwnCPU() time.Duration { return 0 }
