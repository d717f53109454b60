package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/simulation"
)

func TestSimSaysWhatItFound(t *testing.T) {
	t.Parallel()
	code, out, problem := call(nil, "sim", "--seeds", "30", "--workers", "2", "--json")
	require.Zero(t, code, "%s\n%s", out, problem)
	require.Contains(t, out, "every promise held")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	for _, field := range []string{
		"seeds", "violations", "seeds_per_minute", "nondeterministic", "planted_found", "planted_total", "sometimes_unmet",
	} {
		require.Contains(t, last, `"`+field+`":`)
	}
	var result simulation.Result
	require.NoError(t, json.Unmarshal([]byte(last), &result), out)
	require.Equal(t, 30, result.Seeds)
	require.Positive(t, result.SeedsPerMinute)
	require.Positive(t, result.Faults)
	require.Zero(t, result.Violations+result.Nondeterministic)
}

func TestSimWithoutFaultsHasNone(t *testing.T) {
	t.Parallel()
	code, out, problem := call(nil, "sim", "--seeds", "5", "--faults", "none", "--json")
	require.Zero(t, code, problem)
	require.Contains(t, out, `"faults":0`)
}

func TestSimTellsTheSameHistoryTwice(t *testing.T) {
	t.Parallel()
	trace := func() string {
		code, out, problem := call(nil, "sim", "--seed", "7", "--seeds", "1", "--trace", "--faults", "pod-crash,step-error")
		require.Zero(t, code, problem)
		return out
	}
	first := trace()
	require.Contains(t, first, "claim_tasks")
	require.Contains(t, first, "seed 7, hash ")
	require.Equal(t, first, trace())
}

func TestSimWithAWrongCall(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`no class is called "pod-crush"`:   {"--faults", "pod-crush"},
		"--seeds is -1":                    {"--seeds", "-1"},
		"name --seeds, or --for":           {"--seeds", "0"},
		"--workers is 0: use 1 to 1024":    {"--workers", "0"},
		"--workers is 1025: use 1 to 1024": {"--workers", "1025"},
		"nothing is planted":               {"--plant", "unfenced-record"},
	} {
		code, out, problem := call(nil, append([]string{"sim"}, args...)...)
		require.Equal(t, exitUsage, code, problem)
		require.Empty(t, out)
		require.Contains(t, problem, want)
	}
}
