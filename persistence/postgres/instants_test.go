package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// An operator may write infinite instants for "now" and "never": they delay no other rows,
// on connections of each kind.
func TestInfiniteInstants(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{"direct": {}, "proxied": {Proxied: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Nap(time.Nanosecond)
			k := newFixture(openDatabase(t, options), g)
			pod := k.join(time.Hour)
			epoch := k.bump(pod)
			runs := k.start(g, "a", 3)
			k.complete(pod, k.claim(pod, 3)...)
			k.exec("update {schema}.durable_timers set wake_at = '-infinity' where run_id = $1", runs[0])
			k.exec("update {schema}.durable_timers set wake_at = 'infinity' where run_id = $1", runs[1])
			fired := k.fire(epoch, 10)
			require.Equal(t, 2, fired.Count)
			require.Equal(t, sessions.FarAhead, fired.Next.UTC())
			fired = k.fire(epoch, 10)
			require.Zero(t, fired.Count)
			k.finish(pod)
			inspector, err := NewInspector(k.user, k.store.Schema)
			require.NoError(t, err)
			k.exec("update {schema}.tasks set queued_at = 'infinity', started_at = '-infinity' where run_id = $1", runs[1])
			situation, err := inspector.Situation(k.ctx, "", runs[1])
			require.NoError(t, err)
			require.Equal(t, [2]time.Time{sessions.FarAhead, sessions.LongAgo.UTC()}, [2]time.Time{situation.Tasks[0].QueuedAt.UTC(), situation.Tasks[0].StartedAt.UTC()})
			require.ElementsMatch(t, []workflow.RunID{runs[0], runs[2]}, value[[]workflow.RunID](k.database, "select array_agg(id order by id) from {schema}.workflow_runs where state = 10"))

			dead, endless := k.join(time.Hour), k.join(time.Hour)
			k.exec("update {schema}.pods set expires_at = '-infinity' where id = $1", dead)
			k.exec("update {schema}.pods set expires_at = 'infinity' where id = $1", endless)
			expired := k.expire(epoch, 10)
			require.Equal(t, []int64{dead}, expired.Pods)
			require.Less(t, expired.NextExpiry.Sub(expired.Now), 2*time.Hour)
			expired = k.expire(epoch, 10)
			require.Empty(t, expired.Pods)
		})
	}
}
