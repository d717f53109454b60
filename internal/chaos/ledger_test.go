package chaos

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ledger is one process's file of what happened in it, outside of PostgreSQL.
// Each line is handed to the kernel in one write and survives SIGKILL.
type ledger struct{ file *os.File }

func openLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{file}, nil
}

// note adds a line: what happened, to which run, and where or how.
func (l *ledger) note(what, run, detail string) {
	line := what + "\t" + run + "\t" + strings.NewReplacer("\t", " ", "\n", " ").Replace(detail) + "\n"
	if _, err := l.file.WriteString(line); err != nil {
		panic(fmt.Sprintf("write the ledger: %v", err))
	}
}

// entry is one line of a ledger.
type entry struct{ ledger, what, run, detail string }

// readLedgers returns the lines of all ledgers in a folder, each file's in
// order.
func readLedgers(t testing.TB, dir string) []entry {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.ledger"))
	require.NoError(t, err)
	var entries []entry
	for _, path := range paths {
		entries = append(entries, readLedger(t, path)...)
	}
	return entries
}

func readLedger(t testing.TB, path string) []entry {
	t.Helper()
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil // the pod has not come so far
	}
	require.NoError(t, err)
	defer func() { _ = file.Close() }() // only read from
	var entries []entry
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), "\t", 3)
		require.Len(t, words, 3, "%s: %q", path, lines.Text())
		entries = append(entries, entry{filepath.Base(path), words[0], words[1], words[2]})
	}
	require.NoError(t, lines.Err())
	return entries
}

// count returns how many lines say something.
func count(entries []entry, what string) int {
	n := 0
	for _, e := range entries {
		if e.what == what {
			n++
		}
	}
	return n
}
