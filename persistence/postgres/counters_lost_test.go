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
	t.Run("by one statement", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := newBacklog(t)
		k.exec(countersGone)
		k.ends(pod, append(ids, k.start(diamond, "known", 3)...))
	})
	t.Run("by decisions", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := newBacklog(t)
		k.exec(countersGone)
		one := k.draft(diamond, "known", 1)
		one[0].Key = "key"
		answers := k.ask(one...)
		require.Equal(t, persistence.Triggered, answers[0].Result)
		k.ends(pod, append(ids, answers[0].Run))
	})
	t.Run("by completions", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := newBacklog(t)
		held := k.claim(pod, 30)
		k.complete(pod, held[:10]...)
		k.exec(countersGone)
		k.complete(pod, held[10:]...)
		k.ends(pod, ids)
	})
	t.Run("by what comes back from parking", func(t *testing.T) {
		t.Parallel()
		k, pod, ids := newBacklog(t)
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
		k.ends(pod, ids)
	})
}

func TestRemovedCountersAreMadeAgainForAStepInATransaction(t *testing.T) {
	t.Parallel()
	k, pod, ids := newBacklog(t)
	held := k.claim(pod, 30)
	k.complete(pod, held[:24]...)
	k.exec(countersGone)
	for _, g := range held[24:] {
		out, err := k.inTx(k.completion(pod, g), "select 1")
		require.NoError(t, err)
		require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
	}
	k.ends(pod, ids)
}

// newBacklog is a store with ten children that wait, and fifteen runs.
func newBacklog(t *testing.T) (k *kit, pod int64, ids []workflow.RunID) {
	t.Helper()
	k = newKit(schemas(t)(t), storetest.Diamond())
	pod = k.join(time.Hour)
	ids = k.start(storetest.Diamond(), "known", 20)
	k.complete(pod, k.claim(pod, 5)...)
	return k, pod, ids
}

// ends has all runs complete.
func (k *kit) ends(pod int64, ids []workflow.RunID) {
	k.t.Helper()
	k.finish(pod)
	for _, id := range ids {
		require.Equal(k.t, lifecycle.Completed, k.state(id))
	}
	k.requireSound()
}

// inTx records a completion in the transaction of a step that executes sql.
func (k *kit) inTx(record persistence.Record, sql string) (persistence.Recorded, error) {
	return k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		own, ok := tx.(pgx.Tx)
		require.True(k.t, ok)
		_, err := own.Exec(ctx, sql)
		return record.Transitions[0], err
	})
}
