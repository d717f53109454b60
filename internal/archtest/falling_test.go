package archtest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// update rewrites the tables of ceilings in testdata with the counts of now,
// unless their sum has risen: go test ./internal/archtest -run Falls -update.
var update = flag.Bool("update", false, "rewrite the ceilings in testdata")

// cellLength is how many characters a cell of a table may have: one that has
// more is a paragraph.
const cellLength = 200

// pronouns are the words that point at a thing instead of naming it. They are
// put together here so that this file does not contain them.
var pronouns = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	"some" + "body", "no" + "body", "who" + "ever", "in" + gap + "vain", "goes" + gap + "on",
}, "|") + `)\b`)

// gap stands between two words, also where a comment's line ends.
const gap = `[\s/*-]+`

func TestPronounCountFalls(t *testing.T) {
	t.Parallel()
	falls(t, "pronouns.txt", repository(t), countPronouns)
}

func TestLongCellCountFalls(t *testing.T) {
	t.Parallel()
	falls(t, "cells.txt", repository(t), countLongCells)
}

// countPronouns counts the words of pronouns in Go, SQL and pages.
func countPronouns(s source) int {
	if !slices.Contains([]string{".go", ".sql", ".md"}, path.Ext(s.path)) {
		return 0
	}
	return len(pronouns.FindAllString(s.text, -1))
}

// countLongCells counts the cells of a page's tables that are too long.
func countLongCells(s source) int {
	if path.Ext(s.path) != ".md" {
		return 0
	}
	count, code := 0, false
	for line := range strings.Lines(s.text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code || !strings.HasPrefix(line, "|") {
			continue
		}
		for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, "/"), "|") {
			if utf8.RuneCountInString(strings.TrimSpace(cell)) > cellLength {
				count++
			}
		}
	}
	return count
}

// falls compares what is counted in each file with the table of ceilings. A
// file that is not in it has the ceiling 0.
func falls(t *testing.T, table string, sources []source, count func(source) int) {
	t.Helper()
	table = filepath.Join("testdata", table)
	text, err := os.ReadFile(table)
	require.NoError(t, err)
	ceilings := readCeilings(t, string(text))
	counts := map[string]int{}
	for _, s := range sources {
		if n := count(s); n > 0 {
			counts[s.path] = n
		}
	}
	if *update {
		require.LessOrEqual(t, sum(counts), sum(ceilings), "%s: the sum may only fall", table)
		require.NoError(t, os.WriteFile(table, []byte(writeCeilings(counts)), 0o600))
		return
	}
	for _, finding := range compare(counts, ceilings) {
		t.Error(table + ": " + finding)
	}
}

// compare finds the files that are above their ceilings, and the ceilings that
// can be lowered.
func compare(counts, ceilings map[string]int) []string {
	var findings []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n, most := counts[name], ceilings[name]; n > most {
			findings = append(findings, fmt.Sprintf("%s has %d; at most %d", name, n, most))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ceilings)) {
		if n, most := counts[name], ceilings[name]; n < most {
			findings = append(findings, fmt.Sprintf("%s has %d instead of %d: lower its ceiling (-run Falls -update)", name, n, most))
		}
	}
	return findings
}

func readCeilings(t *testing.T, text string) map[string]int {
	t.Helper()
	ceilings := map[string]int{}
	for line := range strings.Lines(text) {
		var name string
		var most int
		_, err := fmt.Sscanf(line, "%d %s", &most, &name)
		require.NoError(t, err, line)
		ceilings[name] = most
	}
	return ceilings
}

func writeCeilings(counts map[string]int) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "%d %s\n", counts[name], name)
	}
	return text.String()
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

func TestFallsFindsEachKind(t *testing.T) {
	t.Parallel()
	bad := "package p\n// No" + "body waits in" + "\n// vain; some" + "body's lock goes" + " on.\n"
	require.Equal(t, 4, countPronouns(parse(t, "a.go", bad)))
	require.Equal(t, 1, countPronouns(parse(t, "a.sql", "-- who"+"ever")))
	require.Zero(t, countPronouns(parse(t, "a.go", "package p\n// vainly\n\nfunc no"+"bodyWaits() {}\n")))
	require.Zero(t, countPronouns(parse(t, "a.txt", "no"+"body")))

	long, short := strings.Repeat("ä", cellLength+1), strings.Repeat("ä", cellLength)
	require.Equal(t, 2, countLongCells(parse(t, "a.md", "| "+long+" | "+short+" |\n|---|---|\n| a | "+long+" |\n")))
	require.Zero(t, countLongCells(parse(t, "a.md", long+"\n```\n| "+long+" |\n```\n| "+short+" |\n")))
	require.Zero(t, countLongCells(parse(t, "a.txt", "| "+long+" |")))

	ceilings := readCeilings(t, "2 a.go\n1 b.go\n3 c.go\n")
	require.Equal(t, map[string]int{"a.go": 2, "b.go": 1, "c.go": 3}, ceilings)
	require.Equal(t, "2 a.go\n1 b.go\n3 c.go\n", writeCeilings(ceilings))
	require.Empty(t, compare(ceilings, ceilings))
	require.Len(t, compare(map[string]int{"a.go": 1, "c.go": 4, "d.go": 1}, ceilings), 4, "lower a, b is gone, c rose, d is new")
}
