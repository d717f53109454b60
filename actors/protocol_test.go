package actors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Messages that come from the embedder's own actors, and that go to them.
var (
	fromCallers = []string{"TriggerRun", "SendSignal", "CancelRun", "AwaitRun"}
	toCallers   = []string{"RunTriggered", "TriggerRefused", "SignalStored", "SignalRefused", "CancelRecorded", "CancelRefused", "RunEnded", "AwaitRefused"}
)

// names is a set.
type names map[string]bool

func (n names) add(more names) { maps.Copy(n, more) }

func (n names) sorted() []string { return slices.Sorted(maps.Keys(n)) }

// protocol is the messages of this package, by its code.
type protocol struct {
	files   []*ast.File
	funcs   map[string]map[string]*ast.FuncDecl // by receiver type ("": none), by name
	actors  names                               // types with a Receive
	accepts map[string]names                    // by actor
	sends   map[string]names
	headers map[string]string // doc comments of the actors
}

func readProtocol(t *testing.T) *protocol {
	t.Helper()
	p := &protocol{
		funcs: map[string]map[string]*ast.FuncDecl{}, actors: names{}, accepts: map[string]names{}, sends: map[string]names{},
		headers: map[string]string{},
	}
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		p.files = append(p.files, file)
		p.declare(file)
	}
	for actor := range p.actors {
		p.accepts[actor] = handled(p.funcs[actor]["Receive"])
		p.sends[actor] = names{}
		seen := map[*ast.FuncDecl]bool{}
		for _, name := range slices.Sorted(maps.Keys(p.funcs[actor])) {
			p.follow(actor, p.funcs[actor][name], seen, p.sends[actor])
		}
	}
	return p
}

func (p *protocol) declare(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			of := receiverType(d)
			if p.funcs[of] == nil {
				p.funcs[of] = map[string]*ast.FuncDecl{}
			}
			p.funcs[of][d.Name.Name] = d
			if d.Name.Name == "Receive" && of != "watched" { // it passes on what others receive
				p.actors[of] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && d.Doc != nil {
					p.headers[s.Name.Name] = d.Doc.Text()
				}
			}
		}
	}
}

func receiverType(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	expr := d.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if name, ok := expr.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// messageOf returns the name of a type of package messages; "" for others.
func messageOf(expr ast.Expr) string {
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if s, ok := expr.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "messages" {
			return s.Sel.Name
		}
	}
	return ""
}

// handled returns the messages that a Receive has a case for.
func handled(receive *ast.FuncDecl) names {
	found := names{}
	ast.Inspect(receive, func(n ast.Node) bool {
		if c, ok := n.(*ast.CaseClause); ok {
			for _, expr := range c.List {
				if name := messageOf(expr); name != "" {
					found[name] = true
				}
			}
		}
		return true
	})
	return found
}

// follow collects what a function of an actor makes to send, and what the
// functions do that it calls. Calls of other actors' methods are left out.
func (p *protocol) follow(actor string, f *ast.FuncDecl, seen map[*ast.FuncDecl]bool, into names) {
	if seen[f] {
		return
	}
	seen[f] = true
	into.add(made(f))
	own := ""
	if f.Recv != nil && len(f.Recv.List[0].Names) > 0 {
		own = f.Recv.List[0].Names[0].Name
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			if callee := p.funcs[""][fun.Name]; callee != nil {
				p.follow(actor, callee, seen, into)
			}
		case *ast.SelectorExpr:
			x, plain := fun.X.(*ast.Ident)
			if plain && x.Name == own {
				if callee := p.funcs[receiverType(f)][fun.Sel.Name]; callee != nil {
					p.follow(actor, callee, seen, into)
					return true
				}
			}
			for _, of := range slices.Sorted(maps.Keys(p.funcs)) {
				if callee := p.funcs[of][fun.Sel.Name]; callee != nil && of != "" && !p.actors[of] && of != "Pod" {
					p.follow(actor, callee, seen, into)
				}
			}
		}
		return true
	})
}

// made returns the messages that a function makes or passes on, those left out
// that become part of another one.
func made(f *ast.FuncDecl) names {
	found, parts := names{}, map[ast.Node]bool{}
	nested := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if n != nil {
				parts[n] = true
			}
			return true
		})
	}
	vars := map[string][]ast.Node{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				switch l := left.(type) {
				case *ast.Ident:
					if i < len(n.Rhs) {
						vars[l.Name] = append(vars[l.Name], n.Rhs[i])
					}
				case *ast.IndexExpr:
					nested(n)
				}
			}
		case *ast.CompositeLit:
			if messageOf(n.Type) != "" {
				for _, e := range n.Elts {
					nested(e)
				}
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "append" {
				for _, arg := range n.Args {
					nested(arg)
					if v, ok := arg.(*ast.Ident); ok {
						for _, value := range vars[v.Name] {
							nested(value)
						}
					}
				}
			}
		}
		return true
	})
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok && !parts[n] {
			if name := messageOf(lit.Type); name != "" {
				found[name] = true
			}
		}
		return true
	})
	if f.Name.Name == "Receive" {
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CaseClause); ok && len(c.List) == 1 && passesOn(&ast.BlockStmt{List: c.Body}, "msg") {
				found[messageOf(c.List[0])] = true
			}
			return true
		})
	}
	for _, param := range f.Type.Params.List {
		for _, name := range param.Names {
			if m := messageOf(param.Type); m != "" && passesOn(f.Body, name.Name) {
				found[m] = true
			}
		}
	}
	delete(found, "")
	return found
}

// passesOn reports whether a message in a variable is sent as it is.
func passesOn(body ast.Node, variable string) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch fun.Sel.Name {
		case "Forward":
			found = true
		case "send", "forward":
			if len(call.Args) == 0 {
				return true
			}
			last, ok := call.Args[len(call.Args)-1].(*ast.Ident)
			found = found || ok && last.Name == variable
		}
		return true
	})
	return found
}

var headerList = regexp.MustCompile(`(?s)(Accepts|Sends): (.*?)\.\s`)

// header returns the messages that the header of an actor says it accepts and sends.
func header(doc string) map[string]names {
	said := map[string]names{"Accepts": {}, "Sends": {}}
	for _, match := range headerList.FindAllStringSubmatch(doc, -1) {
		for name := range strings.SplitSeq(match[2], ",") {
			if name = strings.TrimSpace(name); name != "nothing" {
				said[match[1]][name] = true
			}
		}
	}
	return said
}

// declared returns the messages of the .proto files in their order, and those
// that are a field of another one.
func declared(t *testing.T) (order []string, fields names) {
	t.Helper()
	fields = names{}
	paths, err := filepath.Glob("../messages/*.proto")
	require.NoError(t, err)
	message := regexp.MustCompile(`(?m)^message (\w+)`)
	field := regexp.MustCompile(`(?m)^\s+(?:repeated )?([A-Z]\w+) \w+ = `)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range message.FindAllStringSubmatch(string(text), -1) {
			order = append(order, m[1])
		}
		for _, m := range field.FindAllStringSubmatch(string(text), -1) {
			fields[m[1]] = true
		}
	}
	return order, fields
}

// TestProtocolDiagram: every message has a handler and a sender, and the headers of the
// actors are true.
func TestProtocolDiagram(t *testing.T) {
	t.Parallel()
	p := readProtocol(t)
	order, fields := declared(t)
	senders, receivers := map[string]names{}, map[string]names{}
	note := func(in map[string]names, message, actor string) {
		if in[message] == nil {
			in[message] = names{}
		}
		in[message][actor] = true
	}
	for actor, accepted := range p.accepts {
		for m := range accepted {
			note(receivers, m, actor)
		}
	}
	for _, m := range fromCallers {
		note(senders, m, "caller")
	}
	for _, m := range toCallers {
		note(receivers, m, "caller")
	}
	isPart := func(m string) bool { return fields[m] && receivers[m] == nil }
	for actor := range p.actors {
		maps.DeleteFunc(p.sends[actor], func(m string, _ bool) bool { return isPart(m) })
		for m := range p.sends[actor] {
			note(senders, m, actor)
		}
		said := header(p.headers[actor])
		if got, want := said["Accepts"].sorted(), p.accepts[actor].sorted(); !slices.Equal(got, want) {
			t.Errorf("%s: its header says that it accepts %v; want %v", actor, got, want)
		}
		if got, want := said["Sends"].sorted(), p.sends[actor].sorted(); !slices.Equal(got, want) {
			t.Errorf("%s: its header says that it sends %v; want %v", actor, got, want)
		}
	}
	for _, m := range tree() {
		require.True(t, p.actors[m.name], "%s of the tree is an actor", m.name)
	}
	require.Len(t, p.actors, len(tree()))
	var table strings.Builder
	table.WriteString("# Messages\n\nPrinted from the code of `actors/` and from `messages/*.proto`; `go test ./actors -update` prints it anew.\n")
	table.WriteString("`caller` is an actor of the embedder's, or any other sender to the engine's PID.\n\n")
	table.WriteString("| message | sent by | accepted by |\n| --- | --- | --- |\n")
	for _, m := range order {
		if isPart(m) {
			continue
		}
		if receivers[m] == nil || senders[m] == nil {
			t.Errorf("%s: sent by %v, handled by %v; want at least one each", m, senders[m].sorted(), receivers[m].sorted())
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", m, strings.Join(senders[m].sorted(), ", "), strings.Join(receivers[m].sorted(), ", "))
	}
	golden(t, "messages.md", table.String())
}
