package lifecycle

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTaskTransitions has every pair of states; a cell that is x may happen.
func TestTaskTransitions(t *testing.T) {
	t.Parallel()
	checkPairs(t, CheckTask, `
		from\to    pending queued running backoff sleeping waiting completed failed skipped canceled
		pending    .       x      .       .       x        x       x         x      x       x
		queued     .       .      x       .       .        .       .         x      .       x
		running    .       x      .       x       .        x       x         x      .       x
		backoff    .       x      .       .       .        .       .         .      .       x
		sleeping   .       .      .       .       .        .       x         .      .       x
		waiting    .       x      .       .       .        .       x         x      x       x
		completed  .       .      .       .       .        .       .         .      .       .
		failed     .       .      .       .       .        .       .         .      .       .
		skipped    .       .      .       .       .        .       .         .      .       .
		canceled   .       .      .       .       .        .       .         .      .       .`)
}

func TestRunTransitions(t *testing.T) {
	t.Parallel()
	checkPairs(t, CheckRun, `
		from\to    pending queued running backoff sleeping waiting completed failed skipped canceled
		pending    .       .      x       .       .        .       .         .      .       x
		queued     .       .      .       .       .        .       .         .      .       .
		running    .       .      .       .       .        .       x         x      .       x
		backoff    .       .      .       .       .        .       .         .      .       .
		sleeping   .       .      .       .       .        .       .         .      .       .
		waiting    .       .      .       .       .        .       .         .      .       .
		completed  .       .      .       .       .        .       .         .      .       .
		failed     .       .      .       .       .        .       .         .      .       .
		skipped    .       .      .       .       .        .       .         .      .       .
		canceled   .       .      .       .       .        .       .         .      .       .`)
}

func TestLeaseTransitions(t *testing.T) {
	t.Parallel()
	table := `
		from\to live late lost dead
		live    .    x    x    x
		late    x    .    x    x
		lost    x    x    .    x
		dead    .    .    .    .`
	eachPair(t, table, func(from, to string, allowed bool) {
		checkPair(t, CheckLease(leaseNamed(t, from), leaseNamed(t, to)), from, to, allowed)
	})
}

func checkPairs(t *testing.T, check func(from, to State) error, table string) {
	t.Helper()
	eachPair(t, table, func(from, to string, allowed bool) {
		checkPair(t, check(stateNamed(t, from), stateNamed(t, to)), from, to, allowed)
	})
	for _, s := range States() {
		require.ErrorIs(t, check(0, s), ErrIllegalTransition, "the zero state is invalid")
	}
}

func checkPair(t *testing.T, err error, from, to string, allowed bool) {
	t.Helper()
	if allowed {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, ErrIllegalTransition)
	require.ErrorContains(t, err, "from "+from+" to "+to)
}

func eachPair(t *testing.T, table string, check func(from, to string, allowed bool)) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	header := strings.Fields(lines[0])[1:]
	require.Len(t, lines, len(header)+1)
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		require.Len(t, cells, len(header)+1)
		for i, to := range header {
			check(cells[0], to, cells[i+1] == "x")
		}
	}
}

func stateNamed(t testing.TB, name string) State {
	t.Helper()
	for _, s := range States() {
		if s.String() == name {
			return s
		}
	}
	require.Fail(t, "no state "+name)
	return 0
}

func leaseNamed(t *testing.T, name string) LeaseState {
	t.Helper()
	for _, s := range leaseStates() {
		if s.String() == name {
			return s
		}
	}
	require.Fail(t, "no lease state "+name)
	return 0
}

func leaseStates() []LeaseState { return []LeaseState{LeaseLive, LeaseLate, LeaseLost, LeaseDead} }

func TestEveryStateIsReachable(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, States(), reachable(Pending, States(), CheckTask), "states of tasks")
	require.ElementsMatch(t, []State{Pending, Running, Completed, Failed, Canceled},
		reachable(Pending, States(), CheckRun), "states of runs")
	require.ElementsMatch(t, leaseStates(), reachable(LeaseLive, leaseStates(), CheckLease), "states of leases")
}

func reachable[S comparable](from S, all []S, check func(from, to S) error) []S {
	found := []S{from}
	seen := map[S]bool{from: true}
	for i := 0; i < len(found); i++ {
		for _, next := range all {
			if !seen[next] && check(found[i], next) == nil {
				seen[next] = true
				found = append(found, next)
			}
		}
	}
	return found
}

func TestTerminalStatesNeverMove(t *testing.T) {
	t.Parallel()
	for _, from := range States() {
		for _, to := range States() {
			if from.Terminal() {
				require.Error(t, CheckTask(from, to))
				require.Error(t, CheckRun(from, to))
			}
		}
	}
}

// TestEveryStateEnds: from every state there is a way to an end.
func TestEveryStateEnds(t *testing.T) {
	t.Parallel()
	for _, from := range States() {
		ends := 0
		for _, s := range reachable(from, States(), CheckTask) {
			if s.Terminal() {
				ends++
			}
		}
		require.Positive(t, ends, "%v leads to an end", from)
	}
}

func TestTablesNameEachPairOnce(t *testing.T) {
	t.Parallel()
	for _, table := range [][]transition{taskTable[:], runTable[:]} {
		seen := map[[2]State]bool{}
		for _, line := range table {
			pair := [2]State{line.from, line.to}
			require.False(t, seen[pair], "%v to %v is there twice", line.from, line.to)
			require.NotEmpty(t, line.when)
			seen[pair] = true
		}
	}
}

func TestNamesOfStates(t *testing.T) {
	t.Parallel()
	require.Equal(t, "waiting", Waiting.String())
	require.Equal(t, "state(99)", State(99).String())
	require.Equal(t, "lease(9)", LeaseState(9).String())
	codes := map[State]uint8{
		Pending: 1, Queued: 2, Running: 3, Backoff: 4, Sleeping: 5, Waiting: 6,
		Completed: 10, Failed: 11, Skipped: 12, Canceled: 13,
	}
	for state, code := range codes {
		require.Equal(t, code, uint8(state), "the stored code of %v", state)
	}
}
