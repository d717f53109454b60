package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/migrations"
)

// Options say what a demo counts and where it shows it.
type Options struct {
	Root    string        // of the tree of Go source
	Limit   int           // most packages; 0: all
	JSON    bool          // end with one line of JSON
	Keep    bool          // leave the database, for commands that look at it
	Out     io.Writer     // a terminal gets a display, anything else plain lines
	Program string        // that runs a pod when called with PodCommand
	Environ []string      // for the pods; its TROUPE_ variables come before the demo's
	Config  troupe.Config // what those variables say

	DatabaseURL string // of a server to use; "": start one
}

const (
	podCount = 3

	// A dead pod is noticed within a lease. These are a fifth of the defaults,
	// so that the demo need not wait for it; a pod that stalls for longer than
	// two seconds would be taken for dead.
	demoPulse = time.Second
	demoLease = 3 * time.Second
	demoSlots = 4
)

// Validate returns everything that is wrong, joined.
func (o Options) Validate() error {
	values, err := environment.Read(o.podEnviron("")) // as its pods will
	if err == nil {
		err = values.Validate()
	}
	if o.Limit < 0 {
		err = errors.Join(err, fmt.Errorf("--packages is %d: use 0 for all", o.Limit))
	}
	return err
}

func (o Options) slots() int {
	if o.Config.Slots > 0 {
		return o.Config.Slots
	}
	return demoSlots
}

// podEnviron is the environment of a pod on the database.
func (o Options) podEnviron(databaseURL string) []string {
	defaults := []string{
		"TROUPE_SLOTS=4", "TROUPE_STOP_GRACE=5s",
		"TROUPE_PULSE=" + demoPulse.String(), "TROUPE_LEASE=" + demoLease.String(),
	}
	fixed := []string{"TROUPE_DATABASE_URL=" + databaseURL, "TROUPE_SCHEMA=" + migrations.DefaultSchema}
	environ := defaults
	for _, entry := range o.Environ {
		if !strings.HasPrefix(entry, "TROUPE_DIRECT_URL=") && !strings.HasSuffix(entry, "=") {
			environ = append(environ, entry) // of two entries with a name the last counts
		}
	}
	return append(environ, fixed...)
}
