package census

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tenantsMax bounds the tenants, so that a display has a line for each. The
// small folders beyond it share one.
const tenantsMax = 9

// Others is the tenant of the packages whose own folder is too small to be one.
const Others = "others"

// Package is one folder with Go files.
type Package struct {
	Path   string // from the root of the tree, with slashes; "." is the root itself
	Tenant string // that the demo counts it for
}

// Find returns every package of the tree, by path. As for the go command,
// folders named testdata and those that start with a dot or an underscore hold
// no packages. Tenants are not assigned yet.
func Find(root string) ([]Package, error) {
	var found []Package
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != root && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_")) {
				return filepath.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !isSource(entry.Name()):
			return nil
		}
		relative, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		found = append(found, Package{Path: filepath.ToSlash(relative)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find packages: %w", err)
	}
	slices.SortFunc(found, func(a, b Package) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(found), nil
}

func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_")
}

// Choose returns at most limit of the packages (0: all), spread evenly over
// the tree so that its parts keep their proportions.
func Choose(packages []Package, limit int) []Package {
	if limit <= 0 || limit >= len(packages) {
		return packages
	}
	chosen := make([]Package, limit)
	for i := range chosen {
		chosen[i] = packages[i*len(packages)/limit]
	}
	return chosen
}

// AssignTenants returns the packages with the tenants that they are counted
// for: the largest top-level folders of the tree by name, the rest as Others.
// The loads differ as much as the folders do.
func AssignTenants(packages []Package) []Package {
	sizes := map[string]int{}
	for _, p := range packages {
		sizes[top(p)]++
	}
	delete(sizes, "") // the root itself
	names := make([]string, 0, len(sizes))
	for name := range sizes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
	large := names[:min(len(names), tenantsMax-1)]
	assigned := slices.Clone(packages)
	for i, p := range assigned {
		assigned[i].Tenant = Others
		if slices.Contains(large, top(p)) {
			assigned[i].Tenant = top(p)
		}
	}
	return assigned
}

// top is the first folder of a package's path; the root itself has none.
func top(p Package) string {
	first, _, _ := strings.Cut(path.Clean(p.Path), "/")
	if first == "." {
		return ""
	}
	return first
}
