package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// bulk is the size of the outputs of bulky: what PayloadLimit allows, with its
// quotes.
const bulk = 1<<20 - 2

// The memory of a pod is bounded, however much waits, and however large it is.
func TestBurst(t *testing.T) {
	t.Parallel()
	waiting, large := spell(3000, 100_000), spell(60, 600)
	r := begin(t, row{
		ID: "BURST", Name: "burst", Fault: fmt.Sprintf("%d runs are triggered at once, and %d with outputs of 1 MiB that a child reads", waiting, large),
		FullOnly: true, Must: "I1 I12",
		Allowed: []figure{atMost("memory of a pod", 384, "MB"), atLeast("runs per second", 5, "")},
	})
	y := newYard(r, brisk(), 0)
	pods := y.start("pod-1", "pod-2")
	began := time.Now()
	y.flood(pods[0], "tick/a", waiting)
	y.flood(pods[1], "bulky/b", large)
	most := 0
	y.until("every run has ended", 5*time.Minute, func() bool {
		for _, p := range pods {
			most = max(most, p.peakMemory(t))
		}
		return y.number(openSQL) == 0
	})
	r.count("memory of a pod", most)
	r.count("runs per second", int(float64(waiting+large)/time.Since(began).Seconds()))
	y.judge()
}

// peakMemory is how many megabytes a pod's process has had resident at most.
func (p *pod) peakMemory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "VmHWM:")
	require.True(t, found)
	kilobytes := 0
	_, err = fmt.Sscan(after, &kilobytes)
	require.NoError(t, err)
	return kilobytes >> 10
}

// bulky is a step with a large output, and one that reads it.
func (p *podProcess) bulky() *troupe.Workflow[string, string] {
	return troupe.Define("bulky", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		large := troupe.Step0(b, "large", func(ctx context.Context, in string) (string, error) {
			_, err := p.effect(ctx, in)
			return strings.Repeat("x", bulk), err
		})
		return troupe.Step1(b, "small", func(ctx context.Context, in, got string) (string, error) {
			if len(got) != bulk {
				return "", fmt.Errorf("%d bytes arrived", len(got))
			}
			return p.effect(ctx, in)
		}, large)
	})
}
