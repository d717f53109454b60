package actors

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// endedTx is a store whose step functions end their transactions before they fail.
type endedTx struct{ persistence.Store }

func (s endedTx) RecordInTx(
	ctx context.Context, r persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	recorded, err := s.Store.RecordInTx(ctx, r, fn)
	if err != nil {
		err = persistence.ErrTxEnded
	}
	return recorded, err
}

// A step that has ended its transaction fails for good, also if its time was up:
// another attempt would repeat the committed writes.
func TestAStepThatEndedItsTransactionFailsForGood(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		serially(t, func(t *testing.T, w *world) {
			var calls atomic.Int64
			w.pool = endedTx{w.store}
			w.register(storetest.Single(), func(ctx context.Context, _ Inputs) (Output, error) {
				calls.Add(1)
				if late {
					<-ctx.Done()
				}
				return Output{}, errors.New("it broke")
			}, func(f *StepFunction) {
				f.Options.InTx, f.Options.AttemptTimeout, f.Options.Retry = true, time.Second, workflow.RetryPolicy{Attempts: 3}
			})
			row := w.ended(w.trigger(w.start(Config{}), "single"))
			require.Equal(t, lifecycle.Failed, row.State)
			require.Equal(t, classTxBroken, row.Class)
			require.EqualValues(t, 1, calls.Load(), "late: %t", late)
		})
	}
}
