package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The section of CONTRIBUTING.md that follows a trigger, a completion and a
// wake through the code.
const (
	walksTitle = "## Three walks through the code"
	walkCount  = 3
	walkSteps  = 8 // of one walk, at most
)

var (
	walkStep = regexp.MustCompile(`^(\d+)\. `)
	codeName = regexp.MustCompile("`((?:[A-Za-z_]\\w*\\.)?[A-Za-z_]\\w*)(?:\\(\\))?`")
)

// TestWalksNameWhatExists: a walk through the code can be followed.
func TestWalksNameWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	for _, finding := range walks(string(text), declared(repository(t))) {
		t.Errorf("CONTRIBUTING.md: %s", finding)
	}
}

// walks finds what is wrong with the walks of a page: numbered lists, of which
// each step names a function as `Store.ClaimTasks`, `claim` or `lifecycle.Decide`.
// It may name types, too.
func walks(page string, exists map[string]bool) []string {
	_, section, found := strings.Cut(page, walksTitle+"\n")
	if !found {
		return []string{"the section is missing: " + walksTitle}
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var findings []string
	count := 0
	for _, step := range steps(section) {
		number := walkStep.FindStringSubmatch(step)[1]
		switch {
		case number == "1":
			count++
		case len(number) > 1 || number > itoa(walkSteps):
			findings = append(findings, "more than "+itoa(walkSteps)+" steps: "+step)
		}
		functions := 0
		for _, m := range codeName.FindAllStringSubmatch(step, -1) {
			function, known := exists[m[1]]
			if !known {
				findings = append(findings, "nothing is called "+m[1])
			}
			if function {
				functions++
			}
		}
		if functions == 0 {
			findings = append(findings, "names no function: "+step)
		}
	}
	if count != walkCount {
		findings = append(findings, itoa(count)+" walks instead of "+itoa(walkCount))
	}
	return findings
}

// steps returns the numbered items of a section, with the lines that continue them.
func steps(section string) []string {
	var items []string
	open := false
	for line := range strings.Lines(section) {
		switch {
		case walkStep.MatchString(line):
			items, open = append(items, line), true
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			open = false
		case open:
			items[len(items)-1] += line
		}
	}
	return items
}

// declared returns what is declared at the top level of sources that are no tests,
// by name and by package and name, and methods by type and name; true for what is
// a function or a method.
func declared(sources []source) map[string]bool {
	exists := map[string]bool{}
	for _, s := range sources {
		if s.syntax == nil || s.isTest() {
			continue
		}
		add := func(name string, function bool) {
			exists[name] = exists[name] || function
			exists[s.syntax.Name.Name+"."+name] = exists[s.syntax.Name.Name+"."+name] || function
		}
		for _, d := range s.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name, true)
				} else {
					exists[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						add(spec.Name.Name, false)
						for _, method := range portMethods(spec) {
							exists[spec.Name.Name+"."+method] = true
						}
					}
				}
			}
		}
	}
	return exists
}

func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func portMethods(spec *ast.TypeSpec) []string {
	declared, ok := spec.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var names []string
	for _, method := range declared.Methods.List {
		for _, name := range method.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

func TestWalksFindsEachKind(t *testing.T) {
	t.Parallel()
	exists := declared([]source{
		parse(t, "a/a.go", "package a\ntype Port interface{ Ask() }\ntype box[T any] struct{}\nfunc (b *box[T]) open() {}\nfunc Make() {}\n"),
		parse(t, "a/a_test.go", "package a\nfunc onlyInTests() {}\n"),
	})
	const good = "1. `Make` and\n   `a.Make()` take a `box`.\n2. `box.open`, see `a/a.go`.\n\n"
	page := func(walks ...string) string {
		return walksTitle + "\n\n" + strings.Join(walks, "A walk.\n\n") + "## Tests\n\n1. no\n"
	}
	require.Empty(t, walks(page(good, good, "1. `Port.Ask`\n"), exists))
	require.Len(t, walks("# A page\n", exists), 1, "the section is missing")
	require.Len(t, walks(page(good, good), exists), 1, "two walks")
	require.Len(t, walks(page(good, good, "1. `box.shut` and `Make`\n"), exists), 1, "no such method")
	require.Len(t, walks(page(good, good, "1. `onlyInTests` and `Make`\n"), exists), 1, "not in a test")
	require.Len(t, walks(page(good, good, "1. a `box`\n"), exists), 1, "no function")
	require.Len(t, walks(page(good, good, good+"9. `Make`\n"), exists), 1, "too many steps")
	require.Len(t, walks(page(good, good, good+"10. `Make`\n"), exists), 1, "too many steps")
}
