package sim

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/persistence"
)

var (
	errCrashed = errors.New("the pod has crashed")
	errPlanned = errors.New("a fault of the simulation")

	errLost     = fmt.Errorf("%w: the connection is lost", persistence.ErrUnavailable)
	errConflict = fmt.Errorf("%w: could not serialize access", persistence.ErrConflict)
	errGivenUp  = fmt.Errorf("%w: %w", persistence.ErrUnavailable, errTimeout)
	errDown     = errors.New("the connection is lost")
	errOver     = errors.New("the session has ended")
)
