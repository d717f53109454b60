package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

const countersGone = "truncate {schema}.tenant_groups"

// Places are never given twice, whoever gives the first one after somebody
// removed the counters: the counters are read off the places that are taken.
func TestRemovedCountersAreMadeAgain(t *testing.T) {
	t.Parallel()
	diamond := storetest.Diamond()
	backlog := func(t *testing.T) (k *kit, pod int64, ids []workflow.RunID) {
		t.Helper()
		k = newKit(schemas(t)(t), diamond)
		pod = k.join(time.Hour)
		ids = k.start(diamond, "known", 20)
		k.complete(pod, k.claim(pod, 5)...) // ten children wait, and fifteen runs
		return k, pod, ids
	}
	ends := func(t *testing.T, k *kit, pod int64, ids []workflow.RunID) {
		t.Helper()
		k.finish(pod)
		for _, id := range ids {
			require.Equal(t, lifecycle.Completed, k.state(id))
		}
		k.requireSound()
	}
	t.Run("by one statement", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := backlog(t)
		k.exec(countersGone)
		ends(t, k, pod, append(ids, k.start(diamond, "known", 3)...))
	})
	t.Run("by decisions", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := backlog(t)
		k.exec(countersGone)
		one := k.draft(diamond, "known", 1)
		one[0].Key = "key"
		answers := k.ask(one...)
		require.Equal(t, persistence.Triggered, answers[0].Result)
		ends(t, k, pod, append(ids, answers[0].Run))
	})
	t.Run("by completions", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := backlog(t)
		held := k.claim(pod, 30)
		k.complete(pod, held[:10]...)
		k.exec(countersGone)
		k.complete(pod, held[10:]...)
		ends(t, k, pod, ids)
	})
	t.Run("by a completion in a step's transaction", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := backlog(t)
		held := k.claim(pod, 30)
		k.complete(pod, held[:24]...)
		k.exec(countersGone)
		for _, g := range held[24:] {
			record := k.completion(pod, g)
			out, err := k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
				_, err := tx.(pgx.Tx).Exec(ctx, "select 1")
				return record.Transitions[0], err
			})
			require.NoError(t, err)
			require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
		}
		ends(t, k, pod, ids)
	})
	t.Run("by what comes back from parking", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := backlog(t)
		epoch, err := k.store.BumpEpoch(k.ctx, pod)
		require.NoError(t, err)
		_, err = k.store.LeavePod(k.ctx, pod)
		require.NoError(t, err)
		parked, err := k.store.ParkTasks(k.ctx, epoch, 100)
		require.NoError(t, err)
		require.Equal(t, 25, parked.Parked)
		k.exec(countersGone)
		ids = append(ids, k.start(diamond, "known", 30)...) // takes the places of those that are parked
		pod = k.join(time.Hour)
		parked, err = k.store.ParkTasks(k.ctx, epoch, 100)
		require.NoError(t, err)
		require.Equal(t, 25, parked.Unparked)
		ends(t, k, pod, ids)
	})
}
