package archtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layered are the rooms whose files have layers, with those below them. What
// runs up is counted by tools/layers, which says how.
var layered = map[string]struct {
	base int // what ran up at 07d6275, before the house was tidied
	most int // what may run up; falls, to half of base at least
}{
	"actors":               {base: 63, most: 29},
	"persistence/postgres": {base: 61, most: 23},
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for dir, room := range layered {
		up := runsUp(t, filepath.Join(root, dir))
		t.Logf("%s: %d references between files run up; at most %d, aim %d", dir, up, room.most, room.base/2)
		if up > room.most {
			t.Errorf("%s: %d references between files run up, at most %d: go run -C tools ./layers -arrows -moves 5 ../%s", dir, up, room.most, dir)
		}
	}
}

// runsUp returns what runs up in the packages of a folder and below.
func runsUp(t *testing.T, dir string) int {
	t.Helper()
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join(root, "tools"), "./layers", dir)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	require.NoError(t, err, said.String())
	sum := 0
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		_, counts, _ := strings.Cut(line, ": ")
		var files, arrows, up int
		_, err := fmt.Sscanf(counts, "%d files, %d arrows, %d up", &files, &arrows, &up)
		require.NoError(t, err, line)
		sum += up
	}
	return sum
}

func TestLayersFindsEachKind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.org/p\n\ngo 1.26\n")
	write("top.go", "package p\nfunc top() { middle(); low.step(low{}) }\nvar _ = top\n")
	write("middle.go", "package p\nfunc middle() { low{}.step() }\n")
	write("low.go", "package p\ntype low struct{ field int }\n")
	write("step.go", "package p\nfunc (l low) step() { l.field++ }\n")
	write("low_test.go", "package p\nvar _ = top\n")
	require.Zero(t, runsUp(t, dir), "no circle")

	write("low.go", "package p\ntype low struct{ field int }\nvar _ = low.step\nvar _ = middle\n")
	require.Equal(t, 2, runsUp(t, dir), "a method that is used above its type's file, and a circle of three files")

	require.NoError(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	write("below/a.go", "package below\nfunc A() { b() }\n")
	write("below/b.go", "package below\nfunc b() { A() }\n")
	require.Equal(t, 3, runsUp(t, dir), "what is below counts")
}
