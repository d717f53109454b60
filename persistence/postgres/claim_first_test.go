package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// The statement for first starts leaves suspects, locked tasks, and tasks that are not
// queued to the general statement.
func TestOnlyFirstStartsAreClaimedFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		set     func(k *fixture, id workflow.RunID)
		granted int
	}{
		{"a suspect", func(k *fixture, id workflow.RunID) {
			k.exec("update {schema}.ready_queue set suspect = true where run_id = $1", id)
		}, 3},
		{"two suspects", func(k *fixture, _ workflow.RunID) {
			k.exec("update {schema}.ready_queue set suspect = true where fair_id < (select max(fair_id) from {schema}.ready_queue)")
		}, 2},
		{"a task that is gone", func(k *fixture, id workflow.RunID) {
			k.exec("delete from {schema}.tasks where run_id = $1", id)
		}, 2},
		{"a task that ended", func(k *fixture, id workflow.RunID) {
			k.exec("update {schema}.tasks set state = 13, finished_at = clock_timestamp() where run_id = $1", id)
		}, 2},
		{"a locked task", func(k *fixture, id workflow.RunID) {
			k.hold("select 1 from {schema}.tasks where run_id = $1 for update", id)
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k, pod := withPod(t, storetest.Single())
			ids := k.start(storetest.Single(), "known", 3)
			c.set(k, ids[1])
			require.Len(t, k.claim(pod, 10), c.granted)
			require.False(t, k.store.claimFirst.WorthTrying(1), "not tried again at once")
		})
	}
}
