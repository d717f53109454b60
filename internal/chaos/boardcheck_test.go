package chaos

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A board with a failing row, one that could not be injected and one that is
// missing tells them apart in both forms.
func TestBoardTellsVerdictsApart(t *testing.T) {
	t.Setenv(envReport, filepath.Join(t.TempDir(), "report"))
	t.Setenv(pgtest.EnvFull, "1")
	t.Setenv(envFaults, "F01,F07 F09,F37")
	written := []line{
		{ID: "F07 F08", Name: "b", Fault: "frozen", Verdict: verdictFailed, Why: "x | y", Logs: "some/where"},
		{ID: "F37", Name: "c", Fault: "full disk", Verdict: verdictNotInjected, Why: "no root"},
		{ID: "F01", Name: "a", Fault: "killed", Figures: []reading{atMost("n", 1, "").reading(map[string]float64{"n": 1})}, Verdict: verdictMet, Seconds: 7.4},
	}
	for _, l := range written {
		require.NoError(t, l.write())
	}
	lines, err := readLines(filepath.Join(filepath.Dir(t.TempDir()), "none"))
	require.NoError(t, err)
	require.Empty(t, lines)
	lines = slices.Clone(written)
	lines = complete(lines)
	require.Len(t, lines, 4)
	require.Equal(t, line{ID: "F09", Verdict: verdictNotRun, Why: "no test of it has ended"}, lines[2])
	require.True(t, lines[1].failed())
	require.True(t, lines[2].failed())
	require.False(t, lines[3].failed())

	var table, stream bytes.Buffer
	b := board{head{"abc-dirty", "2026-01-02", 2, "15.1", 600}, lines}
	require.NoError(t, b.print(&table, "table"))
	require.Contains(t, table.String(), "Commit abc-dirty, 2026-01-02, 2 cores, PostgreSQL 15.1, 10 minutes.\n")
	require.Contains(t, table.String(), "| F01 | a: killed |  | n ≤ 1 | n 1 | 7 s | met |")
	require.Contains(t, table.String(), "FAILED: x / y (logs: some/where) |")
	require.Contains(t, table.String(), "1 met, 1 FAILED, 1 not injected, 1 did not run")
	require.NoError(t, b.print(&stream, "json"))
	read, err := parseBoard(stream.Bytes())
	require.NoError(t, err)
	require.Equal(t, b, read)
}

func TestFiguresSayWhatTheyAllow(t *testing.T) {
	t.Setenv(pgtest.EnvFull, "1")
	late := within("late", 1500*time.Millisecond)
	require.Equal(t, "late ≤ 1500 ms", late.String())
	require.True(t, late.allows(1500))
	require.False(t, late.allows(1501))
	require.Equal(t, "recovered ≥ 95 %", atLeast("recovered", 95, "%").String())
	require.False(t, atLeast("recovered", 95, "%").allows(94.9))
	require.Equal(t, "lost 0", none("lost").String())
	require.False(t, none("lost").allows(1))
	require.Equal(t, "rate ≤ 1.5", atMost("rate", 1.5, "").String())
	t.Setenv(pgtest.EnvFull, "")
	require.True(t, late.allows(3_600_000), "a plain go test shares its cores: it judges no time")
	require.False(t, atLeast("recovered", 95, "%").allows(94), "what is divided is no limit any more")
	require.True(t, atLeast("recovered", 95, "%").inGoTest(50).allows(50))
	require.False(t, atLeast("recovered", 95, "%").inGoTest(50).allows(49))
	require.False(t, none("lost").allows(1), "and loses nothing for it")
}

func TestFaultsChooseRows(t *testing.T) {
	t.Setenv(envFaults, "")
	require.True(t, chosen("F01"))
	t.Setenv(envFaults, "F07, F25")
	require.True(t, chosen("F07 F08"))
	require.True(t, chosen("F25"))
	require.False(t, chosen("F08"))
}

// A fault that cannot be injected is on the board as that, with the reason.
func TestNotInjectedIsNotMet(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	t.Setenv(envReport, report)
	t.Setenv(envBoard, "")
	t.Setenv(envFaults, "")
	t.Run("row", func(t *testing.T) {
		begin(t, row{ID: "F37", Name: "disk-full", Allowed: []figure{none("lost")}}).notInjected("no tmpfs")
	})
	lines, err := readLines(report)
	require.NoError(t, err)
	if testing.Short() {
		require.Empty(t, lines)
		return
	}
	require.Len(t, lines, 1)
	require.Equal(t, verdictNotInjected, lines[0].Verdict)
	require.Equal(t, "no tmpfs", lines[0].Why)
}
