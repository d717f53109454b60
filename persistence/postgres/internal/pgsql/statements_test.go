package pgsql

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every statement says in its header which calls send it. In PostgreSQL's views it is
// known by the name of its file.
func TestEachStatementHasAHeaderAndAName(t *testing.T) {
	t.Parallel()
	all, err := Load("troupe")
	require.NoError(t, err)
	require.NoError(t, fs.WalkDir(files, "sql", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Dir(file) == "sql/parts" {
			return err
		}
		name := strings.TrimSuffix(path.Base(file), ".sql")
		require.True(t, strings.HasPrefix(all[name].Text, "/* troupe "+name+" */ "), file)
		text, err := fs.ReadFile(files, file)
		require.True(t, strings.HasPrefix(string(text), "-- "+name+": "), file)
		require.Contains(t, header(string(text)), "Caller:", file)
		return err
	}))
}

// header is the comment that a file begins with.
func header(text string) string {
	var header strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		header.WriteString(line)
	}
	return header.String()
}
