package chaos

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// row is one line of the scoreboard: a fault, and what must hold under it.
type row struct {
	ID       string // of the scoreboard, as F07; several are separated by spaces
	Name     string // of this line, without spaces; its logs are kept under it
	Fault    string // what is done
	Must     string // the promises that it tests, and what else must hold
	Allowed  []figure
	FullOnly bool // too long for `go test`: only in `make chaos`
}

// figure is one number of a row and what it may be.
type figure struct {
	name, unit  string
	least, most float64    // in `make chaos`
	shared      [2]float64 // the same in `go test`
}

func between(name string, least, most float64, unit string) figure {
	return figure{name: name, unit: unit, least: least, most: most, shared: [2]float64{least, most}}
}

func atMost(name string, most float64, unit string) figure {
	return between(name, math.Inf(-1), most, unit)
}

func atLeast(name string, least float64, unit string) figure {
	return between(name, least, math.Inf(1), unit)
}

func exactly(name string, n float64) figure { return between(name, n, n, "") }

func none(name string) figure { return exactly(name, 0) }

// within limits a time in `make chaos`. In `go test`, where other rows, packages and
// guests of the machine have the cores, too, it is only shown.
func within(name string, limit time.Duration) figure {
	return atMost(name, milliseconds(limit), "ms").inGoTest(math.Inf(1))
}

// inGoTest gives a figure that depends on how busy the machine is a limit of its
// own in `go test`.
func (f figure) inGoTest(limit float64) figure {
	if math.IsInf(f.most, 1) {
		f.shared[0] = limit
	} else {
		f.shared[1] = limit
	}
	return f
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds()) / 1000) }

// String says what is allowed.
func (f figure) String() string {
	unit := strings.TrimRight(" "+f.unit, " ")
	switch {
	case f.least == f.most:
		return fmt.Sprintf("%s %g%s", f.name, f.most, unit)
	case math.IsInf(f.least, -1):
		return fmt.Sprintf("%s ≤ %g%s", f.name, f.most, unit)
	}
	return fmt.Sprintf("%s ≥ %g%s", f.name, f.least, unit)
}

// allows tells whether a measured value is within the figure.
func (f figure) allows(value float64) bool {
	if full() {
		return value >= f.least && value <= f.most
	}
	return value >= f.shared[0] && value <= f.shared[1]
}

// trial is one row under test. It is a testing.TB that remembers why it failed.
type trial struct {
	*testing.T
	row     row
	dir     string // of everything that its pods write
	server  string // the version of PostgreSQL
	began   time.Time
	found   map[string]float64
	notes   []string
	judged  bool
	refused string // why the fault cannot be injected here
	why     string // the first failure
}

// begin starts the test of a row, or skips it. What it opens is judged, written
// to the board and cleared away when the test ends.
func begin(t *testing.T, r row) *trial {
	t.Helper()
	unlessShort(t)
	switch {
	case !chosen(r.ID):
		t.Skip("FAULTS names other rows")
	case r.FullOnly && !full():
		t.Skip("takes long: `make chaos` does it")
	}
	tr := &trial{T: t, row: r, began: time.Now(), found: map[string]float64{}}
	root := cmp.Or(os.Getenv(envKeep), os.TempDir())
	dir, err := os.MkdirTemp(root, "chaos-"+strings.ReplaceAll(r.ID, " ", "-")+"-"+r.Name+"-") //nolint:usetesting // it outlives a row that fails
	if err != nil {
		t.Fatal(err)
	}
	tr.dir = dir
	t.Cleanup(tr.finish)
	return tr
}

// full tells whether this is `make chaos`.
func full() bool { return pgtest.Full() }

// chosen tells whether FAULTS names a row, or none.
func chosen(ids string) bool {
	wanted := strings.FieldsFunc(os.Getenv(envFaults), func(r rune) bool { return r == ',' || r == ' ' })
	return len(wanted) == 0 || slices.ContainsFunc(strings.Fields(ids), func(id string) bool { return slices.Contains(wanted, id) })
}

// count enters a measured number under the name of its figure.
func (tr *trial) count(name string, n int) { tr.Helper(); tr.measure(name, float64(n)) }

// took enters a measured time.
func (tr *trial) took(name string, d time.Duration) { tr.Helper(); tr.measure(name, milliseconds(d)) }

// measure enters a measured value. One that the figure does not allow fails the
// row, and the test continues: the other figures help to explain it.
func (tr *trial) measure(name string, value float64) {
	tr.Helper()
	i := slices.IndexFunc(tr.row.Allowed, func(f figure) bool { return f.name == name })
	if i < 0 {
		tr.Fatalf("the row %s has no figure %q", tr.row.Name, name)
	}
	tr.found[name] = value
	if f := tr.row.Allowed[i]; !f.allows(value) {
		tr.Errorf("%s: measured %g %s", f, value, f.unit)
	}
}

// note adds something worth reading to the line.
func (tr *trial) note(format string, args ...any) {
	tr.notes = append(tr.notes, fmt.Sprintf(format, args...))
}

// notInjected ends the test of a fault that this machine cannot inject.
func (tr *trial) notInjected(format string, args ...any) {
	tr.Helper()
	tr.refused = fmt.Sprintf(format, args...)
	tr.Skip("not injected: " + tr.refused)
}

// Errorf implements testing.TB and keeps the first reason.
func (tr *trial) Errorf(format string, args ...any) {
	tr.Helper()
	tr.remember(fmt.Sprintf(format, args...))
	tr.T.Errorf(format, args...)
}

// Fatalf implements testing.TB and keeps the first reason.
func (tr *trial) Fatalf(format string, args ...any) {
	tr.Helper()
	tr.remember(fmt.Sprintf(format, args...))
	tr.T.Fatalf(format, args...)
}

// Fatal implements testing.TB and keeps the first reason.
func (tr *trial) Fatal(args ...any) {
	tr.Helper()
	tr.remember(fmt.Sprint(args...))
	tr.T.Fatal(args...)
}

func (tr *trial) remember(why string) {
	const whyMax = 300
	if tr.why == "" {
		why = strings.Join(strings.Fields(why), " ")
		tr.why = why[:min(len(why), whyMax)]
	}
}

// finish writes the line of the board, after everything else of the test has
// been cleared away. A row that was not judged, or lacks a figure, has failed.
func (tr *trial) finish() {
	if tr.Skipped() && tr.refused == "" {
		_ = os.RemoveAll(tr.dir) // it is empty: there is no PostgreSQL here
		return
	}
	if tr.refused == "" && !tr.Failed() {
		if !tr.judged {
			tr.Errorf("the row ended without a judgement")
		}
		for _, f := range tr.row.Allowed {
			if _, ok := tr.found[f.name]; !ok {
				tr.Errorf("not measured: %s", f.name)
			}
		}
	}
	l := tr.line()
	if tr.Failed() {
		l.Logs = tr.dir
		tr.Logf("logs, ledgers and history: %s", tr.dir)
	} else if err := os.RemoveAll(tr.dir); err != nil {
		tr.Errorf("clear away %s: %v", filepath.Base(tr.dir), err)
	}
	if os.Getenv(envBoard) != "" { // it may be minutes away: show progress
		fmt.Fprintf(os.Stderr, "%-8s %-28s %s (%.0f s)\n", l.ID, l.Name, l.Verdict, l.Seconds)
	}
	if err := l.write(); err != nil {
		tr.Errorf("write the board: %v", err)
	}
}
