package acceptance

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// TestWhatPodsTake: goroutines and connections of 1, 3 and 10 pods, idle and at
// work. docs/scaling.md has the figures and the formula.
func TestWhatPodsTake(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	if testing.Short() {
		t.Skip("starts ten pods on PostgreSQL")
	}
	for _, pods := range []int{1, 3, 10} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			observer := traced(t, &statements{count: map[string]int{}})
			before := runtime.NumGoroutine()
			var handles []*troupe.Handle[string, int]
			var engines []*troupe.Engine
			for range pods {
				engine, err := troupe.New(observer, troupe.Config{})
				require.NoError(t, err)
				engines = append(engines, engine)
				handles = append(handles, join(t, engine, single(number)))
				_, err = handles[len(handles)-1].Run(t.Context(), "")
				require.NoError(t, err)
			}
			mode := map[int]string{1: "spared", 3: "relay", 10: "relay"}[pods]
			require.Eventually(t, func() bool {
				return !slices.ContainsFunc(engines, func(e *troupe.Engine) bool { return e.Stats().Mode != mode || e.Stats().Pods != pods })
			}, 30*time.Second, 50*time.Millisecond)
			idle, goroutines := connections(t, observer), runtime.NumGoroutine()-before
			var work sync.WaitGroup
			for _, handle := range handles {
				for range 30 {
					work.Go(func() {
						for range 10 {
							if _, err := handle.Run(t.Context(), ""); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			busiest := map[string]int{}
			for range 20 {
				for role, n := range connections(t, observer) {
					busiest[role] = max(busiest[role], n)
				}
			}
			work.Wait()
			for role, n := range connections(t, observer) {
				busiest[role] = max(busiest[role], n)
			}
			t.Logf("%d pods: %.1f goroutines each when idle; connections idle %v, at most %v", pods, float64(goroutines)/float64(pods), idle, busiest)
			total := 0
			for _, n := range busiest {
				total += n
			}
			require.LessOrEqual(t, busiest["engine"], pods*(6+1), "PoolSize, and one for the lease")
			require.LessOrEqual(t, busiest["listener"], pods)
			require.LessOrEqual(t, total, pods*8+2, "and the leader's session and stream")
		})
	}
}

// connections counts the sessions of the engines by what they are for.
func connections(t *testing.T, pool *pgxpool.Pool) map[string]int {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select application_name from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and application_name like 'troupe%'`)
	require.NoError(t, err)
	defer rows.Close()
	count := map[string]int{}
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		role := "engine"
		if words := strings.Fields(name); len(words) > 1 && slices.Contains([]string{"listener", "leader", "stream"}, words[1]) {
			role = words[1]
		}
		count[role]++
	}
	require.NoError(t, rows.Err())
	return count
}
