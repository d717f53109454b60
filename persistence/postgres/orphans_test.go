package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Timers of runs that somebody removed do not stand in the way of others, wait for
// their runs to be put back, and go after an hour.
func TestTimersOfRemovedRunsGo(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	fire := func() int {
		out, err := k.store.FireTimers(k.ctx, epoch, 4)
		require.NoError(t, err)
		return out.Count
	}
	timers := func() int { return value[int](k.database, "select count(*)::int from {schema}.durable_timers") }
	runs := k.start(g, "a", 17)
	k.complete(pod, k.claim(pod, 17)...)
	gone := append(slices.Clone(runs[:8]), runs[9:]...)
	k.exec("create table {schema}.removed as select * from {schema}.workflow_runs where id = any($1)", uuids(gone))
	k.exec("delete from {schema}.workflow_runs where id = any($1)", uuids(gone))
	k.exec("update {schema}.durable_timers set wake_at = wake_at - interval '59 minutes' where run_id = any($1)", uuids(runs[:8]))
	for fired := 0; fired < 1; { // there are as many before it as after it
		fired += fire()
	}
	require.Equal(t, 16, timers())
	look := func(missedFor time.Duration) {
		k.store.orphans.tried = time.Time{}
		for run, at := range k.store.orphans.since {
			k.store.orphans.since[run] = at.Add(-missedFor)
		}
		fire()
	}
	look(0)
	look(59 * time.Minute)
	require.Equal(t, 16, timers())
	k.exec("insert into {schema}.workflow_runs select * from {schema}.removed where id = any($1)", uuids(runs[:1]))
	require.Equal(t, 1, fire())
	k.exec("delete from {schema}.durable_timers where run_id = $1", runs[1])
	look(0) // what is there again is not missed any more
	k.exec("insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch) values ($1, 1, 1, now() - interval '2 hours', 1)", runs[1])
	look(time.Hour)
	require.Equal(t, 1, timers(), "of the one that was missed a moment ago")
	look(time.Hour)
	require.Zero(t, timers())
	look(0)
	require.Empty(t, k.store.orphans.since)
	k.finish(pod)
	for _, run := range []workflow.RunID{runs[0], runs[8]} {
		require.Equal(t, lifecycle.Completed, k.state(run))
	}
}

// They do not do so while somebody holds runs whose timers are due, either: as when
// runs are being removed, in more than one transaction.
func TestTimersOfRemovedRunsBesideHeldOnes(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	runs := k.start(g, "a", 30)
	k.complete(pod, k.claim(pod, 30)...)
	for i, run := range runs {
		k.exec("update {schema}.durable_timers set wake_at = now() - make_interval(secs => $2) where run_id = $1", [16]byte(run), float64(3600-i))
	}
	held, gone, alive := slices.Concat(runs[:1], runs[29:]), slices.Concat(runs[1:14], runs[15:29]), runs[14]
	k.exec("delete from {schema}.workflow_runs where id = any($1)", uuids(gone))
	k.hold("delete from {schema}.workflow_runs where id = any($1)", uuids(held))
	out, err := k.store.FireTimers(k.ctx, epoch, 4)
	require.NoError(t, err)
	require.Equal(t, 1, out.Count)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(alive))
}

// Another leader, and one that could not look for long, know nothing of how long a
// run has not been there: it may have been put back and removed again.
func TestAnotherTermMissesRunsAnew(t *testing.T) {
	t.Parallel()
	k, g, pod, first := newNaps(t)
	run := k.start(g, "a", 1)[0]
	k.complete(pod, k.claim(pod, 1)...)
	k.exec("update {schema}.durable_timers set wake_at = now() - interval '1 minute'")
	k.exec("delete from {schema}.workflow_runs")
	timers := func() int { return value[int](k.database, "select count(*)::int from {schema}.durable_timers") }
	look := func(epoch int64, ago, blind time.Duration) {
		o := &k.store.orphans
		o.tried, o.seen = o.tried.Add(-orphansSeen), o.seen.Add(-blind)
		if o.since != nil {
			o.since[run] = o.since[run].Add(-ago)
		}
		_, err := k.store.FireTimers(k.ctx, epoch, 4)
		require.NoError(t, err)
	}
	look(first, 0, 0)
	second, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	look(second, orphansKept, 0)
	require.Equal(t, 1, timers(), "another term")
	look(second, orphansKept, orphansBlind)
	require.Equal(t, 1, timers(), "nothing was seen for long")
	look(second, orphansKept, 0)
	require.Zero(t, timers())
}

// Where they are many, looks pass over what is as old as they are, but for a
// twentieth of the time.
func TestManyTimersOfRemovedRuns(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	fire := func() int {
		out, err := k.store.FireTimers(k.ctx, epoch, 10)
		require.NoError(t, err)
		return out.Count
	}
	o := &k.store.orphans
	k.exec(`insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch)
		select gen_random_uuid(), 1, 1, now() - interval '1 hour', 1 from generate_series(1, $1::int)`, orphansMany)
	require.Zero(t, fire())
	require.Len(t, o.since, orphansMany)
	require.Zero(t, fire())
	require.False(t, o.whole.IsZero())
	runs := k.start(g, "a", 2)
	k.complete(pod, k.claim(pod, 2)...)
	k.exec("update {schema}.durable_timers set wake_at = now() - interval '2 hours' where run_id = $1", [16]byte(runs[0]))
	o.whole = o.whole.Add(time.Hour)
	require.Eventually(t, func() bool { return fire() == 1 }, 5*time.Second, time.Millisecond)
	require.Zero(t, fire())
	o.whole = time.Time{}
	require.Equal(t, 1, fire(), "everything is looked at again")
	require.Zero(t, fire())
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(runs[0]))
}
