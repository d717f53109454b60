//go:build planted

package planted

import (
	"fmt"
	"slices"
)

// chosen is set once, before anything runs.
var chosen string

// Choose switches a mistake on; "": none.
func Choose(name string) error {
	if name != "" && !slices.ContainsFunc(All(), func(p Plant) bool { return p.Name == name }) {
		return fmt.Errorf("no mistake is called %q", name)
	}
	chosen = name
	return nil
}

// On reports whether a mistake is switched on.
func On(name string) bool { return chosen == name }
