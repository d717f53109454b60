package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

var update = flag.Bool("update", false, "rewrite what docs has of the board")

// What docs has of the board: the board as JSON, which `make chaos-board` writes,
// and two pages that are made of it.
const (
	docs      = "../../docs"
	keptBoard = "reliability-board.json"
	boardPage = "reliability-board.md"
	rowsPage  = "reliability.md" // its cells of what was measured
)

const boardPreface = `# The board

Made by ` + "`make chaos-board`" + `: all rows one after the other; pods, callers and PostgreSQL share the cores. [Reliability](reliability.md) says what each row promises, by what mechanism, and which test it is.

`

// publish keeps the board, and makes the pages of it.
func (b board) publish(dir string) error {
	var kept bytes.Buffer
	if err := b.print(&kept, "json"); err != nil {
		return err
	}
	pages, err := b.pages(dir)
	if err != nil {
		return err
	}
	pages[keptBoard] = kept.String()
	for name, text := range pages {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return err
}

// pages returns the pages as the board has them.
func (b board) pages(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, rowsPage))
	if err != nil {
		return nil, err
	}
	return map[string]string{boardPage: boardPreface + b.String(), rowsPage: b.fill(string(text))}, nil
}

// parseBoard reads a board that was printed as JSON.
func parseBoard(text []byte) (board, error) {
	var b board
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&b.head); err != nil {
		return b, err
	}
	for {
		var l line
		err := decoder.Decode(&l)
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		b.lines = append(b.lines, l)
	}
}

var (
	measuredRow = regexp.MustCompile(`(?m)^(\| [A-Z][A-Z0-9]+ \|(?:[^|\n]*\|){2}([^|\n]*)\|[^|\n]*\|)[^|\n]*\|$`)
	testName    = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

// fill puts into the last of the six cells of each row of a page what was measured
// by the tests that the row names.
func (b board) fill(page string) string {
	return measuredRow.ReplaceAllStringFunc(page, func(row string) string {
		parts := measuredRow.FindStringSubmatch(row)
		var of []line
		for _, name := range testName.FindAllStringSubmatch(parts[2], -1) {
			for _, l := range b.lines {
				if l.Test == name[1] {
					of = append(of, l)
				}
			}
		}
		return parts[1] + " " + worst(of) + " |"
	})
}

// worst says what some lines of the board have measured: of each figure the value
// that is nearest to what is not allowed.
func worst(lines []line) string {
	var found []reading
	refused := 0
	for _, l := range lines {
		if l.Verdict == verdictNotInjected {
			refused++
		}
		for _, r := range l.Figures {
			i := slices.IndexFunc(found, func(other reading) bool { return other.Name == r.Name })
			switch {
			case r.Measured == nil:
			case i < 0:
				found = append(found, r)
			case r.Most == nil && *r.Measured < *found[i].Measured, r.Most != nil && *r.Measured > *found[i].Measured:
				found[i] = r
			}
		}
	}
	texts := make([]string, 0, len(found))
	for _, r := range found {
		texts = append(texts, r.String())
	}
	text := strings.Join(texts, "; ")
	if len(lines)-refused > 1 {
		text = fmt.Sprintf("the worst of %d rows: %s", len(lines)-refused, text)
	}
	switch {
	case len(lines) == 0:
		return "–"
	case refused == len(lines):
		return verdictNotInjected
	case refused > 0:
		return fmt.Sprintf("%s; %d %s", text, refused, verdictNotInjected)
	}
	return text
}

// The pages say what the board says. -update makes them again.
func TestPagesOfTheBoardAreUpToDate(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(docs, keptBoard))
	require.NoError(t, err)
	b, err := parseBoard(text)
	require.NoError(t, err)
	if *update {
		require.NoError(t, b.publish(docs))
	}
	require.False(t, slices.ContainsFunc(b.lines, line.failed), "a board that something speaks against is not kept")
	pages, err := b.pages(docs)
	require.NoError(t, err)
	for name, want := range pages {
		found, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		if diff := cmp.Diff(want, string(found)); diff != "" {
			t.Errorf("docs/%s is not what the board says; go test ./internal/chaos -run UpToDate -update makes it again (-want +got):\n%s", name, diff)
		}
	}
	require.Contains(t, pages[rowsPage], "; re-executed beyond what it held 0 |", "cells are filled")
}

// Of several rows the page has the worst, whatever is better: more or less.
func TestPagesHaveTheWorst(t *testing.T) {
	t.Parallel()
	of := func(test string, late, kills float64) line {
		return line{Test: test, Verdict: verdictMet, Figures: []reading{
			atMost("late", 9, "ms").reading(map[string]float64{"late": late}),
			atLeast("kills", 1, "").reading(map[string]float64{"kills": kills}),
		}}
	}
	b := board{lines: []line{of("TestA", 3, 5), of("TestA", 5, 7), of("TestB", 9, 1), {Test: "TestC", Verdict: verdictNotInjected}}}
	const page = "| F01 | x | y | `TestA`, `other.TestB` | a | %s |\n| F02 | x | y | `TestB` and `TestC` | a | %s |\n| F03 | x | y | `TestC` | a | %s |\n| F04 | x | y | `TestD` | a | %s |\n| B01 | x | y | `TestA` |\n"
	old, want := fmt.Sprintf(page, "a", "b", "", "1"), fmt.Sprintf(page, "the worst of 2 rows: late 5 ms; kills 5", "late 9 ms; kills 1; 1 not injected", "not injected", "–")
	require.Equal(t, want, b.fill(old))
}

// docs/reliability.md has a line for every row of the scoreboard, and every test
// that it names exists.
func TestReliabilityPageIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(docs, rowsPage))
	require.NoError(t, err)
	page := string(text)
	for _, id := range scoreboard() {
		require.True(t, strings.Contains(page, "\n| "+id+" | "), "no line for %s", id)
	}
	var sources strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		sources.WriteString("\n")
		sources.Write(source)
		return err
	}))
	all := sources.String()
	named := testName.FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		require.True(t, strings.Contains(all, "\nfunc "+name[1]+"(t *testing.T) {"), "there is no such test: "+name[1])
	}
}

// docs/reliability.md says what rows change about the defaults, and the defaults.
func TestReliabilityPageKnowsTheSettings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(docs, rowsPage))
	require.NoError(t, err)
	defaults := map[string]string{}
	for _, s := range troupe.Settings() {
		defaults[s.Field], _, _ = strings.Cut(s.Default, " ")
	}
	rows := reflect.ValueOf(podSpec{Tune: briskAlone()}.config(nil))
	told := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, told, 9)
	for _, words := range told {
		require.Equal(t, fmt.Sprint(rows.FieldByName(words[1])), strings.ReplaceAll(words[2], " ", ""), words[1])
		require.Equal(t, defaults[words[1]], strings.ReplaceAll(words[3], " ", ""), words[1])
	}
}
