package census_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
)

// plant writes files, by path, into a folder of its own.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
	}
	return root
}

func TestFindSkipsWhatTheGoCommandSkips(t *testing.T) {
	t.Parallel()
	root := plant(t, map[string]string{
		"a.go": "package a", "b/b.go": "package b", "b/c.go": "package b", "b/deep/er/d.go": "package er",
		"b/testdata/x.go": "package x", "_c/x.go": "package x", ".d/x.go": "package x",
		"e/_x.go": "package x", "e/.x.go": "package x", "f/readme.md": "text",
	})
	found, err := census.Find(root)
	require.NoError(t, err)
	require.Equal(t, []census.Package{{Path: "."}, {Path: "b"}, {Path: "b/deep/er"}}, found)
}

func TestFindNamesAMissingFolder(t *testing.T) {
	t.Parallel()
	_, err := census.Find(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestChooseKeepsProportions(t *testing.T) {
	t.Parallel()
	var packages []census.Package
	for i := range 100 {
		packages = append(packages, census.Package{Path: strconv.Itoa(i)})
	}
	require.Len(t, census.Choose(packages, 0), 100)
	require.Len(t, census.Choose(packages, 500), 100)
	chosen := census.Choose(packages, 4)
	require.Equal(t, []census.Package{{Path: "0"}, {Path: "25"}, {Path: "50"}, {Path: "75"}}, chosen)
}

func TestAssignTenantsGathersTheSmallFolders(t *testing.T) {
	t.Parallel()
	var packages []census.Package
	for folder := range 20 {
		for i := range 20 - folder {
			packages = append(packages, census.Package{Path: "f" + strconv.Itoa(folder) + "/" + strconv.Itoa(i)})
		}
	}
	packages = append(packages, census.Package{Path: "."})
	counts := map[string]int{}
	for _, p := range census.AssignTenants(packages) {
		counts[p.Tenant]++
	}
	require.Len(t, counts, 9)
	require.Equal(t, 20, counts["f0"])
	require.Equal(t, 13, counts["f7"])
	require.Equal(t, 12*13/2+1, counts[census.Others])
	require.Empty(t, packages[0].Tenant, "the argument stays as it is")
}

const sample = `// Package p is a sample.
package p

/* a
block */
import "fmt"

const a, b = 1, 2 // two names

var c int

type (
	d struct{}
	e int
)

func (d) f() { fmt.Println("// no comment") }
func g()     {}`

const sampleTest = `package p

import "testing"

func TestMain(*testing.M)        {}
func TestG(*testing.T)           {}
func Testament()                 {}
func Test(*testing.T)            {}
func BenchmarkG(*testing.B)      {}
func ExampleG()                  {}
func FuzzG(*testing.F)           {}
func (d) TestMethod(*testing.T)  {}
`

func TestCountsOfASample(t *testing.T) {
	t.Parallel()
	root := plant(t, map[string]string{"p/p.go": sample, "p/p_test.go": sampleTest, "q/q.go": "package q\nfunc (", "p/n.txt": "x"})
	listing, err := census.List(root, "p")
	require.NoError(t, err)
	require.Equal(t, census.Listing{Package: "p", Sources: []string{"p.go"}, Tests: []string{"p_test.go"}}, listing)

	declarations, err := census.CountDeclarations(root, listing)
	require.NoError(t, err)
	require.Equal(t, 7+8, declarations)
	comments, err := census.CountComments(root, listing)
	require.NoError(t, err)
	require.Equal(t, 3, comments)
	tests, err := census.CountTests(root, listing)
	require.NoError(t, err)
	require.Equal(t, 5, tests)
	size, err := census.CountSize(root, listing)
	require.NoError(t, err)
	require.Equal(t, census.Size{Bytes: len(sample) + len(sampleTest), Lines: 18 + 12}, size)

	total, err := census.Count(root, []census.Package{{Path: "p"}, {Path: "q"}}, func() bool { return true })
	require.NoError(t, err)
	require.Equal(t, census.Total{
		Packages: 2, Files: 3, Lines: 30 + 2, Bytes: size.Bytes + len("package q\nfunc ("),
		Declarations: total.Declarations, Comments: 3, Tested: 1, Tests: 5,
	}, total)
	require.GreaterOrEqual(t, total.Declarations, 15, "a broken file counts for what it has")
}

func TestCountEndsWhenAsked(t *testing.T) {
	t.Parallel()
	root := plant(t, map[string]string{"p/p.go": sample})
	total, err := census.Count(root, []census.Package{{Path: "p"}}, func() bool { return false })
	require.NoError(t, err)
	require.Zero(t, total)
}
