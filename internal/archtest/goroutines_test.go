package archtest

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// starters may start goroutines; entries are files, or folders with a slash at
// the end. Everywhere else work happens in actors (docs/adr/0008).
var starters = []string{
	"actors/executor.go",          // blocking calls and user functions, for all actors
	"cluster/postgres/",           // listeners on connections
	"internal/clock/",             // local timers
	"internal/logqueue/queue.go",  // calls the embedder's log handler
	"internal/wire/hooks.go",      // hooks that may end the goroutine
	"internal/sim/swarm/batch.go", // seeds side by side, each in a world of its own
	"internal/pgdev/",             // waits for the server's process
	"persistence/storetest/",      // drives a store from many goroutines, as pods would
	"cmd/",                        // signals, the display
	"simtest/",                    // step functions, and the test's own, in a bubble
	"bench/", "examples/",         // an embedder's own code
}

func TestGoroutinesHaveAnOwner(t *testing.T) {
	t.Parallel()
	check(t, goroutines)
}

// goroutines finds go statements, and Go methods, which hide one.
func goroutines(s source) []string {
	if s.syntax == nil || s.isTest() || listed(starters, s.path) {
		return nil
	}
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			findings = append(findings, s.at(n)+": goroutines are not started here")
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Go" {
				findings = append(findings, s.at(n)+": Go starts a goroutine, and they are not started here")
			}
		}
		return true
	})
	return findings
}

func listed(list []string, file string) bool {
	for _, entry := range list {
		if entry == file || strings.HasSuffix(entry, "/") && strings.HasPrefix(file, entry) {
			return true
		}
	}
	return false
}

func TestGoroutinesFindsEachKind(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"go f()", "group.Go(f)"} {
		text := "package p\nfunc g() { " + bad + " }\n"
		require.Len(t, goroutines(parse(t, "lifecycle/a.go", text)), 1, bad)
		require.Len(t, goroutines(parse(t, "actors/claimer.go", text)), 1, bad)
		require.Empty(t, goroutines(parse(t, "actors/executor.go", text)), bad)
		require.Empty(t, goroutines(parse(t, "lifecycle/a_test.go", text)), bad)
	}
}
