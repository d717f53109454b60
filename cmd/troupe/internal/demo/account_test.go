package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

func TestBalance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ledger effects
		task   taskHistory
		want   account
	}{
		"once":               {effects{1, 1}, taskHistory{starts: 1, completed: 1}, account{Begun: 1}},
		"retried":            {effects{2, 1}, taskHistory{starts: 2, retries: 1, completed: 1}, account{Begun: 2, Retries: 1}},
		"lost before it ran": {effects{1, 1}, taskHistory{starts: 2, losses: 1, completed: 1}, account{Begun: 1, Lost: 1, Regained: 1}},
		"lost and repeated":  {effects{2, 2}, taskHistory{starts: 2, losses: 1, completed: 1}, account{Begun: 2, Lost: 1, Regained: 1, Repeated: 1}},
		"asleep":             {effects{}, taskHistory{slept: 1, woken: 1}, account{Sleeps: 1}},
		"completed twice":    {effects{1, 1}, taskHistory{starts: 1, completed: 2}, account{Begun: 1, Double: 1}},
		"never done":         {effects{1, 0}, taskHistory{starts: 1, completed: 1}, account{Begun: 1, Missing: 1}},
		"not granted":        {effects{2, 1}, taskHistory{starts: 1, completed: 1}, account{Begun: 2, Phantom: 1}},
		"done twice":         {effects{2, 2}, taskHistory{starts: 2, retries: 1, completed: 1}, account{Begun: 2, Retries: 1, Repeated: 1, Excess: 1}},
	} {
		key := taskKey{"run", "step"}
		got := balance(map[taskKey]effects{key: c.ledger}, map[taskKey]taskHistory{key: c.task})
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.want.Missing+c.want.Phantom+c.want.Excess == 0, got.balanced(), name)
	}
	unknown := balance(map[taskKey]effects{{"run", "step"}: {3, 0}}, nil)
	require.Equal(t, 3, unknown.Phantom, "effects of a task that the database does not know")
}

func TestLedgersAddUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "never made")}
	task := troupe.TaskInfo{Step: "parse", Attempt: 1}
	for _, path := range paths[:2] {
		l, err := createLedger(path)
		require.NoError(t, err)
		require.NoError(t, l.write(markBegun, task))
		require.NoError(t, l.write(markEnded, task))
		require.NoError(t, l.close())
	}
	all, err := readLedgers(paths)
	require.NoError(t, err)
	require.Equal(t, map[taskKey]effects{{task.Run.String(), "parse"}: {2, 2}}, all)

	require.NoError(t, os.WriteFile(paths[0], []byte("begun run\n"), 0o600))
	_, err = readLedgers(paths)
	require.ErrorContains(t, err, "is not a line of a ledger")
}

func TestStepsWriteTheLedger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := createLedger(path)
	require.NoError(t, err)
	out, err := recorded(t.Context(), l, func() (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, out)
	_, err = recorded(t.Context(), l, func() (int, error) { return 0, errFlaky })
	require.ErrorIs(t, err, errFlaky)
	require.NoError(t, l.close())
	all, err := readLedgers([]string{path})
	require.NoError(t, err)
	require.Equal(t, effects{2, 1}, all[taskKey{run: troupe.RunID{}.String()}])
}

func TestTheWorkflowsAreValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, defineCensus(counter{}).Validate())
	require.NoError(t, defineProbe().Validate())
}
