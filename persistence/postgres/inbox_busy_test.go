package postgres

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A trigger with a signal of whose id a transaction of a caller has another is asked again; other
// triggers of its batch are stored.
func TestATriggerWaitsForItsSignalAlone(t *testing.T) {
	t.Parallel()
	k, _ := withPod(t, storetest.Approval())
	keyed := k.draft(storetest.Approval(), "a", 1)
	keyed[0].Key = "key"
	run := k.ask(keyed...)[0].Run
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(k.ctx)) })
	_, err = k.store.SendSignalInTx(k.ctx, tx, signalOf(run, "approved", "same"))
	require.NoError(t, err)
	batch := k.draft(storetest.Approval(), "a", 3)
	batch[1].Key, batch[1].Signal = "key", &persistence.Signal{Name: "approved", ID: "same"}
	out, err := k.store.TriggerRuns(k.ctx, batch, persistence.GrantRequest{})
	require.NoError(t, err)
	require.Equal(t, persistence.Triggered, out.Answers[0].Result)
	require.Equal(t, persistence.KeyBusy, out.Answers[1].Result)
	require.Equal(t, persistence.Triggered, out.Answers[2].Result)
	require.NoError(t, tx.Commit(k.ctx))
	require.Equal(t, persistence.SignalRepeated, k.ask(batch[1])[0].Signal)
}
