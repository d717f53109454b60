package demo

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
)

func sampleSnapshot() snapshot {
	return snapshot{
		elapsed: 3400 * time.Millisecond, slots: 4, done: 61, total: 125, rate: 58.4, sleeping: 20,
		tenants: []tenantLine{{"cmd", 100, 30, 0, 900, 405}, {"net", 20, 11, 1, 180, 99}, {"others", 5, 5, 0, 45, 45}},
		pods:    []podLine{{"pod-1", 3, 0}, {"pod-2", 0, 2 * time.Second}, {"pod-3", 4, 0}},
	}
}

func TestLinesOfASnapshot(t *testing.T) {
	t.Parallel()
	got := strings.Join(sampleSnapshot().lines(80, ink{}), "\n")
	require.Equal(t, `
  tenant  steps that have ended                            runs
  cmd     ███████████████████▊························   30/100
  net     ████████████████████████▏···················   11/ 20
  others  ████████████████████████████████████████████    5/  5

  pods    pod-1 ●●●○   pod-2 killed 2 s ago   pod-3 ●●●●
  runs    61 of 125 · 58/s · 20 asleep · 3.4 s
`, got)

	after := sampleSnapshot()
	after.lost, after.regained = 4, 2
	require.Contains(t, strings.Join(after.lines(80, ink{}), "\n"), "20 asleep · 4 lost · 2 recovered · 3.4 s")
	require.Equal(t,
		"  3.4 s  61 of 125 runs, 58/s, 20 asleep, pod-1 executes 3, pod-2 dead, pod-3 executes 4, 4 lost, 2 recovered",
		after.line())
}

// No line may be wider than the terminal: in-place drawing counts lines.
func TestLinesFitTheTerminal(t *testing.T) {
	t.Parallel()
	s := sampleSnapshot()
	s.lost, s.regained = 4, 2
	escapes := regexp.MustCompile(`\x1b\[[0-9]*m`)
	for columns := columnsMin; columns < 200; columns++ {
		s.slots = columns % 12
		for _, line := range s.lines(columns, ink{colored: true}) {
			plain := escapes.ReplaceAllString(line, "")
			require.LessOrEqual(t, len([]rune(plain)), columns, plain)
		}
	}
}

func TestWithoutATerminalALineEveryTwoSeconds(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisplay(&out)
	s := sampleSnapshot()
	for tenths := range 50 {
		s.elapsed = time.Duration(tenths) * 100 * time.Millisecond
		d.show(s)
	}
	d.say("pod-2 is gone")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 4)
	require.True(t, strings.HasPrefix(lines[1], "  2.0 s"), lines[1])
	require.NotContains(t, out.String(), "\x1b")
}

func TestOnATerminalTheDrawingIsReplaced(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := &display{out: &out, size: func() (int, int) { return 80, 24 }}
	d.show(sampleSnapshot())
	first := strings.Count(out.String(), "\n")
	out.Reset()
	d.show(sampleSnapshot())
	require.Contains(t, out.String(), "\x1b["+grouped(first)+"F")
	d.clear()
	require.True(t, strings.HasSuffix(out.String(), "\x1b[?25h"), "the cursor is back")
}

func TestTenantLines(t *testing.T) {
	t.Parallel()
	lines := tenantLines([]census.Package{{Tenant: "b"}, {Tenant: "c"}, {Tenant: "a"}, {Tenant: "c"}})
	require.Equal(t, []tenantLine{{name: "c", total: 2}, {name: "a", total: 1}, {name: "b", total: 1}}, lines)
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	require.Zero(t, quantity(nil).at(0.5))
	q := quantity{4, 1, 3, 2}
	require.Equal(t, 2*time.Second, q.at(0.5))
	require.Equal(t, 4*time.Second, q.at(0.99))
	require.Equal(t, time.Second, q.at(0))
	for d, want := range map[time.Duration]string{
		1234 * time.Microsecond: "1.2 ms", 250 * time.Millisecond: "250 ms", 3456 * time.Millisecond: "3.46 s", 61 * time.Second: "61.0 s",
	} {
		require.Equal(t, want, duration(d))
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, grouped(n))
	}
}
