package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A record does not scan the served places again, but scans all of them from time to time.
func TestRecordsRememberServedPlaces(t *testing.T) {
	t.Parallel()
	k := newKit(schemas(t)(t), storetest.Chain(9))
	k.join(time.Hour)
	k.start(storetest.Chain(9), "a", 1)
	held := k.claim(1, 1)
	record := func() head {
		r := k.completion(1, held...)
		r.Limit, r.Queues, r.Handlers = 1, []string{defaultQueue}, k.request(1, 1).Handlers
		out := k.record(r)
		require.Len(t, out.Grants, 1)
		held = out.Grants
		return k.store.heads.queues[k.store.catalog.queueNumber(defaultQueue)]
	}
	set := func(until time.Time) {
		number := k.store.catalog.queueNumber(defaultQueue)
		k.store.heads.note(looked{queues: []int16{number}, after: []int64{k.store.heads.queues[number].after}, until: []time.Time{until}})
	}
	first := record()
	require.Equal(t, lifecycle.FairID(0, 0, 1), first.after, "the first block is served: new tasks come after it")
	set(first.until.Add(time.Minute))
	require.WithinDuration(t, first.until.Add(time.Minute), record().until, 0, "everything was looked at a moment ago")
	for name, until := range map[string]time.Time{
		"it is time for another look": first.until.Add(-time.Hour), "the clock was set back": first.until.Add(time.Hour),
	} {
		set(until)
		require.WithinRange(t, record().until, first.until, first.until.Add(time.Minute), name)
	}
}
