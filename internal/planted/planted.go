// Package planted keeps mistakes that engines of this kind are known for, to
// prove that the simulation finds them: a table of changes to the engine's
// source, none of which is in it.
//
// [Build] makes a second binary with go build -overlay, in which every mistake
// of the table is present and one is switched on by name. The function On that
// switches them exists in that binary only.
package planted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Plant is one mistake.
type Plant struct {
	Name string
	What string // what the mistake is, for people
	File string // from the root of the module
	Old  string // what stands there, exactly once
	New  string // what stands there instead; it calls On(Name)
	// Seeds is within how many seeds, from the first, it must be found.
	Seeds int
	// Classes are the faults it is looked for with; nil: all. Some mistakes show
	// only where nothing else goes wrong.
	Classes []string
}

// Tag is the build tag of the second binary.
const Tag = "planted"

// ErrNotPlanted means that the binary has no mistakes in it.
var ErrNotPlanted = errors.New("nothing is planted in this binary: build it with internal/planted")

// All returns the table.
func All() []Plant {
	return slices.Concat(decisions(), counters(), tables(), inbox(), families(), childRuns(), elements(), results(), machines(), machineEnds(), states(), outOfReach(), situations(), actors(), slots(), pods())
}

// importPath is what the changed files import.
const importPath = "github.com/troupe-dev/troupe/internal/planted"

// Apply returns the changed files, by their path from the root of the module
// in dir. It fails loudly when the engine has moved away from under a plant.
func Apply(dir string, plants []Plant) (map[string]string, error) {
	before, after := map[string]string{}, map[string]string{}
	for i := range plants {
		p := &plants[i]
		if _, ok := before[p.File]; !ok {
			text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p.File)))
			if err != nil {
				return nil, fmt.Errorf("plant %s: %w", p.Name, err)
			}
			before[p.File], after[p.File] = string(text), withImport(string(text))
		}
		for _, text := range []string{before[p.File], after[p.File]} {
			if n := strings.Count(text, p.Old); n != 1 {
				return nil, fmt.Errorf("plant %s: its text stands %d times in %s, and not once: plant it anew in internal/planted", p.Name, n, p.File)
			}
		}
		if !strings.Contains(p.New, `planted.On("`+p.Name+`")`) {
			return nil, fmt.Errorf("plant %s: its text does not ask whether it is on", p.Name)
		}
		after[p.File] = strings.Replace(after[p.File], p.Old, p.New, 1)
	}
	return after, nil
}

// withImport adds an import declaration below the package clause.
func withImport(text string) string {
	at := strings.Index(text, "\npackage ") + 1
	line := at + strings.IndexByte(text[at:], '\n') + 1
	return text[:line] + "\nimport \"" + importPath + "\"\n" + text[line:]
}

// Build builds a package of the module in dir with every mistake planted, and
// writes the binary to out. Beside it stay the changed files.
func Build(ctx context.Context, dir, pkg, out string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	files, err := Apply(dir, All())
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for path, text := range files {
		changed := filepath.Join(out+".overlay", filepath.FromSlash(path)+".txt") // no package where out is in a module
		if err := os.MkdirAll(filepath.Dir(changed), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(dir, filepath.FromSlash(path))] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(out+".overlay.json", overlay, 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-tags", Tag, "-overlay", out+".overlay.json", "-o", out, pkg) //nolint:gosec // the caller's own source
	build.Dir = dir
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build with planted mistakes: %w\n%s", err, said)
	}
	return nil
}
