package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuaranteesAreShown keeps docs/guarantees.md true: every requirement and
// every promise has a row, and every test that a row names exists.
func TestGuaranteesAreShown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/guarantees.md"))
	require.NoError(t, err)
	for _, finding := range guarantees(string(text), testNames(repository(t))) {
		t.Error(finding)
	}
}

const (
	requirementsMax = 24 // R0 to R24
	promisesMax     = 15 // I1 to I15; I22 and I23 are reserved
)

var (
	guaranteeRow  = regexp.MustCompile(`^\| ([RI]\d+) \| ([^|]+) \| ([^|]+) \|$`)
	guaranteeTest = regexp.MustCompile("`([^`]+)`")
)

// guarantees finds rows that are missing or stand twice, rows without a test,
// and tests that do not exist. A requirement is shown by at least one test
// that bears its number.
func guarantees(page string, exists map[string]bool) []string {
	var findings []string
	seen := map[string]bool{}
	for _, line := range strings.Split(page, "\n") {
		row := guaranteeRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		name := row[1]
		if seen[name] {
			findings = append(findings, name+" stands twice")
		}
		seen[name] = true
		tests := guaranteeTest.FindAllStringSubmatch(row[3], -1)
		named := name[0] == 'I' && len(tests) > 0
		for _, test := range tests {
			if !exists[test[1]] {
				findings = append(findings, name+" names "+test[1]+", and there is no such test")
			}
			_, function, _ := strings.Cut("."+test[1], "Test")
			named = named || regexp.MustCompile(`^`+name+`\D`).MatchString(function)
		}
		if !named {
			findings = append(findings, name+" has no test that names it")
		}
	}
	for number := range requirementsMax + 1 {
		if name := "R" + itoa(number); !seen[name] {
			findings = append(findings, name+" is missing")
		}
	}
	promised := []string{"I16", "I17", "I18", "I19", "I20", "I21", "I24"}
	for number := range promisesMax {
		promised = append(promised, "I"+itoa(number+1))
	}
	for _, name := range promised {
		if !seen[name] {
			findings = append(findings, name+" is missing")
		}
	}
	return findings
}

// testNames returns every test function as room.TestName, those of the API (the
// root and internal/acceptance) without a room, and every case of the stores' contract as "contract: name".
func testNames(sources []source) map[string]bool {
	names := map[string]bool{}
	for _, s := range sources {
		switch {
		case s.syntax == nil:
		case s.isTest():
			for _, declaration := range s.syntax.Decls {
				f, ok := declaration.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
					continue
				}
				room := s.room() + "."
				if slices.Contains(apiRooms, s.room()) {
					room = ""
				}
				names[room+f.Name.Name] = true
			}
		case s.room() == "persistence/storetest":
			for _, name := range contractCase.FindAllStringSubmatch(s.text, -1) {
				names["contract: "+name[1]] = true
			}
		}
	}
	return names
}

// apiRooms hold the tests of the embedder's API.
var apiRooms = []string{".", "internal/acceptance"}

var contractCase = regexp.MustCompile(`\{"([a-z_]+/[a-z_]+)", "`)

func TestGuaranteesFindsEachKind(t *testing.T) {
	t.Parallel()
	exists := testNames([]source{
		parse(t, "a_test.go", "package p\nfunc TestIt() {}\n"),
		parse(t, "internal/acceptance/a_test.go", "package p\nfunc TestR0Works() {}\n"),
		parse(t, "persistence/storetest/a.go", "package p\nvar r = []rule{{\"fan_in/once\", \"text\", f}}\n"),
	})
	page := "| R0 | it works | `TestR0Works` |\n"
	rest := func(page string) string { return strings.Join(guarantees(page, exists), "\n") }
	require.NotContains(t, rest(page), "R0 ")
	require.Contains(t, rest(page), "R24 is missing")
	require.Contains(t, rest(page), "I15 is missing")
	require.Contains(t, rest(page), "I19 is missing")
	require.Contains(t, rest(page+page), "R0 stands twice")
	require.Contains(t, rest("| R0 | it works | `TestIt` |"), "R0 has no test that names it")
	require.Contains(t, rest("| R0 | it works | by trust |"), "R0 has no test that names it")
	require.Contains(t, rest("| R1 | it works | `TestR10` |"), "R1 names TestR10, and there is no such test")
	require.NotContains(t, rest("| I5 | once | `contract: fan_in/once` |"), "I5 ")
	require.Contains(t, rest("| I5 | once | `contract: fan_in/twice` |"), "I5 names contract: fan_in/twice")
}
