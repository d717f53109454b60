package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

const (
	envFull   = "TROUPE_CHAOS"        // full: as long as `make chaos` wants it
	envBoard  = "TROUPE_CHAOS_BOARD"  // table or json: what is printed in the end
	envFaults = "TROUPE_CHAOS_FAULTS" // rows to test, separated by commas; "": all
	envKeep   = "TROUPE_CHAOS_KEEP"   // folder in which failing rows leave their logs
	envReport = "TROUPE_CHAOS_REPORT" // file of the lines so far
)

// Verdicts of a line.
const (
	verdictMet         = "met"
	verdictFailed      = "FAILED"
	verdictNotInjected = "not injected"
	verdictNotRun      = "did not run"
)

// line is one line of the board, as JSON prints it.
type line struct {
	ID       string             `json:"id"`
	Name     string             `json:"name,omitempty"`
	Fault    string             `json:"fault,omitempty"`
	Must     string             `json:"must,omitempty"`
	Allowed  []string           `json:"allowed,omitempty"`
	Measured map[string]float64 `json:"measured,omitempty"`
	Figures  []string           `json:"figures,omitempty"` // the same, to be read
	Notes    []string           `json:"notes,omitempty"`
	Verdict  string             `json:"verdict"`
	Why      string             `json:"why,omitempty"`
	Logs     string             `json:"logs,omitempty"`
	Seconds  float64            `json:"seconds,omitempty"`
}

// line says how a trial ended.
func (tr *trial) line() line {
	l := line{
		ID: tr.row.ID, Name: tr.row.Name, Fault: tr.row.Fault, Must: tr.row.Must, Measured: tr.found, Notes: tr.notes,
		Verdict: verdictMet, Why: tr.refused, Seconds: float64(time.Since(tr.began).Milliseconds()) / 1000,
	}
	for _, f := range tr.row.Allowed {
		l.Allowed = append(l.Allowed, f.String())
		if value, ok := tr.found[f.name]; ok {
			l.Figures = append(l.Figures, strings.TrimRight(fmt.Sprintf("%s %g %s", f.name, value, f.unit), " "))
		}
	}
	switch {
	case tr.Failed():
		l.Verdict, l.Why = verdictFailed, tr.why
	case tr.refused != "":
		l.Verdict = verdictNotInjected
	}
	return l
}

// String is the line of the table.
func (l line) String() string {
	verdict := l.Verdict
	if l.Why != "" {
		verdict += ": " + l.Why
	}
	if l.Logs != "" {
		verdict += " (logs: " + l.Logs + ")"
	}
	cells := []string{
		l.ID, strings.TrimSpace(l.Name + ": " + l.Fault), l.Must, strings.Join(l.Allowed, "; "),
		strings.Join(slices.Concat(l.Figures, l.Notes), "; "), verdict,
	}
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimPrefix(cells[i], ":"), "|", "/")
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

const boardHead = "| row | fault | must hold | allowed | measured | verdict |\n|---|---|---|---|---|---|"

// write adds the line to the report, if there is one.
func (l line) write() error {
	path := os.Getenv(envReport)
	if path == "" {
		return nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

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
		pgtest.Main(m)
	}
	code := pgtest.Run(m)
	lines, err := readBoard(os.Getenv(envReport))
	if err == nil {
		lines = complete(lines)
		err = printBoard(os.NewFile(boardFile, "board"), form, lines)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "print the board:", err)
		code = 1
	}
	if slices.ContainsFunc(lines, line.failed) {
		code = 1
	}
	os.Exit(code)
}

// failed tells whether a line speaks against the engine or the harness.
func (l line) failed() bool { return l.Verdict == verdictFailed || l.Verdict == verdictNotRun }

// readBoard returns the lines of a report; there is none if no row has ended.
func readBoard(path string) ([]line, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read from
	var lines []line
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, scanner.Err()
}

// complete adds a line for every row of the scoreboard that was wanted and of
// which no test speaks, and puts all in order.
func complete(lines []line) []line {
	for _, id := range scoreboard() {
		known := func(l line) bool { return slices.Contains(strings.Fields(l.ID), id) }
		if full() && chosen(id) && !slices.ContainsFunc(lines, known) {
			lines = append(lines, line{ID: id, Verdict: verdictNotRun, Why: "no test of it has ended"})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		if order := strings.Compare(a.ID, b.ID); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return lines
}

// printBoard prints lines, and how many there are of each verdict.
func printBoard(w io.Writer, form string, lines []line) error {
	if form == "json" {
		encoder := json.NewEncoder(w)
		for _, l := range lines {
			if err := encoder.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	var text strings.Builder
	text.WriteString(boardHead + "\n")
	counts := map[string]int{}
	for _, l := range lines {
		text.WriteString(l.String() + "\n")
		counts[l.Verdict]++
	}
	var sums []string
	for _, verdict := range []string{verdictMet, verdictFailed, verdictNotInjected, verdictNotRun} {
		sums = append(sums, strconv.Itoa(counts[verdict])+" "+verdict)
	}
	text.WriteString("\n" + strings.Join(sums, ", ") + "\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// scoreboard is every fault that `make chaos` answers for. Rows that are missing
// here are answered by another command: `make soak` for F48.
func scoreboard() []string {
	return strings.Fields(`F01 F02 F03 F04 F06 F07 F08 F09 F11 F12 F13 F15 F16 F17 F18 F19 F20 F21 F23 F25 F28 F29
		F30 F32 F33 F34 F35 F36 F37 F40 F41 F42 F44 F46 F47`)
}
