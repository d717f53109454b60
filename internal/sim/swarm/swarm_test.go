package swarm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/sim/swarm"
)

func TestABatchBreaksNoPromise(t *testing.T) {
	t.Parallel()
	seeds := 300
	if testing.Short() {
		seeds = 40
	}
	batch := swarm.Plan{From: 1, Count: seeds, Workers: 2, Twice: 10}.Run(t.Context())
	require.Equal(t, seeds, batch.Seeds)
	require.Empty(t, batch.Diverged)
	for _, r := range batch.Failed {
		t.Errorf("seed %d broke %v; %s", r.Seed, r.Violation, r.Setting)
	}
}

// TestReplays runs what once broke a promise: each file is a mistake that was
// mended.
func TestReplays(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/replay/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	lab := swarm.NewLab()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var replay swarm.Replay
		require.NoError(t, json.Unmarshal(text, &replay), file)
		require.NotEmpty(t, replay.Note, file)
		for _, options := range []swarm.Options{replay.Options(), {Seed: replay.Seed}} {
			r := lab.Run(options)
			require.Nil(t, r.Violation, "%s: %s", file, replay.Note)
		}
	}
}

const hashesVariable = "SWARM_TEST_PRINTS_HASHES"

// TestSameSeedSameHistory compares processes, numbers of processors, and labs
// that have run other seeds before.
func TestSameSeedSameHistory(t *testing.T) {
	if os.Getenv(hashesVariable) != "" {
		_, _ = fmt.Println("hashes:" + hashes(nil))
		return
	}
	want := hashes([]uint64{9, 4})
	self, err := os.Executable()
	require.NoError(t, err)
	others := []string{"1", "2", "8"}
	if testing.Short() {
		others = others[:1]
	}
	for _, processors := range others {
		c := exec.CommandContext(t.Context(), self, "-test.run", "^TestSameSeedSameHistory$", "-test.v")
		c.Env = append(os.Environ(), hashesVariable+"=1", "GOMAXPROCS="+processors)
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "hashes:"+want, "GOMAXPROCS=%s", processors)
	}
}

func hashes(before []uint64) string {
	lab := swarm.NewLab()
	for _, seed := range before {
		lab.Run(swarm.Options{Seed: seed})
	}
	var text strings.Builder
	for seed := range uint64(15) {
		fmt.Fprintf(&text, " %016x", lab.Run(swarm.Options{Seed: seed}).Hash)
	}
	return text.String()
}

// BenchmarkSeed runs seeds of three pods, with all faults.
func BenchmarkSeed(b *testing.B) {
	lab := swarm.NewLab()
	var seeds []uint64
	tasks, messages := 0, 0
	for seed := uint64(1); len(seeds) < 40; seed++ {
		if r := lab.Run(swarm.Options{Seed: seed}); strings.HasPrefix(r.Setting, "pods 3,") && r.Tasks >= 40 && r.Tasks <= 60 {
			seeds, tasks, messages = append(seeds, seed), tasks+r.Tasks, messages+r.Steps
		}
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		lab.Run(swarm.Options{Seed: seeds[i%len(seeds)]})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Minutes(), "seeds/min")
	b.ReportMetric(float64(tasks)/float64(len(seeds)), "tasks/seed")
	b.ReportMetric(float64(messages)/float64(len(seeds)), "messages/seed")
}
