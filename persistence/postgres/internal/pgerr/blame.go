package pgerr

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
)

// Blamed judges a value that was refused by trials without it, and with it again:
// what refused it may be the schema, or gone by now.
func Blamed(cause, bare error, again func() error) error {
	if errors.Is(bare, persistence.ErrBadRow) {
		return RefusesAnything(cause)
	}
	if bare != nil {
		return bare
	}
	switch err := again(); {
	case errors.Is(err, persistence.ErrBadRow):
		return nil
	case err == nil:
		return fmt.Errorf("%w: what refused a row does not refuse it any more: %s", persistence.ErrUnavailable, cause.Error())
	default:
		return err
	}
}
