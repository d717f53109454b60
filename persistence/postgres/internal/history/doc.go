// Package history keeps ended runs and the events of tasks in tables by time, its spans.
//
// Runs are archived some time after they end, into the span of their class and of that
// instant. A span of runs is sealed when it is over, so that a run is looked for only in
// spans that may have it, and dropped when its runs have been kept for long enough. A
// span of events is closed and emptied of the events of living runs before it is dropped.
//
// Runs are counted as they are archived, by the hour and the day in which they ended. Spans
// that a leader of an earlier version has written to are counted later, piece by piece.
package history

import (
	"sync"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// History implements persistence.History. It is safe for concurrent use.
type History struct {
	*pgsql.DB
	counts counting
}

var _ persistence.History = (*History)(nil)

// counting is what a process remembers of counts and indexes. It is safe for concurrent use.
type counting struct {
	mu       sync.Mutex
	moved    int            // runs since the last fold
	tooLarge map[int32]bool // spans whose labels could not be indexed
}
