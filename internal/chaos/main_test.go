package chaos

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// boardFile is where the board is printed: package testing has standard output
// for itself.
const boardFile = 3

// TestMain lets the test binary be a pod, and prints the board where one is
// wanted.
func TestMain(m *testing.M) {
	if os.Getenv(podVariable) != "" {
		os.Exit(servePod())
	}
	form := os.Getenv(envBoard)
	if form == "" {
		os.Exit(withReport(m))
	}
	began := time.Now()
	code := pgtest.Run(m)
	os.Exit(max(code, showBoard(form, time.Since(began))))
}

// withReport runs the tests, says how long the rows took, and returns the exit
// code.
func withReport(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chaos-report-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // of the system's temporary folder
	report := filepath.Join(dir, "report")
	if err := os.Setenv(envReport, report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	began := time.Now()
	code := pgtest.Run(m)
	if lines, err := readLines(report); err == nil && len(lines) > 0 {
		together := 0.0
		for _, l := range lines {
			together += l.Seconds
		}
		fmt.Fprintf(os.Stderr, "%d rows took %.0f s together, %.0f s by the clock\n", len(lines), together, time.Since(began).Seconds())
	}
	return code
}

// showBoard prints the board, writes the pages that are made of it if that is
// wanted, and returns the exit code.
func showBoard(form string, took time.Duration) int {
	lines, err := readLines(os.Getenv(envReport))
	b := board{head{
		Commit: cmp.Or(os.Getenv(envCommit), "unknown"), Date: time.Now().UTC().Format(time.DateOnly), Cores: runtime.NumCPU(),
		Postgres: "none", Seconds: math.Round(took.Seconds()),
	}, complete(lines)}
	if i := slices.IndexFunc(lines, func(l line) bool { return l.Postgres != "" }); i >= 0 {
		b.Postgres = lines[i].Postgres
	}
	spoilt := slices.ContainsFunc(b.lines, line.failed)
	if err == nil {
		err = b.print(os.NewFile(boardFile, "board"), form)
	}
	if err == nil && !spoilt && os.Getenv(envDocs) != "" {
		err = b.publish(docs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "show the board:", err)
	}
	if spoilt || err != nil {
		return 1
	}
	return 0
}

// spell is how long load lasts under a fault, or how often the fault comes.
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
