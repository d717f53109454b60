package acceptance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/lifecycle"
)

// V9: tenants are served in turn.

// minute declares one step that takes a minute and notes its tenant.
func minute(d *diary) *troupe.Workflow[int, bool] {
	return troupe.Define("minute", func(b *troupe.Builder[int]) troupe.StepRef[bool] {
		return troupe.Step0(b, "work", func(ctx context.Context, _ int) (bool, error) {
			d.note("%s", troupe.Task(ctx).Tenant)
			time.Sleep(time.Minute)
			return true, nil
		})
	})
}

// ask triggers n runs of one tenant.
func ask(t *testing.T, handle *troupe.Handle[int, bool], tenant string, n int) []*troupe.Run[bool] {
	t.Helper()
	runs, err := handle.RunMany(t.Context(), make([]int, n), troupe.Tenant(tenant))
	require.NoError(t, err)
	synctest.Wait()
	return runs
}

func TestR2ASmallTenantDoesNotWaitBehindALargeOne(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, minute(d), slots(1))
		ask(t, handle, "first", 1) // holds the only slot while the others queue up
		large := ask(t, handle, "b", 5)
		ask(t, handle, "a", 1)
		_, err := large[4].Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"first", "b", "a", "b", "b", "b", "b"}, d.all(), "a is served within the first two")
	})
}

func TestR2ATenantThatComesLateStartsAsSoon(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const many = 400
		d := &diary{}
		_, handle := start(t, minute(d), slots(2))
		ask(t, handle, "b", many)
		time.Sleep(20 * time.Minute)
		before := len(d.all())
		late := ask(t, handle, "a", 1)
		_, err := late[0].Await(t.Context())
		require.NoError(t, err)
		at := slices.Index(d.all(), "a")
		require.LessOrEqual(t, at-before, 2+1, "at most slots + 1 of the other tenant go first")
	})
}

func TestR2TenTenantsTakeTurns(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, minute(d), slots(1))
		ask(t, handle, "first", 1) // holds the only slot while the others queue up
		var last []*troupe.Run[bool]
		for i := range 10 {
			last = append(last, ask(t, handle, fmt.Sprintf("tenant-%d", i), i+1)...)
		}
		for _, run := range last {
			_, err := run.Await(t.Context())
			require.NoError(t, err)
		}
		// In round r, every tenant with at least r runs is served once.
		served := d.all()[1:]
		for round := 1; round <= 10; round++ {
			var want []string
			for i := round - 1; i < 10; i++ {
				want = append(want, fmt.Sprintf("tenant-%d", i))
			}
			require.Equal(t, want, served[:len(want)], "round %d", round)
			served = served[len(want):]
		}
		require.Empty(t, served)
	})
}

func TestR2AManyStepTenantFinishesSteadily(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		_, handle := start(t, troupe.Define("steps", func(b *troupe.Builder[int]) troupe.StepRef[string] {
			step := func(_ context.Context, in int) (string, error) {
				time.Sleep(time.Minute)
				return "", nil
			}
			end := func(_ context.Context, in int) (string, error) {
				time.Sleep(time.Minute)
				d.note("%d", in)
				return "", nil
			}
			a := troupe.Step0(b, "a", step)
			c := troupe.Step0(b, "c", step, troupe.After(a))
			return troupe.Step0(b, "end", end, troupe.After(c))
		}), slots(1))
		inputs := make([]int, 40)
		for i := range inputs {
			inputs[i] = i
		}
		runs, err := handle.RunMany(t.Context(), inputs)
		require.NoError(t, err)
		time.Sleep(60 * time.Minute)
		require.GreaterOrEqual(t, len(d.all()), 10, "half of the time, some of the runs: not all at the end")
		for _, run := range runs {
			_, err := run.Await(t.Context())
			require.NoError(t, err)
		}
	})
}

func TestR2FairIDsInterleaveTenants(t *testing.T) {
	t.Parallel()
	const stride = 2 * (lifecycle.GroupMax + 1)
	require.EqualValues(t, 2*7+1, lifecycle.FairID(7, lifecycle.LaneNew, 0))
	require.EqualValues(t, 2*7+1+3*stride, lifecycle.FairID(7, lifecycle.LaneNew, 3))
	require.EqualValues(t, 2*7+3*stride, lifecycle.FairID(7, lifecycle.LaneContinuing, 3))

	// Two tenants, one task each; then more of the same tenant: its block advances.
	var block int64
	for want := int64(1); want <= 5; want++ {
		block = lifecycle.NextBlock(block, 0)
		require.Equal(t, want, block)
	}
	// A late tenant starts at the frontier of the queue, not at its end.
	require.EqualValues(t, 4, lifecycle.NextBlock(0, 3))
	require.Less(t, lifecycle.FairID(9, lifecycle.LaneNew, lifecycle.NextBlock(0, 3)), lifecycle.FairID(7, lifecycle.LaneNew, 5))

	for _, id := range []int64{0, 15, 15 + stride, 3*stride - 1} {
		group, lane, at := lifecycle.SplitFairID(id)
		require.Equal(t, id, lifecycle.FairID(group, lane, at))
	}
}
