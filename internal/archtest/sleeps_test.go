package archtest

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sleepers are tests that let real time pass, files or folders, each with its
// reason. A test that waits for something waits for that, and not for a while.
var sleepers = []string{
	"internal/acceptance/health_postgres_test.go", // a network on which an answer takes that long
	"internal/acceptance/idle_test.go",            // counts what idle pods send in a minute
	"persistence/postgres/bench_test.go",          // callers that ask as often as pods do
	"persistence/postgres/crowd_test.go",          // the same, and pods that freeze
	"examples/features/", "simtest/",              // step functions, in a bubble of the harness
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	check(t, sleeps)
}

// sleeps finds sleeps in tests whose time is real. It is virtual in a bubble of
// synctest, which virtual is in the tests of the API.
func sleeps(s source) []string {
	if s.syntax == nil || !s.isTest() || listed(sleepers, s.path) ||
		strings.Contains(s.text, "synctest.") || strings.Contains(s.text, "virtual(t, ") {
		return nil
	}
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		if called, ok := node.(*ast.SelectorExpr); ok && called.Sel.Name == "Sleep" {
			if from, ok := called.X.(*ast.Ident); ok && from.Name == "time" {
				findings = append(findings, s.at(node)+": a test waits for what it waits for, or sleeps in a bubble of synctest")
			}
		}
		return true
	})
	return findings
}

func TestSleepsFindsEachKind(t *testing.T) {
	t.Parallel()
	bad := "package p\nfunc f() { time.Sleep(1) }\n"
	require.Len(t, sleeps(parse(t, "actors/a_test.go", bad)), 1)
	require.Empty(t, sleeps(parse(t, "actors/a.go", bad)), "a matter of the linter")
	require.Empty(t, sleeps(parse(t, "simtest/a_test.go", bad)))
	require.Empty(t, sleeps(parse(t, "actors/a_test.go", bad+"func g() { synctest.Test(t, f) }\n")))
	require.Empty(t, sleeps(parse(t, "actors/a_test.go", "package p\nfunc f() { clock.Sleep(1) }\n")))
}
