package postgres

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A payload that the disk has lost is the concern of its run: others are claimed,
// and it is, too, to be read by its attempt.
func TestAPayloadThatCannotBeReadStopsNobodyElse(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	list := k.draft(storetest.Single(), "a", 3)
	for i := range list {
		noise := make([]byte, 8000) // does not shrink, and is kept apart from its row
		_, _ = rand.Read(noise)
		list[i].Input = noise
		require.Equal(t, persistence.Triggered, k.ask(list[i])[0].Result)
	}
	k.exec(`create extension pg_surgery;
		do $$ declare toast regclass; place tid; begin
			select reltoastrelid into toast from pg_class where oid = '{schema}.workflow_runs'::regclass;
			execute format('select ctid from %s order by chunk_id limit 1', toast) into place;
			perform heap_force_kill(toast, array[place]);
		end $$`)
	claimed := k.claim(pod, 10)
	require.Len(t, claimed, 3)
	read := map[bool]int{}
	for _, g := range claimed {
		require.True(t, g.LargeInput)
		input, err := k.store.Payload(k.ctx, workflow.TaskID{Run: g.Task.Run, Step: -1})
		read[err == nil]++
		if err != nil {
			require.Equal(t, list[0].Run, g.Task.Run)
			require.NotErrorIs(t, err, persistence.ErrUnavailable)
			continue
		}
		require.Len(t, input, 8000)
	}
	require.Equal(t, map[bool]int{true: 2, false: 1}, read)
	k.complete(pod, claimed...)
	k.exec(`delete from {schema}.workflow_runs where id = $1`, list[0].Run)
}
