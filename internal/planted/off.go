//go:build !planted

package planted

// Choose switches a mistake on, in a binary that has them.
func Choose(name string) error {
	if name == "" {
		return nil
	}
	return ErrNotPlanted
}
