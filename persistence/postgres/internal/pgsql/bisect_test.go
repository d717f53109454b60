package pgsql

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBisectFindsCulprits(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for _, bad := range [][]int{nil, {0}, {9}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		var done, alone []int
		calls := 0
		err := Bisect([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, func(items []int) error {
			calls++
			if slices.ContainsFunc(items, func(i int) bool { return slices.Contains(bad, i) }) {
				return refused
			}
			done = append(done, items...)
			return nil
		}, func(err error) bool { return errors.Is(err, refused) }, func(i int, err error) error {
			require.ErrorIs(t, err, refused)
			alone = append(alone, i)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, bad, alone)
		require.Len(t, done, 10-len(bad))
		require.LessOrEqual(t, calls, 1+2*4*max(len(bad), 1))
	}
	other := errors.New("other")
	require.ErrorIs(t, Bisect([]int{1, 2}, func([]int) error { return other }, func(err error) bool { return !errors.Is(err, other) }, nil), other)
	require.NoError(t, Bisect(nil, func(items []int) error { return nil }, func(error) bool { return true }, nil))
}
