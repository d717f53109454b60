package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A record does not scan the served places again, but scans all of them from time to time.
func TestRecordsRememberServedPlaces(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Chain(9))
	k.join(time.Hour)
	k.start(storetest.Chain(9), "a", 1)
	held := k.claim(1, 1)
	record := func() adaptive.Head {
		r := k.completion(1, held...)
		r.Limit, r.Queues, r.Handlers = 1, []string{registry.DefaultQueue}, k.request(1, 1).Handlers
		out := k.record(r)
		require.Len(t, out.Grants, 1)
		held = out.Grants
		return k.store.emptyBelow.Queues[k.store.Catalog.QueueNumber(registry.DefaultQueue)]
	}
	set := func(until time.Time) {
		number := k.store.Catalog.QueueNumber(registry.DefaultQueue)
		k.store.emptyBelow.Note(adaptive.Looked{Queues: []int16{number}, After: []int64{k.store.emptyBelow.Queues[number].After}, Until: []time.Time{until}})
	}
	first := record()
	require.Equal(t, lifecycle.FairID(0, 0, 1), first.After, "the first block is served: new tasks come after it")
	set(first.Until.Add(time.Minute))
	require.WithinDuration(t, first.Until.Add(time.Minute), record().Until, 0, "everything was looked at a moment ago")
	for name, until := range map[string]time.Time{
		"it is time for another look": first.Until.Add(-time.Hour), "the clock was set back": first.Until.Add(time.Hour),
	} {
		set(until)
		before := value[time.Time](k.database, "select clock_timestamp()")
		require.WithinRange(t, record().Until, before, before.Add(time.Minute), name)
	}
}
