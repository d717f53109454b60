// Package host is what an engine can run on instead of PostgreSQL: a simulated
// cluster. It is internal, so that only this module can make one.
package host

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// Host is one place for one engine.
type Host struct {
	// Store is where the engine makes its workflows known and reads runs. No
	// fault hits it: what pods do goes through the ports that Launch adds.
	Store persistence.Store
	// Launch completes the options and starts the pod. It must not wait for
	// the actors.
	Launch func(ctx context.Context, options actors.Options) (*actors.Pod, error)
}
