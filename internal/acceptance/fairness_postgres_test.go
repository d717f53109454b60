package acceptance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// I9 and R2 on the whole engine and a real PostgreSQL: the order in which tasks start.

const (
	fairSlots = 10
	backlog   = 10_000
	fairWait  = 60 * time.Second // for anything that must happen at all
)

// turnstile notes in which order tasks start, and keeps each in its slot until
// it is let through.
type turnstile struct {
	mu    sync.Mutex
	order []string
	grown chan struct{} // closed and made anew at every start
	pass  chan struct{} // one value lets one task through; closed: all
	held  int           // tasks that stand in it while it is closed
	let   int           // tasks let through so far
}

func newTurnstile(slots int) *turnstile {
	return &turnstile{grown: make(chan struct{}), pass: make(chan struct{}, 4*backlog), held: slots}
}

func (s *turnstile) enter(ctx context.Context, who string) error {
	s.mu.Lock()
	s.order = append(s.order, who)
	close(s.grown)
	s.grown = make(chan struct{})
	s.mu.Unlock()
	select {
	case <-s.pass:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// advance lets n tasks through, waits until others have their slots, and returns the
// order in which tasks have started.
func (s *turnstile) advance(t *testing.T, n int) []string {
	t.Helper()
	s.let += n
	for range n {
		s.pass <- struct{}{}
	}
	return s.until(t, fmt.Sprintf("%d tasks have started", s.let+s.held), func(order []string) bool { return len(order) >= s.let+s.held })
}

// until waits for a condition on the order, which it returns.
func (s *turnstile) until(t *testing.T, what string, holds func(order []string) bool) []string {
	t.Helper()
	timer := time.NewTimer(fairWait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		order, grown := s.order[:len(s.order):len(s.order)], s.grown
		s.mu.Unlock()
		if holds(order) {
			return order
		}
		select {
		case <-grown:
		case <-timer.C:
			t.Fatalf("not after %v: %s (%d have started)", fairWait, what, len(order))
		}
	}
}

// startsAfter triggers a run of a tenant while every slot is held, lets tasks
// through, and returns how many with the input others start before it.
func (s *turnstile) startsAfter(t *testing.T, handle *troupe.Handle[string, string], who, others string, options ...troupe.TriggerOption) int {
	t.Helper()
	before := len(s.advance(t, 0))
	_, err := handle.RunNoWait(t.Context(), who, append(options, troupe.Tenant(who))...)
	require.NoError(t, err)
	order := s.advance(t, 5*fairSlots)
	at := slices.Index(order[before:], who)
	require.GreaterOrEqual(t, at, 0, "%s has not started: %v", who, order[before:])
	count := 0
	for _, other := range order[before : before+at] {
		if other == others {
			count++
		}
	}
	return count
}

// onPostgres runs a workflow on an engine on a fresh database until the test
// ends.
func onPostgres[I, O any](t *testing.T, config troupe.Config, w *troupe.Workflow[I, O]) *troupe.Handle[I, O] {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, err := troupe.New(pool, config)
	require.NoError(t, err)
	return join(t, engine, w)
}

// queued triggers n runs of a tenant.
func queued(t *testing.T, handle *troupe.Handle[string, string], who string, n int, options ...troupe.TriggerOption) {
	t.Helper()
	for left := n; left > 0; left -= troupe.RunManyMax {
		inputs := make([]string, min(left, troupe.RunManyMax))
		for i := range inputs {
			inputs[i] = who
		}
		_, err := handle.RunMany(t.Context(), inputs, append(options, troupe.Tenant(who))...)
		require.NoError(t, err)
	}
}

func unlessShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: thousands of runs")
	}
}

func TestI9ABacklogOfOneTenantDelaysNoOther(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	gate := newTurnstile(fairSlots)
	handle := onPostgres(t, troupe.Config{QueueSlots: map[string]int{"default": fairSlots, "other": fairSlots}},
		single(func(ctx context.Context, who string) (string, error) { return who, gate.enter(ctx, who) }))
	t.Cleanup(func() { close(gate.pass) }) // before the engine waits for its tasks

	queued(t, handle, "b", backlog)
	require.LessOrEqual(t, gate.startsAfter(t, handle, "a", "b"), fairSlots+1, "a triggers after 10,000 of b")
	gate.advance(t, 1000)
	require.LessOrEqual(t, gate.startsAfter(t, handle, "late", "b"), fairSlots+1, "late comes when b has been served for long")

	// Each queue has slots of its own, and the speed of one says nothing of the other.
	other := troupe.OnQueue("other")
	_, err := handle.RunMany(t.Context(), slices.Repeat([]string{"b elsewhere"}, troupe.RunManyMax), other, troupe.Tenant("b"))
	require.NoError(t, err)
	gate.held += fairSlots // those of the other queue
	gate.advance(t, 100)
	require.LessOrEqual(t, gate.startsAfter(t, handle, "elsewhere", "b elsewhere", other), fairSlots+1, "another queue, while both are busy")
	require.LessOrEqual(t, gate.startsAfter(t, handle, "again", "b"), fairSlots+1, "and the first queue again")
}

func TestI9AThousandTenantsTakeTurns(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	const tenants, each = 1000, 3
	gate := newTurnstile(fairSlots)
	handle := onPostgres(t, troupe.Config{Slots: fairSlots},
		single(func(ctx context.Context, who string) (string, error) { return who, gate.enter(ctx, who) }))
	t.Cleanup(func() { close(gate.pass) }) // before the engine waits for its tasks

	queued(t, handle, "first", fairSlots) // they hold the slots while the others queue up
	gate.advance(t, 0)
	var callers sync.WaitGroup
	for caller := range 20 {
		callers.Go(func() {
			for n := caller; n < tenants; n += 20 {
				queued(t, handle, fmt.Sprintf("tenant-%d", n), each)
			}
		})
	}
	callers.Wait()
	_, err := handle.RunNoWait(t.Context(), "late", troupe.Tenant("late"))
	require.NoError(t, err)
	order := gate.advance(t, tenants*each+1)[fairSlots:]

	turns := map[string]int{}
	for i, who := range order {
		turns[who]++
		if who == "late" {
			require.LessOrEqual(t, i, tenants+fairSlots+1, "late waits for one of each other")
		}
		require.LessOrEqual(t, turns[who], i/tenants+2, "%s has its turn %d as the start %d", who, turns[who], i)
	}
}

func TestI9RunsOfOneTenantFinishSteadily(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	const runs, steps = 1000, 4
	var mu sync.Mutex
	executed, finished := 0, 0
	var early []int // runs finished when a tenth, two tenths … of the steps were executed
	done := make(chan struct{})
	pass := func(last bool) func(context.Context, string, string) (string, error) {
		return func(_ context.Context, _, got string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			executed++
			if last {
				finished++
			}
			if executed%(runs*steps/10) == 0 {
				early = append(early, finished)
			}
			if executed == runs*steps {
				close(done)
			}
			return got, nil
		}
	}
	handle := onPostgres(t, troupe.Config{Slots: fairSlots}, troupe.Define("chain", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) { return pass(false)(ctx, in, in) })
		return troupe.Step1(b, "d", pass(true), troupe.Step1(b, "c", pass(false), troupe.Step1(b, "b", pass(false), a)))
	}))
	queued(t, handle, "only", runs)
	select {
	case <-done:
	case <-time.After(fairWait):
		t.Fatalf("%d of %d steps after %v", executed, runs*steps, fairWait)
	}
	require.Len(t, early, 10)
	for i, n := range early {
		require.InDelta(t, float64(i+1)/10*runs, n, runs/10, "finished as the steps go on: %v", early)
	}
}
