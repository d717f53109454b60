package features_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Steps with the same parent run at the same time, on any pods. A step with
// several parents runs once, when the last of them has completed, and gets all
// of their outputs.
func TestFanOutAndFanIn(t *testing.T) {
	words := func(_ context.Context, text string) ([]string, error) { return strings.Fields(text), nil }
	count := func(_ context.Context, _ string, words []string) (int, error) {
		time.Sleep(time.Minute)
		return len(words), nil
	}
	longest := func(_ context.Context, _ string, words []string) (string, error) {
		time.Sleep(time.Minute)
		long := ""
		for _, word := range words {
			if len(word) > len(long) {
				long = word
			}
		}
		return long, nil
	}
	type report struct {
		Count   int
		Longest string
	}
	join := func(_ context.Context, _ string, count int, longest string) (report, error) {
		return report{count, longest}, nil
	}
	diamond := troupe.Define("text", func(b *troupe.Builder[string]) troupe.StepRef[report] {
		list := troupe.Step0(b, "words", words)
		return troupe.Step2(b, "report", join,
			troupe.Step1(b, "count", count, list),
			troupe.Step1(b, "longest", longest, list))
	})
	inMemory(t, troupe.Config{}, diamond, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[string, report]) {
		began := time.Now()
		got, err := handle.Run(t.Context(), "durable workflows in Go")
		require.NoError(t, err)
		require.Equal(t, report{4, "workflows"}, got)
		require.Less(t, time.Since(began), 2*time.Minute, "both ran at the same time")
	})
}

// StepN takes as many parents as a loop declares.
func TestFanInOfAnyWidth(t *testing.T) {
	square := func(n int) func(context.Context, int) (int, error) {
		return func(_ context.Context, factor int) (int, error) { return factor * n * n, nil }
	}
	sum := troupe.Define("squares", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		var squares []troupe.StepRef[int]
		for i, name := range []string{"zero", "one", "two", "three", "four", "five", "six", "seven"} {
			squares = append(squares, troupe.Step0(b, name, square(i)))
		}
		return troupe.StepN(b, "sum", func(needs *troupe.Needs) func(context.Context, int, troupe.Values) (int, error) {
			var read []func(troupe.Values) int
			for _, ref := range squares {
				read = append(read, troupe.Need(needs, ref))
			}
			return func(_ context.Context, _ int, values troupe.Values) (int, error) {
				total := 0
				for _, value := range read {
					total += value(values)
				}
				return total, nil
			}
		})
	})
	inMemory(t, troupe.Config{}, sum, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, int]) {
		got, err := handle.Run(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1400, got)
	})
}
