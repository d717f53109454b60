package chaos

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// TestMain lets the test binary be a pod.
func TestMain(m *testing.M) {
	if os.Getenv(podVariable) != "" {
		os.Exit(servePod())
	}
	pgtest.Main(m)
}

const (
	envFull   = "TROUPE_CHAOS"        // full: as long as `make chaos` wants it
	envReport = "TROUPE_CHAOS_REPORT" // file that measured rows are added to
)

// spell is how long load goes on under a fault, or how often the fault comes.
func spell[T time.Duration | int](usual, full T) T {
	if os.Getenv(envFull) == "full" {
		return full
	}
	return usual
}

// measured adds a row to the report: rows of the scoreboard, the fault, and
// what came of it.
func measured(t *testing.T, rows, fault, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf("| %s | %s | %s |", rows, fault, fmt.Sprintf(format, args...))
	t.Log(line)
	path := os.Getenv(envReport)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // the line is written
	if _, err := fmt.Fprintln(file, line); err != nil {
		t.Fatal(err)
	}
}

// unlessShort skips a test that takes seconds.
func unlessShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: pods are killed, and leases must end")
	}
}
