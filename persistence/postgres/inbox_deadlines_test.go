package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A deadline is decided after the signals that were sent before it, also where these are more than
// one transaction delivers.
func TestDeadlinesOfFullInboxes(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Approval())
	epoch := k.bump(pod)
	runs := k.start(storetest.Approval(), "a", 3)
	k.exec(`insert into {schema}.inbox (run_id, id, name, at, payload)
		select r, i::text, 'approved', now() - interval '1 h', '' from unnest($1::uuid[]) r, generate_series(1, $2::int) i`, [][16]byte{runs[0], runs[1]}, deliverMax-10)
	for _, run := range runs {
		k.signal(signalOf(run, "reminded", "in time"))
	}
	k.exec("update {schema}.inbox set at = now() - interval '1 h'")
	k.exec("update {schema}.durable_timers set wake_at = now() - interval '1 min'")
	for range 5 {
		_, err := k.store.FireTimers(k.ctx, epoch, 100)
		require.NoError(t, err)
	}
	require.Equal(t, "completed completed completed", value[string](k.database, "select string_agg(state, ' ') from {schema}.step_list where step = 'remind'"))
	k.requireSound()
}
