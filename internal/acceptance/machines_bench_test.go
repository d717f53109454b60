package acceptance

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/statemachine"
)

// countdown is a machine that executes as many activities as its input says, one after the other.
func countdown() *statemachine.Machine[int, int, int] {
	type activation = statemachine.Activation[int, int]
	return statemachine.Define("countdown", func(m *statemachine.Builder[int, int, int]) {
		activity := statemachine.Activity(m, "activity", func(_ context.Context, left int) (int, error) { return left - 1, nil })
		next := func(a *activation, left int) {
			if a.State = left; left > 0 {
				activity.Start(a, left)
				return
			}
			a.Complete(left)
		}
		m.OnStart(next)
		statemachine.OnCompleted(m, activity, next)
	})
}

// Where the benchmarks of machines keep them.
var benchStores = []string{"memory", "postgres"}

// countdowns returns a handle of the machine on each of several pods; in memory there is one.
func countdowns(b *testing.B, store string, pods int, config troupe.Config) []*troupe.Handle[int, int] {
	b.Helper()
	open := func() (*troupe.Engine, error) { return troupe.NewInMemory(config) }
	if store == "postgres" {
		pool, err := pgxpool.New(b.Context(), pgtest.Database(b))
		require.NoError(b, err)
		b.Cleanup(pool.Close)
		_, err = migrations.Migrate(b.Context(), pool, migrations.DefaultSchema)
		require.NoError(b, err)
		open = func() (*troupe.Engine, error) { return troupe.New(pool, config) }
	}
	handles := make([]*troupe.Handle[int, int], pods)
	for i := range handles {
		engine, err := open()
		require.NoError(b, err)
		handles[i], err = troupe.Register(engine, countdown())
		require.NoError(b, err)
		require.NoError(b, engine.Start(b.Context()))
		b.Cleanup(func() { require.NoError(b, engine.Stop(context.Background())) })
		_, err = handles[i].Run(b.Context(), 1) // connections are opened and statements prepared
		require.NoError(b, err)
	}
	return handles
}

// BenchmarkStartMachine triggers a machine: until that is durable.
func BenchmarkStartMachine(b *testing.B) {
	for _, store := range benchStores {
		b.Run(store, func(b *testing.B) {
			handle := countdowns(b, store, 1, troupe.Config{})[0]
			for b.Loop() {
				_, err := handle.RunNoWait(b.Context(), 0)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkActivityLatency is a machine alone: one operation is an activity, from the activation that
// starts it to the one that hears of its end.
func BenchmarkActivityLatency(b *testing.B) {
	for _, store := range benchStores {
		b.Run(store, func(b *testing.B) {
			handle := countdowns(b, store, 1, troupe.Config{})[0]
			b.ResetTimer()
			_, err := handle.Run(b.Context(), b.N)
			require.NoError(b, err)
		})
	}
}

// BenchmarkActivityThroughput is 200 machines at once, each of which executes 20 activities, one
// after the other. One operation is an activity.
func BenchmarkActivityThroughput(b *testing.B) {
	for _, store := range benchStores {
		b.Run(store, func(b *testing.B) {
			handles := countdowns(b, store, 1, troupe.Config{Slots: 1000, ClaimBatch: 1000})
			b.ResetTimer()
			spread(b, handles, 200)
		})
	}
}

// BenchmarkMachinePods is the same on one pod and on several, of 20 slots each.
func BenchmarkMachinePods(b *testing.B) {
	for _, pods := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			handles := countdowns(b, "postgres", pods, troupe.Config{Slots: 20})
			b.ResetTimer()
			spread(b, handles, 200)
		})
	}
}

// spread executes b.N activities, 20 in each machine, with so many machines open at once.
func spread(b *testing.B, handles []*troupe.Handle[int, int], open int) {
	b.Helper()
	const each = 20
	machines := make(chan int)
	var callers sync.WaitGroup
	for caller := range min(open, (b.N+each-1)/each) {
		callers.Go(func() {
			for activities := range machines {
				if _, err := handles[caller%len(handles)].Run(b.Context(), activities); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for left := b.N; left > 0; left -= each {
		machines <- min(left, each)
	}
	close(machines)
	callers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "activities/s")
}
