package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// Where there is little to do, the small statements are sent and no others, so that the
// contract and the differential tests compare them with the model.
func TestTheSmallStatementsAreSent(t *testing.T) {
	t.Parallel()
	tracer := &counter{}
	g := storetest.Diamond()
	k := newFixture(openDatabase(t, Options{Tracer: tracer}), g)
	pod := k.join(time.Hour)
	k.start(g, "known", 1)
	k.finish(pod)
	sent := func(do func()) []string {
		tracer.take()
		do()
		return tracer.take()
	}
	var grants []persistence.Grant
	record := func() {
		record := k.completion(pod, grants...)
		record.Limit, record.Spare = 10, 10
		record.Handlers, record.Queues = k.handlers, []string{registry.DefaultQueue}
		out := k.record(record)
		grants = out.Grants
	}
	small := []string{"check_pod", "lock_runs", "record_small"}
	k.store.claimFirst.Hit(1) // the steps of the first run may have missed it
	require.Equal(t, []string{"trigger_single"}, sent(func() { k.start(g, "known", 1) }))
	require.Equal(t, []string{"claim_first"}, sent(func() { grants = k.claim(pod, 10) }))
	for _, next := range []int{2, 1, 0} {
		require.Equal(t, small, sent(record))
		require.Len(t, grants, next)
	}
	require.Equal(t, []string{"trigger_single_granted"}, sent(func() {
		take := k.taking()
		take.Pod = pod
		out := k.trigger(k.draft(g, "known", 1), take)
		require.Len(t, out.Grants, 1)
	}))
	k.requireSound()
}
