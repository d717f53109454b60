package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	envBoard  = "TROUPE_CHAOS_BOARD"  // table or json: what is printed in the end
	envFaults = "TROUPE_CHAOS_FAULTS" // rows to test, separated by commas; "": all
	envKeep   = "TROUPE_CHAOS_KEEP"   // folder in which failing rows leave their logs
	envReport = "TROUPE_CHAOS_REPORT" // file of the lines so far
	envCommit = "TROUPE_CHAOS_COMMIT" // of what is tested
	envDocs   = "TROUPE_CHAOS_DOCS"   // set: the pages of docs get the board, if no row speaks against it
)

// Verdicts of a line.
const (
	verdictMet         = "met"
	verdictFailed      = "FAILED"
	verdictNotInjected = "not injected"
	verdictNotRun      = "did not run"
)

// board is what `make chaos` prints.
type board struct {
	head
	lines []line
}

// head says of what, when and where.
type head struct {
	Commit   string  `json:"commit"`
	Date     string  `json:"date"` // of the end, UTC
	Cores    int     `json:"cores"`
	Postgres string  `json:"postgres"` // the server's version
	Seconds  float64 `json:"seconds"`  // from the beginning to the end
}

// line is one line of the board, as JSON prints it.
type line struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Test    string    `json:"test,omitempty"`
	Fault   string    `json:"fault,omitempty"`
	Must    string    `json:"must,omitempty"`
	Figures []reading `json:"figures,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
	Verdict string    `json:"verdict"`
	Why     string    `json:"why,omitempty"`
	Logs    string    `json:"logs,omitempty"`
	Seconds float64   `json:"seconds,omitempty"`

	Postgres string `json:"postgres,omitempty"` // the server's version
}

// reading is a figure of a row and what was measured.
type reading struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit,omitempty"`
	Allowed  string   `json:"allowed"`
	Least    *float64 `json:"least,omitempty"` // nil: there is none
	Most     *float64 `json:"most,omitempty"`
	Measured *float64 `json:"measured,omitempty"` // nil: it was not
}

// String says what was measured.
func (r reading) String() string {
	if r.Measured == nil {
		return r.Name + " not measured"
	}
	return strings.TrimRight(fmt.Sprintf("%s %g %s", r.Name, *r.Measured, r.Unit), " ")
}

// line says how a trial ended.
func (tr *trial) line() line {
	test, _, _ := strings.Cut(tr.Name(), "/")
	l := line{
		ID: tr.row.ID, Name: tr.row.Name, Test: test, Fault: tr.row.Fault, Must: tr.row.Must, Notes: tr.notes,
		Verdict: verdictMet, Why: tr.refused, Seconds: float64(time.Since(tr.began).Milliseconds()) / 1000,
		Postgres: tr.server,
	}
	for _, f := range tr.row.Allowed {
		l.Figures = append(l.Figures, f.reading(tr.found))
	}
	switch {
	case tr.Failed():
		l.Verdict, l.Why = verdictFailed, tr.why
	case tr.refused != "":
		l.Verdict = verdictNotInjected
	}
	return l
}

// reading is the figure as the board shows it.
func (f figure) reading(found map[string]float64) reading {
	r := reading{Name: f.name, Unit: f.unit, Allowed: f.String()}
	if !math.IsInf(f.least, 0) {
		r.Least = &f.least
	}
	if !math.IsInf(f.most, 0) {
		r.Most = &f.most
	}
	if value, ok := found[f.name]; ok {
		r.Measured = &value
	}
	return r
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
	var allowed, measured []string
	for _, r := range l.Figures {
		allowed = append(allowed, r.Allowed)
		if r.Measured != nil {
			measured = append(measured, r.String())
		}
	}
	cells := []string{
		l.ID, strings.TrimSpace(l.Name + ": " + l.Fault), l.Must, strings.Join(allowed, "; "),
		strings.Join(slices.Concat(measured, l.Notes), "; "), "", verdict,
	}
	if l.Seconds > 0 {
		cells[5] = fmt.Sprintf("%.0f s", l.Seconds)
	}
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimPrefix(cells[i], ":"), "|", "/")
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

const tableHead = "| row | fault | must hold | allowed | measured | took | verdict |\n|---|---|---|---|---|---|---|"

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

// failed tells whether a line speaks against the engine or the harness.
func (l line) failed() bool { return l.Verdict == verdictFailed || l.Verdict == verdictNotRun }

// readLines returns the lines of a report; there is none if no row has ended.
func readLines(path string) ([]line, error) {
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

// print prints the board for people, or as lines of JSON of which the first is
// its head.
func (b board) print(w io.Writer, form string) error {
	if form != "json" {
		_, err := io.WriteString(w, b.String())
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(b.head); err != nil {
		return err
	}
	for _, l := range b.lines {
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// String is the head, the table, and how many lines there are of each verdict.
func (b board) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v\n\n%s\n", b.head, tableHead)
	counts := map[string]int{}
	for _, l := range b.lines {
		text.WriteString(l.String() + "\n")
		counts[l.Verdict]++
	}
	var sums []string
	for _, verdict := range []string{verdictMet, verdictFailed, verdictNotInjected, verdictNotRun} {
		sums = append(sums, strconv.Itoa(counts[verdict])+" "+verdict)
	}
	text.WriteString("\n" + strings.Join(sums, ", ") + "\n")
	return text.String()
}

// String implements fmt.Stringer.
func (h head) String() string {
	return fmt.Sprintf("Commit %s, %s, %d cores, PostgreSQL %s, %.0f minutes.", h.Commit, h.Date, h.Cores, h.Postgres, h.Seconds/60)
}

// scoreboard is every fault that `make chaos` answers for.
func scoreboard() []string {
	return strings.Fields(`F01 F02 F03 F04 F06 F07 F08 F09 F11 F12 F13 F15 F16 F17 F18 F19 F20 F21 F23 F25 F28 F29
		F30 F32 F33 F34 F35 F36 F37 F40 F41 F42 F44 F46 F47 F48`)
}
