package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

type counter struct{ calls map[string]int }

// busyWorkflow has what workflows have: branches side by side, timeouts,
// heartbeats, retries, sleeps, conditions, plain sleeps of the same length.
func busyWorkflow(service *Service[counter]) *troupe.Workflow[int, int] {
	call := func(ctx context.Context) error {
		return service.Do(ctx, func(c *counter) error {
			c.calls[troupe.Task(ctx).Step]++
			return nil
		})
	}
	return troupe.Define("busy", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		retry := troupe.Retry{Attempts: 20, First: 10 * time.Millisecond}
		first := troupe.Step0(b, "first", func(ctx context.Context, n int) (int, error) { return n, call(ctx) }, retry)
		even, odd := troupe.If(first, func(n int) bool { return n%2 == 0 })
		var branches []troupe.StepRef[int]
		for i := range 4 {
			branches = append(branches, troupe.Step1(b, fmt.Sprintf("branch-%d", i), func(ctx context.Context, _, n int) (int, error) {
				for range 3 {
					if err := troupe.Heartbeat(ctx, n); err != nil {
						return 0, err
					}
					time.Sleep(time.Second)
				}
				return n + i, call(ctx)
			}, first, retry, troupe.AttemptTimeout(20*time.Second)))
		}
		window := troupe.Sleep(b, "window", time.Hour, troupe.After(first))
		x := troupe.Step2(b, "x", func(ctx context.Context, _, n, m int) (int, error) { return n + m, call(ctx) }, branches[0], branches[1], even, retry)
		y := troupe.Step2(b, "y", func(ctx context.Context, _, n, m int) (int, error) {
			if troupe.Task(ctx).Attempt < 3 {
				return 0, errors.New("not yet")
			}
			return n * m, nil
		}, branches[2], branches[3], odd, retry, troupe.After(window))
		b.OnFailure(func(ctx context.Context, _ int, _ []*troupe.StepError) error { return call(ctx) })
		return troupe.Step2(b, "last", func(_ context.Context, _ int, x, y troupe.Opt[int]) (int, error) { return x.Or(0) + y.Or(0), nil },
			troupe.Maybe(x), troupe.Maybe(y))
	})
}

func busyBody(s *Sim) {
	workflow := Register(s, busyWorkflow(NewService(s, &counter{calls: map[string]int{}})))
	var runs []*Started[int]
	for i := range 4 {
		runs = append(runs, workflow.Start(i))
		s.Advance(time.Duration(s.Rand().IntN(1000)) * time.Millisecond)
	}
	runs[1].Cancel("no")
	time.Sleep(time.Second)
	for _, run := range runs {
		_, _ = run.Await()
	}
}

func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	t.Parallel()
	b := newBatch(t, Options{}, busyBody)
	for seed := range uint64(60) {
		set := setting{Seed: seed + 1}
		first, second := b.play(set), b.play(set)
		require.Nil(t, first.violation, "seed %d", set.Seed)
		if first.hash != second.hash {
			t.Fatal("seed", set.Seed, b.again(set))
		}
	}
}

func TestADifferenceIsShown(t *testing.T) {
	t.Parallel()
	b := newBatch(t, Options{Faults: None()}, func(s *Sim) {
		s.Advance(time.Duration(rand.Int64N(int64(time.Hour))))
		s.Crash("pod-a")
	})
	text := b.again(setting{Seed: 1})
	require.Contains(t, text, "seed 1 gave two histories")
	require.Contains(t, text, "They part at line")
}
