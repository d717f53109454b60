package postgres

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/wire"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/history"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/inbox"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/readers"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/requeue"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
)

// Store is a persistence.Store in PostgreSQL. It is safe for concurrent use.
type Store struct {
	*pgsql.DB
	*registry.Registry
	history.History
	readers.Reader
	requeue.Requeuer
	steptx.Steps
	inbox.Sender

	recentRunAge          time.Duration   // of runs that a statement alone may store
	callDeadline          time.Duration   // after which no caller waits any more for the answer of a call
	direct                bool            // the pool of the user has another address than the lease's connection
	lease                 *sessions.Lease // apart: nothing that pool is busy with delays a renewal
	proxied               *sessions.Line  // apart, too, the way that pool goes; nil: the way of lease
	servers               *wire.Lineage   // past any proxy
	tenantsMax            int32
	recent                *adaptive.Recent
	claims                *adaptive.Claims
	emptyBelow            *adaptive.EmptyBelow
	claimFirst            *adaptive.FastPath // by queue, whether claim_first will do
	recordSmall           *adaptive.FastPath // by its queue, whether record_small will do for a pod
	triggerSinglesGranted *adaptive.FastPath // by queue, whether trigger_single_granted will
	quarantine            *quarantine.Locks
	timers                timerScan
	at                    atomic.Pointer[place] // where the own pool led to when it was asked last; nil: it was not

	laterTimers sync.Once // a warning of them
	deadReasons []lifecycle.DeadReason
	podID       func() int64 // of the next pod that joins
}
