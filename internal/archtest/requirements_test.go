package archtest

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requirements that are about the shape of the code and not about what it
// does. docs/guarantees.md has the others.

// linked are the modules that the engine links in, by the path that is
// imported. Of these only pgx and pglogrepl talk to anything outside the
// process: PostgreSQL.
var linked = []string{
	"github.com/asynkron/protoactor-go/actor", "github.com/asynkron/protoactor-go/eventstream", "github.com/jackc/pglogrepl", "github.com/jackc/pgx/v5",
	"google.golang.org/protobuf",
}

// besides are packages that are not part of the engine: what observe/ exports leaves the
// process by the embedder's own handlers.
var besides = []string{"cmd/", "examples/", "bench/", "observe/", "internal/pgdev/", "internal/archtest/", "internal/sim/", "simtest/", "persistence/storetest/"}

// outsideImports returns what the engine imports from other modules.
func outsideImports(sources []source) map[string]string {
	found := map[string]string{}
	for _, s := range sources {
		if s.syntax == nil || s.isTest() || listed(besides, s.path) {
			continue
		}
		for _, spec := range s.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(imported, "/")
			if err == nil && strings.Contains(first, ".") && !strings.HasPrefix(imported, module) {
				found[imported] = s.path
			}
		}
	}
	return found
}

func TestR1PostgreSQLIsAllThatTheEngineTalksTo(t *testing.T) {
	t.Parallel()
	for imported, where := range outsideImports(repository(t)) {
		known := slices.ContainsFunc(linked, func(l string) bool {
			return imported == l || strings.HasPrefix(imported, l+"/")
		})
		if !known {
			t.Errorf("%s imports %s: what it talks to, if anything, is a decision (R1)", where, imported)
		}
	}
}

func TestR7IsAnsweredByADecision(t *testing.T) {
	t.Parallel()
	decision, err := os.ReadFile(filepath.Join(root, "docs/adr/0008-goroutines-have-an-owner.md"))
	require.NoError(t, err)
	require.Contains(t, string(decision), "requirement R7")
}

func TestR8TheCoreKnowsNoAdapter(t *testing.T) {
	t.Parallel()
	core := []string{"workflow", "lifecycle", "persistence", "cluster"}
	adapters := []string{
		"persistence/memory", "persistence/postgres", "cluster/local", "cluster/postgres", "actors", "messages", "migrations",
	}
	for _, s := range repository(t) {
		if s.syntax == nil || s.isTest() || !slices.Contains(core, s.room()) {
			continue
		}
		for _, spec := range s.syntax.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			first, _, _ := strings.Cut(imported, "/")
			own, ours := strings.CutPrefix(imported, module+"/")
			if !ours && strings.Contains(first, ".") || slices.Contains(adapters, own) || imported == module {
				t.Errorf("%s imports %s: arrows point inward (R8)", s.path, imported)
			}
		}
	}
}

// interfaceMethods is the most that an interface may promise: beyond it an
// implementation has more than one reason to change (R9).
const interfaceMethods = 6

func TestR9InterfacesAreSmallAndHaveAContract(t *testing.T) {
	t.Parallel()
	check(t, wideInterfaces)
	for _, adapter := range []string{"memory", "postgres"} {
		contract, err := filepath.Glob(filepath.Join(root, "persistence", adapter, "*_test.go"))
		require.NoError(t, err)
		kept := slices.ContainsFunc(contract, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "storetest.Run(")
		})
		require.True(t, kept, "persistence/%s is tested by the contract that every store keeps", adapter)
	}
}

// wideInterfaces finds interfaces with too many methods of their own. Those
// that they embed have been counted where they are declared.
func wideInterfaces(s source) []string {
	if s.syntax == nil || s.isTest() || s.generated() {
		return nil
	}
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		declared, ok := node.(*ast.InterfaceType)
		if !ok {
			return true
		}
		methods := 0
		for _, field := range declared.Methods.List {
			methods += len(field.Names)
		}
		if methods > interfaceMethods {
			findings = append(findings, s.at(node)+": an interface of "+itoa(methods)+" methods; at most "+itoa(interfaceMethods))
		}
		return true
	})
	return findings
}

// TestR10NothingIsReachedButByItsOwner: TestPackageVariablesDoNotChange and
// TestGoroutinesHaveAnOwner are the other two thirds of it.
func TestR10NothingIsReachedButByItsOwner(t *testing.T) {
	t.Parallel()
	check(t, initializers)
}

// initializers finds functions that run because a package was imported.
func initializers(s source) []string {
	if s.syntax == nil || s.generated() {
		return nil
	}
	var findings []string
	for _, declaration := range s.syntax.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			findings = append(findings, s.at(f)+": init acts without being asked: take what it sets up as a parameter")
		}
	}
	return findings
}

func TestRequirementRulesFindEachKind(t *testing.T) {
	t.Parallel()
	require.Len(t, wideInterfaces(parse(t, "p/a.go", "package p\ntype I interface { A(); B(); C(); D(); E(); F(); G() }\n")), 1)
	require.Empty(t, wideInterfaces(parse(t, "p/a.go", "package p\ntype I interface { J; K; A(); B() }\n")))
	require.Len(t, initializers(parse(t, "p/a.go", "package p\nfunc init() {}\n")), 1)
	require.Empty(t, initializers(parse(t, "p/a.go", "package p\nfunc (t T) init() {}\n")))
	found := outsideImports([]source{
		parse(t, "actors/a.go", "package p\nimport _ \"example.com/redis\"\nimport _ \"os\"\nimport _ \""+module+"/workflow\"\n"),
		parse(t, "examples/a.go", "package p\nimport _ \"example.com/kafka\"\n"),
	})
	require.Equal(t, []string{"example.com/redis"}, slices.Collect(maps.Keys(found)))
}
