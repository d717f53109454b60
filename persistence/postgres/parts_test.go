package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A record that is stored in parts, because one run stands in the way, grants no
// more children in all than the pod has slots for.
func TestARecordInPartsKeepsItsLimit(t *testing.T) {
	t.Parallel()
	g := storetest.Fan(10)
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 1)
	k.start(g, "b", 3)
	var first persistence.Grant
	var others []persistence.Grant
	for _, grant := range k.claim(pod, 4) {
		if grant.Tenant == "a" {
			first = grant
		} else {
			others = append(others, grant)
		}
	}
	require.Len(t, others, 3)
	// Nobody sees what others have inserted and not committed, or who has.
	const insert = `insert into {schema}.tenant_groups (queue, group_id, lane, block)
		select g.queue, g.group_id, 0, g.block from {schema}.tenant_groups g join {schema}.tenants n using (group_id) where n.tenant = '%s'`
	k.exec(fmt.Sprintf(insert, "b"))
	release := k.hold(fmt.Sprintf(insert, "a"))
	record := k.completion(pod, others[0], first, others[1], others[2])
	record.InlineSpare, record.InlineLimit = 3, 7
	record.InlineQueues, record.InlineHandlers = []string{defaultQueue}, k.handlers
	out, err := k.store.RecordTransitions(k.ctx, record)
	require.NoError(t, err)
	release()
	busy := 0
	for _, answer := range out.Answers {
		if answer.Result == lifecycle.Busy {
			busy++
		}
	}
	require.Equal(t, 1, busy)
	require.Len(t, out.Grants, record.InlineLimit)
}
