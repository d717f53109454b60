package troupe_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// What a step function does to its own transaction is its error: handed back
// unreported, the task would be claimed and executed again without end.
func TestAStepThatSpoilsItsTransactionFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ statement, want string }{
		"a failed statement is ignored": {"select 1/0", "nothing of it can be kept"},
		"it is rolled back":             {"rollback", "ended the transaction"},
		"it is committed":               {"commit", "ended the transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, pgtest.Database(t))
			migrate(t, pool)
			engine, err := troupe.New(pool, troupe.Config{})
			require.NoError(t, err)
			var calls atomic.Int64
			handle, err := troupe.Register(engine, single(func(ctx context.Context, _ string) (int, error) {
				calls.Add(1)
				_, _ = troupe.Tx(ctx).Exec(ctx, test.statement)
				return 1, nil
			}, troupe.InTx()))
			require.NoError(t, err)
			require.NoError(t, engine.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })

			_, err = handle.Run(t.Context(), "")
			require.ErrorIs(t, err, troupe.ErrRunFailed)
			require.ErrorContains(t, err, test.want)
			require.EqualValues(t, 1, calls.Load())
		})
	}
}
