package archtest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestRoomsImportOnlyInward(t *testing.T) {
	t.Parallel()
	check(t, imports)
}

// imports finds what a file's room may not import.
func imports(s source) []string {
	if s.syntax == nil {
		return nil
	}
	allowed, known := lookUp(s.room())
	if !known {
		return []string{s.path + ": " + s.room() + " is not in rooms: say there what it may import"}
	}
	var findings []string
	for _, spec := range s.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has seen a string here
		}
		ok := allowed.allows(imported) || s.isTest() && testImports.allows(imported)
		if strings.HasPrefix(imported, module+"/cmd/") {
			ok = strings.HasPrefix(s.path, "cmd/") // a command is not a library
		}
		if ok {
			continue
		}
		findings = append(findings, s.at(spec)+": "+s.room()+" must not import "+imported)
	}
	return findings
}

// lookUp finds a package's room by name, else by the nearest /... above it.
func lookUp(name string) (room, bool) {
	if found, ok := rooms[name]; ok {
		return found, true
	}
	for above := name; ; {
		if found, ok := rooms[above+"/..."]; ok {
			return found, true
		}
		cut := strings.LastIndex(above, "/")
		if cut < 0 {
			return room{}, false
		}
		above = above[:cut]
	}
}

func (r room) allows(imported string) bool {
	if imported == module {
		return covers(r.ours, ".")
	}
	if own, ok := strings.CutPrefix(imported, module+"/"); ok {
		return covers(r.ours, own)
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return r.std == nil || slices.Contains(r.std, imported)
	}
	return covers(r.outside, imported)
}

// covers reports whether a list names the path itself or, with /..., something
// above it.
func covers(list []string, imported string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		above, below := strings.CutSuffix(entry, "/...")
		return entry == "..." || entry == imported || below && (imported == above || strings.HasPrefix(imported, above+"/"))
	})
}

func TestImportsFindsEachKind(t *testing.T) {
	t.Parallel()
	for name, imported := range map[string]string{
		"lifecycle/a.go":          "os",
		"workflow/a.go":           "context",
		"workflow/b.go":           module + "/lifecycle",
		"workflow/c_test.go":      module + "/cmd/troupe",
		"actors/a.go":             module,
		"actors/b.go":             module + "/persistence/postgres",
		"actors/c.go":             "github.com/jackc/pgx/v5/pgxpool",
		"actors/d.go":             "github.com/asynkron/protoactor-go/remote",
		"persistence/memory/a.go": "github.com/stretchr/testify/require",
		"simtest/a.go":            module + "/persistence/postgres",
		"nowhere/a.go":            "fmt",
		"a.go":                    module + "/simtest",
	} {
		require.Len(t, imports(parse(t, name, "package p\nimport _ \""+imported+"\"\n")), 1, "%s imports %s", name, imported)
	}
	for name, imported := range map[string]string{
		"lifecycle/a_test.go":       "os",
		"cmd/troupe/demo/a.go":      module,
		"cmd/troupe/a.go":           module + "/cmd/troupe/demo",
		"persistence/postgres/a.go": "github.com/jackc/pgx/v5",
		"examples/orders/a.go":      module,
		"a_test.go":                 module + "/simtest",
		"cmd/troupe/demo/a_test.go": module + "/cmd/troupe/demo",
	} {
		require.Empty(t, imports(parse(t, name, "package p\nimport _ \""+imported+"\"\n")), "%s imports %s", name, imported)
	}
}

// A room that is gone must leave the table, or the table stops being a map.
func TestEveryRoomExists(t *testing.T) {
	t.Parallel()
	present := map[string]bool{}
	for _, s := range repository(t) {
		if s.syntax != nil {
			present[s.room()] = true
		}
	}
	for name := range rooms {
		above, _ := strings.CutSuffix(name, "/...")
		found := present[name]
		for p := range present {
			found = found || p == above || strings.HasPrefix(p, above+"/")
		}
		if !found && !slices.Contains(planned, name) {
			t.Errorf("%s is in rooms and has no Go file", name)
		}
	}
}

// planned are rooms that the table names before their first file.
var planned = []string{"simtest", "bench/...", "examples/...", "cmd/troupe/..."}
