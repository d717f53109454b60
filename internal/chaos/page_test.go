package chaos

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/reliability.md has a line for every row of the scoreboard, and every test
// that it names exists.
func TestReliabilityPageIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reliability.md")
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
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		require.True(t, strings.Contains(all, "\nfunc "+name[1]+"(t *testing.T) {"), "there is no such test: "+name[1])
	}
}
