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

// startNoisy stores runs whose inputs are kept apart from their rows.
func (k *kit) startNoisy(n int) []persistence.Trigger {
	k.t.Helper()
	list := k.draft(storetest.Single(), "a", n)
	for i := range list {
		noise := make([]byte, 8000) // does not shrink
		_, _ = rand.Read(noise)
		list[i].Input = noise
		require.Equal(k.t, persistence.Triggered, k.ask(list[i])[0].Result)
	}
	return list
}

// loseInput takes a part of the input of the first run that was stored from the
// disk.
func (k *kit) loseInput() {
	k.t.Helper()
	k.exec(`create extension pg_surgery;
		do $$ declare toast regclass; place tid; begin
			select reltoastrelid into toast from pg_class where oid = '{schema}.workflow_runs'::regclass;
			execute format('select ctid from %s order by chunk_id limit 1', toast) into place;
			perform heap_force_kill(toast, array[place]);
		end $$`)
}

// A payload that the disk has lost is the concern of its run: others are claimed,
// and it is, too, to be read by its attempt.
func TestAPayloadThatCannotBeReadStopsNobodyElse(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	list := k.startNoisy(3)
	k.loseInput()
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

// A run that the disk has lost a part of stays where it is; others go into history.
func TestARunThatCannotBeReadIsNotArchived(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	list := k.startNoisy(5)
	k.complete(pod, k.claim(pod, 10)...)
	k.loseInput()
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	out, err := k.store.ArchiveRuns(k.ctx, epoch, persistence.Archive{})
	require.NoError(t, err)
	require.Equal(t, 4, out.Count)
	require.Equal(t, []workflow.RunID{list[0].Run}, out.Unreadable)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.workflow_runs"))
	k.exec(`delete from {schema}.tasks; delete from {schema}.workflow_runs`)
}
