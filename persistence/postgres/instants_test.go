package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// An operator may mean "now" and "never" by instants that are infinite: they hold up
// nobody else, on connections of each kind.
func TestInfiniteInstants(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{"direct": {}, "proxied": {Proxied: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Nap(time.Nanosecond)
			k := newKit(openDatabase(t, options), g)
			pod := k.join(time.Hour)
			epoch, err := k.store.BumpEpoch(k.ctx, pod)
			require.NoError(t, err)
			runs := k.start(g, "a", 3)
			k.complete(pod, k.claim(pod, 3)...)
			k.exec("update {schema}.durable_timers set wake_at = '-infinity' where run_id = $1", runs[0])
			k.exec("update {schema}.durable_timers set wake_at = 'infinity' where run_id = $1", runs[1])
			fired, err := k.store.FireTimers(k.ctx, epoch, 10)
			require.NoError(t, err)
			require.Equal(t, 2, fired.Count)
			require.Equal(t, sessions.FarAhead, fired.Next.UTC())
			fired, err = k.store.FireTimers(k.ctx, epoch, 10)
			require.NoError(t, err)
			require.Zero(t, fired.Count)
			k.finish(pod)
			inspector, err := NewInspector(k.user, k.store.schema)
			require.NoError(t, err)
			k.exec("update {schema}.tasks set queued_at = 'infinity', started_at = '-infinity' where run_id = $1", runs[1])
			situation, err := inspector.Situation(k.ctx, "", runs[1])
			require.NoError(t, err)
			require.Equal(t, [2]time.Time{sessions.FarAhead, sessions.LongAgo.UTC()}, [2]time.Time{situation.Tasks[0].QueuedAt.UTC(), situation.Tasks[0].StartedAt.UTC()})
			require.ElementsMatch(t, []workflow.RunID{runs[0], runs[2]}, value[[]workflow.RunID](k.database, "select array_agg(id order by id) from {schema}.workflow_runs where state = 10"))

			dead, endless := k.join(time.Hour), k.join(time.Hour)
			k.exec("update {schema}.pods set expires_at = '-infinity' where id = $1", dead)
			k.exec("update {schema}.pods set expires_at = 'infinity' where id = $1", endless)
			expired, err := k.store.ExpirePods(k.ctx, epoch, 3, 10, time.Time{})
			require.NoError(t, err)
			require.Equal(t, []int64{dead}, expired.Pods)
			require.Less(t, expired.NextExpiry.Sub(expired.Now), 2*time.Hour)
			expired, err = k.store.ExpirePods(k.ctx, epoch, 3, 10, time.Time{})
			require.NoError(t, err)
			require.Empty(t, expired.Pods)
		})
	}
}
