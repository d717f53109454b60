package acceptance

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A new user copies an example into a module of another name: it compiles there,
// with its tests, and these pass, also those on PostgreSQL.
func TestExamplesWorkInAnotherModule(t *testing.T) {
	t.Parallel()
	database := pgtest.Database(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	outside := t.TempDir()
	copyExamples(t, filepath.Join(root, "examples"), filepath.Join(outside, "examples"))
	copyFile(t, root, outside, "docs/testing-your-workflows.md") // which one of them keeps up to date
	copyFile(t, root, outside, "go.sum")
	content, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	module := regexp.MustCompile(`(?m)^module .*`).ReplaceAllString(string(content), "module example.com/outside")
	module += "\nrequire github.com/troupe-dev/troupe v0.0.0\n\nreplace github.com/troupe-dev/troupe => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(outside, "go.mod"), []byte(module), 0o600))

	test := exec.Command("go", "test", "-mod=mod", "-short", "-count=1", "-v", "./...")
	test.Dir = outside
	test.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "TROUPE_DATABASE_URL="+database)
	said, err := test.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, regexp.MustCompile(`(?m)^(=== (RUN|PAUSE|CONT)|\s*--- PASS).*\n`).ReplaceAllString(string(said), ""))
	}
	require.NotContains(t, string(said), "--- SKIP: ", "the database is there")
	require.Contains(t, string(said), "ok  \texample.com/outside/examples/features")
	require.Contains(t, string(said), "ok  \texample.com/outside/examples/orders")
	require.Contains(t, string(said), "ok  \texample.com/outside/examples/service")
}

func copyFile(t *testing.T, from, to, name string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(from, name))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(to, name), content, 0o600))
}

// copyExamples copies the examples. They import each other under the module's name.
func copyExamples(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*", "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(content), `"github.com/troupe-dev/troupe/internal/`, "%s uses exported packages only", file)
		name, err := filepath.Rel(from, file)
		require.NoError(t, err)
		target := filepath.Join(to, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o700))
		own := strings.ReplaceAll(string(content), "github.com/troupe-dev/troupe/examples/", "example.com/outside/examples/")
		require.NoError(t, os.WriteFile(target, []byte(own), 0o600))
	}
}
