package chaos

import (
	"testing"
	"time"
)

// spell is how long load goes on under a fault, or how often the fault comes.
func spell[T time.Duration | int](usual, long T) T {
	if full() {
		return long
	}
	return usual
}

// unlessShort skips a test that takes seconds.
func unlessShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: pods are killed, and leases must end")
	}
}
