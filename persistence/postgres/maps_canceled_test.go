package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A run that was canceled before it got its tasks has only the elements that it has taken over. It is
// archived with them, and so are others.
func TestARunWithNothingButElementsIsArchived(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Mapped())
	pod := k.join(time.Hour)
	_, grants := k.spreads(pod, 5, 2)
	k.complete(pod, grants...)
	failing := k.completion(pod, k.claim(pod, 5)...)
	for i := range failing.Transitions {
		failing.Transitions[i].Report, failing.Transitions[i].Class = lifecycle.Errored, "error"
	}
	k.send(failing)
	letters, err := k.store.ListDeadLetters(k.ctx, persistence.DeadFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	order := persistence.RequeueOrder{Letter: letters[0].Task, Run: k.draft(storetest.Mapped(), "a", 1)[0].Run}
	_, err = k.store.RequeueDeadLetter(k.ctx, order)
	require.NoError(t, err)
	_, err = k.store.CancelRun(k.ctx, persistence.Cancel{Run: order.Run, Tenant: "a"})
	require.NoError(t, err)
	k.drain(10)
	require.Equal(t, lifecycle.Canceled, k.state(order.Run))
	elements := func() []persistence.TaskRow {
		page, err := k.store.Elements(k.ctx, "a", workflow.TaskID{Run: order.Run, Step: 1}, persistence.ElementQuery{Outputs: true})
		require.NoError(t, err)
		return page.Rows
	}
	before := elements()
	require.Len(t, before, 2)
	require.Equal(t, 2, k.archived(k.bump(pod), persistence.Archive{}).Count)
	require.Equal(t, before, elements())
	k.requireSound()
}
