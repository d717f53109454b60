package acceptance

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/statemachine"
)

var counted = troupe.NewSignal[int]("counted")

// counter is a machine that counts what it hears: signals, and the ends of as many activities as a
// signal asks for.
func counter() *statemachine.Machine[int, int, int] {
	return statemachine.Define("counter", func(m *statemachine.Builder[int, int, int]) {
		work := statemachine.Activity(m, "work", func(_ context.Context, in int) (int, error) { return in, nil })
		m.OnStart(func(a *statemachine.Activation[int, int], in int) { a.State = in })
		statemachine.OnSignal(m, counted, func(a *statemachine.Activation[int, int], activities int) {
			a.State++
			for i := range activities {
				work.Start(a, i)
			}
		})
		statemachine.OnCompleted(m, work, func(a *statemachine.Activation[int, int], _ int) { a.State++ })
	})
}

// Activations after 100,000 entries cost what those after 100 do: two machines of one pod take
// turns, and what the server reads and writes for a signal, the activity that it starts, and both
// activations is compared. The counts do not depend on how busy the machine is.
func TestActivationsDoNotGrowWithTheAgeOfTheirMachine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("sends thousands of signals")
	}
	server := pgtest.Server(t, map[string]string{"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"})
	url, err := server.CreateDatabase(t.Context(), "growth")
	require.NoError(t, err)
	pool := migratedPool(t, url, nil)
	_, err = pool.Exec(t.Context(), "create extension pg_stat_statements")
	require.NoError(t, err)
	config := calm() // nothing but the machines does anything
	config.StopGrace = 10 * time.Second
	engine, err := troupe.New(pool, config)
	require.NoError(t, err)
	machine := counter()
	handle, err := troupe.Register(engine, machine)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })

	young, old := aging(t, pool, handle), aging(t, pool, handle)
	for _, m := range []struct {
		*aged
		signals, activities int64
	}{{young, 50, 50}, {old, pgtest.Scale[int64](3_000, 50_000), pgtest.Scale[int64](3_000, 50_000)}} {
		m.send(m.signals, 0)
		for left := m.activities; left > 0; left -= persistence.DynamicMax {
			m.send(1, min(left, persistence.DynamicMax))
		}
	}
	_, err = pool.Exec(t.Context(), "vacuum analyze") // as autovacuum would have
	require.NoError(t, err)
	for range pgtest.Scale(20, 200) {
		young.measure()
		old.measure()
	}
	for _, m := range []*aged{young, old} {
		now, err := machine.State(t.Context(), m.run)
		require.NoError(t, err)
		require.EqualValues(t, m.entries, now, "each entry counts once")
	}
	for name, of := range map[string]func(cost) float64{
		"pages":     func(c cost) float64 { return float64(c.Pages) },
		"rows":      func(c cost) float64 { return float64(c.Rows) },
		"WAL bytes": func(c cost) float64 { return float64(c.WAL) },
		"time":      func(c cost) float64 { return c.took.Seconds() * 1000 },
	} {
		first, last := middle(young.costs, of), middle(old.costs, of)
		t.Logf("%s of a signal, an activity and the activations: %.4g after 100 entries, %.4g after %d: %.2f times", name, first, last, old.entries, last/first)
		if name != "time" || pgtest.Full() {
			require.LessOrEqual(t, last, 1.1*first, "%s", name)
		}
	}
}

// cost is what the server did for one signal, its activity and the activations.
type cost struct {
	Pages, Rows, WAL int64
	took             time.Duration
}

// aged is a machine with entries behind it.
type aged struct {
	t       *testing.T
	pool    *pgxpool.Pool
	run     *troupe.Run[int]
	entries int64
	costs   []cost
}

func aging(t *testing.T, pool *pgxpool.Pool, handle *troupe.Handle[int, int]) *aged {
	t.Helper()
	run, err := handle.RunNoWait(t.Context(), 0)
	require.NoError(t, err)
	return &aged{t: t, pool: pool, run: run}
}

// send sends so many signals, many at once, each of which starts so many activities. It waits until
// the machine has handled all of them, and the ends of the activities.
func (m *aged) send(n, activities int64) {
	m.t.Helper()
	var callers sync.WaitGroup
	var next atomic.Int64
	for range min(n, 500) {
		callers.Go(func() {
			for next.Add(1) <= n {
				if err := counted.Send(m.t.Context(), m.run, int(activities)); err != nil {
					m.t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	m.entries += n * (1 + activities)
	m.handled()
}

func (m *aged) handled() {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		status, err := m.run.Machine(m.t.Context())
		return err == nil && status.Handled == m.entries
	}, time.Minute, time.Millisecond, "%d entries are handled", m.entries)
}

// usedSQL sums up what the statements of the engine have done, without those that only read for a
// caller, which the test does while it waits.
const usedSQL = `select sum(shared_blks_hit + shared_blks_read)::bigint as pages, sum(rows)::bigint as rows, sum(wal_bytes)::bigint as wal
	from pg_stat_statements where query like '/* troupe %' and query not like '/* troupe read%'`

// measure sends one more signal, with one activity.
func (m *aged) measure() {
	m.t.Helper()
	before := m.used()
	began := time.Now()
	m.send(1, 1)
	took := time.Since(began)
	after := m.used()
	m.costs = append(m.costs, cost{after.Pages - before.Pages, after.Rows - before.Rows, after.WAL - before.WAL, took})
}

func (m *aged) used() (sum cost) {
	m.t.Helper()
	err := m.pool.QueryRow(m.t.Context(), usedSQL).Scan(&sum.Pages, &sum.Rows, &sum.WAL)
	require.NoError(m.t, err)
	return sum
}

// middle is the median of a figure.
func middle(costs []cost, of func(cost) float64) float64 {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
