package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/troupe-dev/troupe"
	root   = "../.."
)

// source is one file of the repository; syntax is nil unless it is Go.
type source struct {
	path   string // from the root, with slashes
	text   string
	set    *token.FileSet
	syntax *ast.File
}

func (s source) room() string    { return path.Dir(s.path) }
func (s source) isTest() bool    { return strings.HasSuffix(s.path, "_test.go") }
func (s source) generated() bool { return s.syntax != nil && ast.IsGenerated(s.syntax) }

// at is the place of a node, as file:line.
func (s source) at(node ast.Node) string {
	position := s.set.Position(node.Pos())
	return s.path + ":" + itoa(position.Line)
}

// parse makes a source; tests of the rules give it a few bad lines.
func parse(t *testing.T, name, text string) source {
	t.Helper()
	s := source{path: name, text: text}
	if !strings.HasSuffix(name, ".go") {
		return s
	}
	s.set = token.NewFileSet()
	var err error
	s.syntax, err = parser.ParseFile(s.set, name, text, parser.ParseComments)
	require.NoError(t, err)
	return s
}

// repository reads every text file of the module that a rule may look at.
// Folders with a go.mod of their own are other modules.
func repository(t *testing.T) []source {
	t.Helper()
	var sources []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() {
			return enter(relative, name)
		}
		if !isText(relative) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sources = append(sources, parse(t, relative, string(text)))
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	return sources
}

func enter(relative, name string) error {
	if relative == ".git" || relative == "bin" || path.Base(relative) == "node_modules" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && relative != "." {
		return filepath.SkipDir
	}
	return nil
}

func isText(name string) bool {
	if slices.Contains([]string{"Makefile", ".ci/run", ".gitignore"}, name) {
		return true
	}
	extensions := []string{".go", ".sql", ".proto", ".md", ".yml", ".yaml", ".sh", ".mmd", ".txt", ".html", ".css", ".js"}
	return slices.Contains(extensions, path.Ext(name))
}

// check applies a rule to each source of the repository.
func check(t *testing.T, rule func(source) []string) {
	t.Helper()
	for _, s := range repository(t) {
		for _, finding := range rule(s) {
			t.Error(finding)
		}
	}
}
