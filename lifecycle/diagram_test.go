package lifecycle

//go:generate go test -run ^TestDiagrams$ -update

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite diagrams and the expected output of scripts")

const diagrams = "../docs/diagrams"

// TestDiagrams draws the tables. After a wanted change run
// go test ./lifecycle -update and read the difference.
func TestDiagrams(t *testing.T) {
	t.Parallel()
	sameFile(t, filepath.Join(diagrams, "task.mmd"), drawTable(taskTable[:]))
	sameFile(t, filepath.Join(diagrams, "run.mmd"), drawTable(runTable[:]))
	sameFile(t, filepath.Join(diagrams, "lease.mmd"), drawLease())
	sameFile(t, filepath.Join(diagrams, "transitions.txt"),
		report("task", taskTable[:])+"\n"+report("run", runTable[:]))
}

func sameFile(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "%s is out of date: run go test ./lifecycle -update", path)
}

const drawn = "%% Drawn from the tables of package lifecycle by its tests. Do not edit.\nstateDiagram-v2\n"

func drawTable(table []transition) string {
	var b strings.Builder
	b.WriteString(drawn)
	fmt.Fprintf(&b, "    [*] --> %v\n", Pending)
	ends := map[State]bool{}
	for _, line := range table {
		fmt.Fprintf(&b, "    %v --> %v: %s\n", line.from, line.to, line.when)
		ends[line.to] = line.to.Terminal()
	}
	for _, s := range States() {
		if ends[s] {
			fmt.Fprintf(&b, "    %v --> [*]\n", s)
		}
	}
	return b.String()
}

func drawLease() string {
	var b strings.Builder
	b.WriteString(drawn)
	fmt.Fprintf(&b, "    [*] --> %v\n", LeaseLive)
	for _, line := range leaseTable {
		fmt.Fprintf(&b, "    %v --> %v: %s\n", line.from, line.to, line.when)
	}
	fmt.Fprintf(&b, "    %v --> [*]\n", LeaseDead)
	return b.String()
}

// report lists, for each state, the pairs that may happen and those that may
// not, so that a change of a table is read as a change of text.
func report(what string, table []transition) string {
	var b strings.Builder
	for _, from := range States() {
		var missing []string
		fmt.Fprintf(&b, "%s %v\n", what, from)
		for _, to := range States() {
			when := ""
			for _, line := range table {
				if line.from == from && line.to == to {
					when = line.when
				}
			}
			if when == "" {
				missing = append(missing, to.String())
				continue
			}
			fmt.Fprintf(&b, "  -> %-9v  %s\n", to, when)
		}
		fmt.Fprintf(&b, "  never      %s\n", strings.Join(missing, " "))
	}
	return b.String()
}
