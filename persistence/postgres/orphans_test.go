package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// Due timers of runs whose rows were deleted by hand are removed and counted, however
// many stand before others.
func TestTimersOfRemovedRunsGo(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	runs := k.start(g, "a", 20)
	k.complete(pod, k.claim(pod, 20)...)
	k.exec("delete from {schema}.workflow_runs where id = any($1)", pgsql.UUIDs(runs[:10]))
	k.exec(`insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch)
		select gen_random_uuid(), 1, 1, now() - interval '1 hour', 1 from generate_series(1, $1::int)`, timersMax+10)
	orphans, fired := 0, 0
	for more := true; more; {
		out := k.fire(epoch, 4)
		orphans, fired, more = orphans+out.Orphans, fired+out.Count, out.More
	}
	require.Equal(t, timersMax+20, orphans)
	require.Equal(t, 10, fired)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(runs[10]))
}

// Timers that cannot fire, however many, keep no others from firing.
func TestManyTimersThatCannotFire(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	k.start(g, "a", 1)
	k.complete(pod, k.claim(pod, 1)...)
	crowd := `insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch)
		select gen_random_uuid(), n, $1, now() + make_interval(secs => $2::int + n * 0.001), 1 from generate_series(1, $3::int) n`
	k.exec(crowd, lifecycle.TimerKindMax, -3600, 2*timersMax)
	k.exec(crowd, lifecycle.TimerKindMax, -30, 2*timersMax)
	k.exec("update {schema}.durable_timers set wake_at = now() - interval '10 minutes' where kind <> $1", lifecycle.TimerKindMax)
	require.Equal(t, 1, k.fireAll(epoch))
}

// Neither do those that are due at one instant.
func TestTimersOfOneInstantThatCannotFire(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	k.start(g, "a", 1)
	k.complete(pod, k.claim(pod, 1)...)
	crowd := `insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch)
		select gen_random_uuid(), n, $1, $2::text::timestamptz, 1 from generate_series(1, $3::int) n`
	k.exec(crowd, lifecycle.TimerKindMax, "2020-01-01", timersMax/2)
	k.exec(crowd, lifecycle.TimerKindMax, "2020-01-02", timersMax-10)
	k.exec(crowd, lifecycle.TimerKindMax, "2020-01-03", 2*timersMax)
	k.exec("update {schema}.durable_timers set wake_at = '2020-01-02' where kind <> $1", lifecycle.TimerKindMax)
	require.Equal(t, 1, k.fireAll(epoch))
}

// fireAll fires timers until a call says that there are no more, and returns how many.
func (k *fixture) fireAll(epoch int64) (fired int) {
	k.t.Helper()
	for range 20 {
		out := k.fire(epoch, 4)
		if fired += out.Count; !out.More {
			return fired
		}
	}
	require.Fail(k.t, "the calls have no end")
	return fired
}
