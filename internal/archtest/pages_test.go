package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPagesNameWhatExists: a reader who follows a path or a link of a page
// arrives.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	pages := []string{"README.md", "CONTRIBUTING.md", "examples/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			pages = append(pages, name)
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, name := range namedFiles(filepath.Dir(page), string(text)) {
			_, err := os.Stat(filepath.Join(root, name))
			require.NoError(t, err, "%s names %s", page, name)
		}
	}
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
