package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// protocVersion is the one line of generated code that tells the compiler's
// version, which differs between machines without a difference in the code.
var protocVersion = regexp.MustCompile(`(?m)^// .*\bprotoc\b .*$`)

// TestGeneratedMessagesAreUpToDate runs the generator of the Makefile into a
// folder of the test's own and compares. Diagrams are checked by the tests of
// the rooms that they draw.
func TestGeneratedMessagesAreUpToDate(t *testing.T) {
	t.Parallel()
	generated := t.TempDir()
	generator := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", root, "generate-messages", "OUT="+generated)
	if _, err := exec.LookPath("protoc"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("protoc is missing: .ci/run installs it")
		}
		t.Skip("protoc is missing (Debian: apt-get install protobuf-compiler): generated messages are not compared")
	}
	out, err := generator.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, finding := range drift(t, filepath.Join(root, "messages"), filepath.Join(generated, "messages")) {
		t.Error(finding)
	}
}

// drift finds generated files that are missing, left over or different.
func drift(t *testing.T, committed, generated string) []string {
	t.Helper()
	want, got := protobufFiles(t, generated), protobufFiles(t, committed)
	var findings []string
	for name, text := range want {
		if present, ok := got[name]; !ok || present != text {
			findings = append(findings, name+" differs from what its .proto generates: run make generate")
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			findings = append(findings, name+" has no .proto: remove it")
		}
	}
	return findings
}

func protobufFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.pb.go"))
	require.NoError(t, err)
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		files[filepath.Base(path)] = protocVersion.ReplaceAllString(string(text), "")
	}
	return files
}

func TestDriftFindsEachKind(t *testing.T) {
	t.Parallel()
	committed, generated := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write(committed, "same.pb.go", "// \tprotoc        v3.21.12\ncode")
	write(generated, "same.pb.go", "// \tprotoc        v6.33.1\ncode")
	require.Empty(t, drift(t, committed, generated))

	write(committed, "old.pb.go", "old")
	write(generated, "old.pb.go", "new")
	write(committed, "left.pb.go", "")
	write(generated, "added.pb.go", "")
	findings := strings.Join(drift(t, committed, generated), "\n")
	for _, name := range []string{"old.pb.go differs", "left.pb.go has no .proto", "added.pb.go differs"} {
		require.Contains(t, findings, name)
	}
}
