package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// pkg is a package as declarations that use each other, and as files.
type pkg struct {
	path         string
	declarations []declaration
	uses         map[arrow]int // between declarations
	within       []arrow       // of these, between declarations of one file
	files        graph
	lines        []int // of each file
}

// declaration is one function, method, type, variable or constant at the top
// level of a file.
type declaration struct {
	name       string
	file       int
	begin, end token.Pos
	lines      int
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// load type-checks the packages of a folder and below. What they import is read
// from the compiler's export data.
func load(dir string) ([]*pkg, error) {
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./...")
	command.Dir, command.Stderr = dir, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var targets []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly && len(l.GoFiles) > 0 {
			targets = append(targets, l)
		}
	}
	var found []*pkg
	for _, target := range targets {
		p, err := check(target, exports)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

func check(target listed, exports map[string]string) (*pkg, error) {
	set := token.NewFileSet()
	p := &pkg{path: target.ImportPath, uses: map[arrow]int{}}
	var syntax []*ast.File
	for i, name := range target.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(target.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		syntax = append(syntax, file)
		p.files.names = append(p.files.names, name)
		p.lines = append(p.lines, set.File(file.Pos()).LineCount())
		p.declare(set, i, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	if _, err := config.Check(target.ImportPath, set, syntax, &info); err != nil {
		return nil, err
	}
	for ident, object := range info.Uses {
		if object.Pkg() == nil || object.Pkg().Path() != target.ImportPath {
			continue
		}
		from, to := p.at(ident.Pos()), p.at(object.Pos())
		if from >= 0 && to >= 0 && from != to {
			p.uses[arrow{from, to}]++
		}
	}
	for a := range p.uses {
		if p.declarations[a.from].file == p.declarations[a.to].file {
			p.within = append(p.within, a)
		}
	}
	slices.SortFunc(p.within, func(a, b arrow) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	p.files.uses = p.between(nil)
	return p, nil
}

// declare lists a file's declarations; those of a group stand one by one.
func (p *pkg) declare(set *token.FileSet, file int, syntax *ast.File) {
	add := func(name string, node ast.Node) {
		lines := set.Position(node.End()).Line - set.Position(node.Pos()).Line + 1
		p.declarations = append(p.declarations, declaration{name, file, node.Pos(), node.End(), lines})
	}
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(functionName(d), d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name.Name, spec)
				case *ast.ValueSpec:
					add(spec.Names[0].Name, spec)
				}
			}
		}
	}
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

// at returns the number of the declaration that holds a position, or -1.
func (p *pkg) at(pos token.Pos) int {
	low, high := 0, len(p.declarations)
	for low < high {
		middle := (low + high) / 2
		if p.declarations[middle].end <= pos {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(p.declarations) && p.declarations[low].begin <= pos {
		return low
	}
	return -1
}

// between returns the arrows between files, with some declarations in other
// files than they are.
func (p *pkg) between(moved map[int]int) map[arrow]int {
	file := func(d int) int {
		if to, ok := moved[d]; ok {
			return to
		}
		return p.declarations[d].file
	}
	uses := map[arrow]int{}
	for a, n := range p.uses {
		if from, to := file(a.from), file(a.to); from != to {
			uses[arrow{from, to}] += n
		}
	}
	return uses
}
