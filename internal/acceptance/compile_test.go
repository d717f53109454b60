package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadProgramsDoNotCompile type-checks testdata/programs. The first line of
// each says what the compiler must complain of; only the good one has nothing
// there.
func TestBadProgramsDoNotCompile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/programs/*.go.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	exports := exportFiles(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".go.txt"), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			line, _, _ := strings.Cut(string(source), "\n")
			want, ok := strings.CutPrefix(line, "// want:")
			require.True(t, ok, "the first line says what is wrong")
			err = typeCheck(t, file, source, exports)
			if want = strings.TrimSpace(want); want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}

// typeCheck returns the first error of a program.
func typeCheck(t *testing.T, file string, source []byte, exports map[string]string) error {
	t.Helper()
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		export, ok := exports[path]
		if !ok {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(export)
	})}
	_, err = config.Check("program", set, []*ast.File{syntax}, nil)
	return err
}

// exportFiles builds package troupe and returns the compiler's export data of it
// and of all that it imports.
func exportFiles(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Export", "github.com/troupe-dev/troupe").Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var listed struct{ ImportPath, Export string }
		require.NoError(t, decoder.Decode(&listed))
		exports[listed.ImportPath] = listed.Export
	}
	return exports
}
