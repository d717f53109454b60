package census

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Listing is what is in one package's folder.
type Listing struct {
	Package string   // its path from the root
	Sources []string // names of the Go files that are no tests
	Tests   []string // names of the test files
}

// HasTests reports whether the package has test files.
func (l Listing) HasTests() bool { return len(l.Tests) > 0 }

func (l Listing) files() []string {
	return append(l.Sources[:len(l.Sources):len(l.Sources)], l.Tests...)
}

// List lists the Go files of a package, by name.
func List(root, path string) (Listing, error) {
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		return Listing{}, fmt.Errorf("list package: %w", err)
	}
	listing := Listing{Package: path}
	for _, entry := range entries {
		switch {
		case !entry.Type().IsRegular() || !isSource(entry.Name()):
		case strings.HasSuffix(entry.Name(), "_test.go"):
			listing.Tests = append(listing.Tests, entry.Name())
		default:
			listing.Sources = append(listing.Sources, entry.Name())
		}
	}
	return listing, nil
}

// CountSize counts the bytes and lines of a package's files.
func CountSize(root string, listing Listing) (Size, error) {
	var size Size
	err := read(root, listing.Package, listing.files(), func(_ string, text []byte) {
		size.Bytes += len(text)
		size.Lines += bytes.Count(text, []byte{'\n'})
		if len(text) > 0 && text[len(text)-1] != '\n' {
			size.Lines++
		}
	})
	return size, err
}

// Size is how much text there is.
type Size struct{ Bytes, Lines int }

// CountDeclarations parses a package's files and counts their top-level
// functions, methods, types, constants and variables, one for each name. Of a
// file with a syntax error, what the parser understood counts.
func CountDeclarations(root string, listing Listing) (int, error) {
	count := 0
	err := read(root, listing.Package, listing.files(), func(name string, text []byte) {
		for _, declaration := range parse(name, text) {
			count += names(declaration)
		}
	})
	return count, err
}

// parse returns the declarations of a file: all that precede a syntax error,
// if there is one.
func parse(name string, text []byte) []ast.Decl {
	file, _ := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if file == nil {
		return nil
	}
	return file.Decls
}

func names(declaration ast.Decl) int {
	group, ok := declaration.(*ast.GenDecl)
	if !ok {
		return 1 // a function or method
	}
	count := 0
	for _, spec := range group.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			count++
		case *ast.ValueSpec:
			count += len(s.Names)
		}
	}
	return count
}

// CountComments scans a package's files and counts their comments: a line
// comment is one, a block is one.
func CountComments(root string, listing Listing) (int, error) {
	count := 0
	err := read(root, listing.Package, listing.files(), func(name string, text []byte) {
		set := token.NewFileSet()
		var s scanner.Scanner
		s.Init(set.AddFile(name, set.Base(), len(text)), text, nil, scanner.ScanComments)
		for {
			_, kind, _ := s.Scan()
			if kind == token.EOF {
				return
			}
			if kind == token.COMMENT {
				count++
			}
		}
	})
	return count, err
}

// CountTests counts the functions of a package's test files that go test
// would run: tests, benchmarks, fuzz targets and examples.
func CountTests(root string, listing Listing) (int, error) {
	count := 0
	err := read(root, listing.Package, listing.Tests, func(name string, text []byte) {
		for _, declaration := range parse(name, text) {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) {
				count++
			}
		}
	})
	return count, err
}

func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && name != "TestMain" {
			next, _ := utf8.DecodeRuneInString(rest)
			return rest == "" || !unicode.IsLower(next)
		}
	}
	return false
}

func read(root, path string, files []string, each func(name string, text []byte)) error {
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path), name))
		if err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		each(name, text)
	}
	return nil
}
