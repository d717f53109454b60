package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPagesNameWhatExists: a reader who follows a path or a link of a page
// arrives.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	for page, text := range pages(t) {
		for _, name := range namedFiles(filepath.Dir(page), text) {
			_, err := os.Stat(filepath.Join(root, name))
			require.NoError(t, err, "%s names %s", page, name)
		}
	}
}

// TestPagesNameTestsThatExist: a reader who doubts a claim can run the test that a
// page names for it.
func TestPagesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	exists := testNames(repository(t))
	for page, text := range pages(t) {
		for _, finding := range absentTests(text, exists) {
			t.Errorf("%s names %s, and there is no such test", page, finding)
		}
	}
}

// pages returns the texts of all pages by their paths from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "examples/*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			texts[name] = string(text)
		}
	}
	return texts
}

// namedTest is a test in code: by its room, or alone where the page tells the room.
// What comes behind a slash is a case of it. A star stands for the rest of a name.
var namedTest = regexp.MustCompile("`(?:(contract: [a-z_]+/[a-z_*]+)|((?:[a-z_/]+\\.)?(?:Test|Fuzz)[A-Z][A-Za-z0-9_]*)(?:/[^`]*)?)`")

// forms are how names of tests look, for pages that say so.
var forms = []string{"TestName", "room.TestName", "contract: topic/case"}

// absentTests returns the tests that a page names and that are not there.
func absentTests(text string, exists map[string]bool) []string {
	alone := map[string]bool{}
	for name := range exists {
		alone[name[strings.LastIndex(name, ".")+1:]] = true
	}
	var absent []string
	for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
		name := m[1] + m[2]
		if prefix, star := strings.CutSuffix(name, "*"); star {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(exists)), func(n string) bool { return strings.HasPrefix(n, prefix) }) {
				absent = append(absent, name)
			}
			continue
		}
		if !exists[name] && !alone[name] && !slices.Contains(forms, name) {
			absent = append(absent, name)
		}
	}
	return absent
}

func TestAbsentTests(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{"TestA": true, "a/b.TestB": true, "contract: c/d": true}
	text := "`TestA`, `a/b.TestB/case of it`, `TestB`, `contract: c/d`, `contract: c/*`, `t.Parallel`, `TestMain`s file"
	require.Equal(t, []string{"TestMain"}, absentTests(text, exists))
	require.Equal(t, []string{"b.TestA", "contract: c/e", "contract: e/*"}, absentTests("`b.TestA` `contract: c/e` `contract: e/*`", exists))
}

func TestNamedFiles(t *testing.T) {
	t.Parallel()
	text := "`a/b.go` and `c.sql`, [d](../d/e.md#f), [g](https://h/i), `j.K`, `a/b.go:1`"
	require.Equal(t, []string{"a/b.go", "c.sql", "docs/d/e.md"}, namedFiles("docs/adr", text))
}

var (
	codePath = regexp.MustCompile("`([a-zA-Z0-9_./-]+\\.(?:go|md|mmd|proto|sql|txt))`")
	linkPath = regexp.MustCompile(`\]\(([a-zA-Z0-9_./-]+)(?:#[^)]*)?\)`)
)

// namedFiles returns the files that a page in dir names: in code by their path
// from the root, in links from dir.
func namedFiles(dir, text string) []string {
	var names []string
	for _, m := range codePath.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.TrimPrefix(m[1], module+"/"))
	}
	for _, m := range linkPath.FindAllStringSubmatch(text, -1) {
		names = append(names, filepath.ToSlash(filepath.Join(dir, m[1])))
	}
	return names
}
