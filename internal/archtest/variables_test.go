package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutableRooms may have package variables that change, each with its reason
// beside the variable.
var mutableRooms = []string{
	"internal/fidelity",     // what was found out of each type, as package json keeps it: a codec is a value without state
	"internal/planted",      // the switch of a binary that is made for one test, and never shipped
	"internal/pgdev/pgtest", // one server per test binary; testing offers no other place for it
}

// TestPackageVariablesDoNotChange keeps state in values that have an owner: a
// package variable is a table, a sentinel, a compiled pattern or an embedded
// file, and is never assigned.
func TestPackageVariablesDoNotChange(t *testing.T) {
	t.Parallel()
	byRoom := map[string][]source{}
	for _, s := range repository(t) {
		if s.syntax != nil && !s.generated() && !slices.Contains(mutableRooms, s.room()) {
			byRoom[s.room()] = append(byRoom[s.room()], s)
		}
	}
	for _, sources := range byRoom {
		for _, finding := range variables(sources) {
			t.Error(finding)
		}
	}
}

// variables finds package variables made to change, and whatever changes one
// of this package or of another. The sources are one package.
func variables(sources []source) []string {
	var findings []string
	declared := map[string]bool{}
	for _, s := range sources {
		for _, declaration := range s.syntax.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				findings = append(findings, variable(s, group, spec, declared)...)
			}
		}
	}
	for _, s := range sources {
		findings = append(findings, changes(s, declared)...)
	}
	return findings
}

// variable adds the names of one declaration to declared, and finds values
// that have no use but to change: the zero value, an empty map, a channel, a
// lock, a new pointer.
func variable(s source, group *ast.GenDecl, spec ast.Spec, declared map[string]bool) []string {
	value, ok := spec.(*ast.ValueSpec)
	if !ok {
		return nil
	}
	var findings []string
	for i, name := range value.Names {
		declared[name.Name] = true
		zero := len(value.Values) == 0
		mutable := zero || i < len(value.Values) && startsEmpty(value.Values[i])
		if mutable && name.Name != "_" && !embedded(group, value) {
			findings = append(findings, s.at(name)+": package variable "+name.Name+" has no use but to change: give it an owner")
		}
	}
	delete(declared, "_")
	return findings
}

func startsEmpty(value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.CallExpr:
		name, ok := v.Fun.(*ast.Ident)
		return ok && (name.Name == "make" || name.Name == "new")
	case *ast.UnaryExpr:
		return v.Op == token.AND
	case *ast.CompositeLit:
		if selector, ok := v.Type.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok && (name.Name == "sync" || name.Name == "atomic") {
				return true
			}
		}
		_, isMap := v.Type.(*ast.MapType)
		return isMap && len(v.Elts) == 0
	}
	return false
}

func embedded(group *ast.GenDecl, value *ast.ValueSpec) bool {
	for _, comments := range []*ast.CommentGroup{group.Doc, value.Doc} {
		if comments == nil {
			continue
		}
		for _, comment := range comments.List {
			if strings.HasPrefix(comment.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// changes finds assignments to a package variable, to what it holds, and
// taking its address.
func changes(s source, declared map[string]bool) []string {
	imported := map[string]bool{}
	for _, spec := range s.syntax.Imports {
		imported[importName(spec)] = true
	}
	var findings []string
	target := func(node ast.Expr, what string) {
		name, field := rootOf(node)
		switch {
		case name == nil || s.local(name):
		case declared[name.Name]:
			findings = append(findings, s.at(node)+": "+what+" package variable "+name.Name)
		case imported[name.Name] && field != "":
			findings = append(findings, s.at(node)+": "+what+" "+name.Name+"."+field+" of another package")
		}
	}
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				return true
			}
			for _, left := range n.Lhs {
				target(left, "assigns to")
			}
		case *ast.IncDecStmt:
			target(n.X, "changes")
		case *ast.UnaryExpr:
			if name, ok := n.X.(*ast.Ident); ok && n.Op == token.AND {
				target(name, "takes the address of")
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "delete" || name.Name == "clear") && len(n.Args) > 0 {
				target(n.Args[0], "empties")
			}
		}
		return true
	})
	return findings
}

// rootOf is the leftmost name of x, x.f, x[i], *x and the first field after it.
func rootOf(node ast.Expr) (name *ast.Ident, field string) {
	for {
		switch n := node.(type) {
		case *ast.Ident:
			return n, field
		case *ast.SelectorExpr:
			node, field = n.X, n.Sel.Name
		case *ast.IndexExpr:
			node = n.X
		case *ast.StarExpr:
			node = n.X
		case *ast.ParenExpr:
			node = n.X
		default:
			return nil, ""
		}
	}
}

// local reports whether the parser bound the name inside a function. It leaves
// names of other files of the package, and of imports, unbound.
func (s source) local(name *ast.Ident) bool {
	return name.Obj != nil && s.syntax.Scope.Lookup(name.Name) != name.Obj
}

func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	imported := strings.Trim(spec.Path.Value, `"`)
	parts := strings.Split(imported, "/")
	last := parts[len(parts)-1]
	if len(parts) > 1 && len(last) > 1 && last[0] == 'v' && last[1] >= '0' && last[1] <= '9' {
		last = parts[len(parts)-2]
	}
	return last
}

func TestVariablesFindsEachKind(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"var x int", "var x = map[string]int{}", "var x = make(chan int)", "var x = &T{}", "var x = sync.Mutex{}",
		"var x = 1\nfunc f() { x = 2 }", "var x = []int{1}\nfunc f() { x[0] = 2 }", "var x = 1\nfunc f() { x++ }",
		"var x = T{1}\nfunc f() { x.a.b += 2 }", "var x = 1\nfunc f() { use(&x) }",
		"var x = map[int]int{1: 1}\nfunc f() { delete(x, 1) }", "func f() { other.X = 1 }",
		"func f() { elsewhere[1] = 2 }",
	} {
		other := parse(t, "p/b.go", "package p\nvar elsewhere = []int{1, 2}\n")
		found := variables([]source{parse(t, "p/a.go", "package p\nimport \"a/other\"\n"+bad), other})
		require.Len(t, found, 1, "%s: %v", bad, found)
	}
	for _, good := range []string{
		"var ErrX = errors.New(`x`)", "//go:embed x.sql\nvar x string", "var _ I = (*T)(nil)",
		"var x = [2]int{1, 2}\nfunc f() int { return x[1] }", "var x = 1\nfunc f() { x := 2; x = 3 }",
		"var x = 1\nfunc f() { var x int; x++ }", "var x = 1\nfunc f(x int) { x = 3 }",
		"var x = 1\nfunc f() { y := T{x: 2}; y.x = 3; use(&y.x) }", "var x = regexp.MustCompile(`x`)",
	} {
		require.Empty(t, variables([]source{parse(t, "p/a.go", "package p\n"+good)}), good)
	}
}
