package simtest_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/simtest"
)

// TestInAProcessOfItsOwn holds tests that fail. Others run it, in a process of
// its own, by the name of one.
func TestInAProcessOfItsOwn(t *testing.T) {
	paysTwice := func(s *simtest.Sim) {
		service, bank := newBank(s)
		w := simtest.Register(s, charged(service, input))
		s.Always("charged once", func() bool { return bank.charges["x"] <= 1 })
		_, _ = w.Start("x").Await()
	}
	switch os.Getenv("SIMTEST_TEST") {
	case "":
		t.Skip("it is for other tests")
	case "run":
		simtest.Run(t, simtest.Options{}, paysTwice)
	case "everywhere":
		simtest.CrashEverywhere(t, simtest.Options{}, paysTwice)
	case "sometimes":
		simtest.Run(t, simtest.Options{Seeds: 2}, func(s *simtest.Sim) { s.Sometimes("the moon is blue", false) })
	case "twice":
		simtest.Run(t, simtest.Options{Seeds: 50}, func(s *simtest.Sim) { s.Advance(time.Duration(rand.Int64N(int64(time.Hour)))) })
	case "t":
		simtest.Run(t, simtest.Options{}, func(*simtest.Sim) { require.True(t, false) })
	}
}

// failing runs one of these tests in a folder.
func failing(t *testing.T, folder, test string, env ...string) string {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, self, "-test.run=^TestInAProcessOfItsOwn$")
	command.Dir = folder
	command.Env = append(append(os.Environ(), "SIMTEST_TEST="+test), env...)
	output, err := command.CombinedOutput()
	require.Error(t, err, "the test has passed")
	return string(output)
}

func TestAFailureIsKeptAndSeenAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []string{"run", "everywhere"} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			first := failing(t, folder, test)
			require.Contains(t, first, `always "charged once" does not hold`)
			files, err := filepath.Glob(filepath.Join(folder, "testdata/simtest/TestInAProcessOfItsOwn/*.json"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.Equal(t, history(first), history(failing(t, folder, test, "TROUPE_SIM_SEEDS=1")), "it is run first")

			_, seed, _ := strings.Cut(first, "TROUPE_SIM_SEED=")
			seed, _, _ = strings.Cut(seed, " ")
			again := failing(t, folder, test, "TROUPE_SIM_SEED="+seed, "TROUPE_SIM_TRACE=1")
			require.Contains(t, again[len(again)/2:], history(first))
			require.Contains(t, again[:5000], "actor.Started", "the whole history has all messages")
			require.Contains(t, failing(t, t.TempDir(), test, "TROUPE_SIM_SEED="+seed), history(first), "elsewhere, where it is not kept")
		})
	}
}

// history is the part of a report that shows what happened.
func history(report string) string {
	_, rest, _ := strings.Cut(report, "The end of the history")
	rest, _, _ = strings.Cut(rest, "To see it again")
	return rest
}

func TestRunFailsFor(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]string{
		"sometimes": `sometimes "the moon is blue": it never held in 2 seeds`,
		"twice":     "seed 50 gave two histories",
		"t":         "use the *Sim where you would use t",
	} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, failing(t, t.TempDir(), test), want)
		})
	}
}
