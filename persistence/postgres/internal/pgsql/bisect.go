package pgsql

// Bisect calls do with all items. Where it fails with an error that one item may be to
// blame for, Bisect calls it with each half instead, until a culprit is alone: alone
// gets it, with the error. Any other error, and one that alone returns, ends the search.
// do has to leave nothing behind where it fails.
func Bisect[T any](items []T, do func(items []T) error, blames func(error) bool, alone func(item T, err error) error) error {
	err := do(items)
	switch {
	case err == nil || len(items) == 0 || !blames(err):
		return err
	case len(items) == 1:
		return alone(items[0], err)
	}
	half := len(items) / 2
	if err := Bisect(items[:half], do, blames, alone); err != nil {
		return err
	}
	return Bisect(items[half:], do, blames, alone)
}
