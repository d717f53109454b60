package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// TestDifferentialUsesEverything looks into the differential test for every
// method of the ports and every field of what they take: what is added to a
// port is compared, or this fails.
func TestDifferentialUsesEverything(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("differential*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	used := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				used[n.Sel.Name] = true
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					used[key.Name] = true
				}
			}
			return true
		})
	}
	store := reflect.TypeFor[persistence.Store]()
	require.Positive(t, store.NumMethod())
	for i := range store.NumMethod() {
		method := store.Method(i)
		require.True(t, used[method.Name], "no operation calls %s", method.Name)
		for j := range method.Type.NumIn() {
			for _, field := range fieldsOf(method.Type.In(j)) {
				require.True(t, used[field], "no operation says %s of %s", field, method.Name)
			}
		}
	}
}

// fieldsOf lists the fields of what a method takes, and of what is in them.
func fieldsOf(in reflect.Type) []string {
	for in.Kind() == reflect.Slice || in.Kind() == reflect.Pointer || in.Kind() == reflect.Func && in.NumOut() > 0 {
		if in.Kind() == reflect.Func {
			in = in.Out(0)
			continue
		}
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct || in.PkgPath() != reflect.TypeFor[persistence.Store]().PkgPath() {
		return nil
	}
	var names []string
	for i := range in.NumField() {
		field := in.Field(i)
		names = append(names, field.Name)
		names = append(names, fieldsOf(field.Type)...)
	}
	return names
}
