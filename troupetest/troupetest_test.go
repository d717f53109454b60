package troupetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/troupetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var errDeclined = errors.New("the card is declined")

// checkout charges, unless the input says no.
var checkout = troupe.Define("checkout", func(b *troupe.Builder[string]) troupe.StepRef[string] {
	return troupe.Step0(b, "charge", func(_ context.Context, in string) (string, error) {
		if in == "no" {
			return "", troupe.Class("declined", errDeclined)
		}
		return "paid " + in, nil
	})
})

// failing is a test that fails without ending this one.
type failing struct {
	testing.TB

	text    string
	skipped bool
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *failing) Skipf(format string, args ...any) {
	f.skipped = true
	f.Fatalf(format, args...)
}

// fails calls a function that ends its test, and returns how.
func fails(t *testing.T, call func(tb testing.TB)) *failing {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		call(f)
	}()
	<-done
	require.NotEmpty(t, f.text)
	return f
}

func TestARunIsAwaitedWithItsHistory(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	engine := troupetest.Engine(t, pool, troupe.Config{})
	handle := troupetest.Register(t, engine, checkout)
	troupetest.Start(t, engine)

	paid, err := handle.RunNoWait(t.Context(), "o-1")
	require.NoError(t, err)
	require.Equal(t, "paid o-1", troupetest.Await(t, paid))
	declined, err := handle.RunNoWait(t.Context(), "no")
	require.NoError(t, err)
	end := troupetest.AwaitFailure(t, declined)
	require.Equal(t, []string{"charge", "declined"}, []string{end.Step, end.Class})

	text := fails(t, func(tb testing.TB) { troupetest.Await(tb, declined) }).text
	require.Contains(t, text, `run failed: step "charge": the card is declined`)
	require.Contains(t, text, `step "charge" is failed, attempts 1 (declined: the card is declined)`)
	require.Contains(t, text, `step "charge": started, attempt 1`)
	require.Contains(t, text, "the run: run_failed")
	text = fails(t, func(tb testing.TB) { _ = troupetest.AwaitFailure(tb, paid) }).text
	require.Contains(t, text, "it completed")
	require.Contains(t, text, "the run: run_completed")
}

func TestSchemasAreOneForEachTestAndAreDropped(t *testing.T) { //nolint:tparallel // one test after the other
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	var schemas []string
	for range 2 {
		t.Run("one", func(t *testing.T) {
			schemas = append(schemas, troupetest.Schema(t, pool))
			engine := troupetest.Engine(t, pool, troupe.Config{Schema: schemas[len(schemas)-1]})
			handle := troupetest.Register(t, engine, checkout)
			troupetest.Start(t, engine)
			_, err := handle.RunNoWait(t.Context(), "o-1", troupe.Key("the same in both"))
			require.NoError(t, err)
		})
	}
	require.NotEqual(t, schemas[0], schemas[1])
	var left int
	require.NoError(t, pool.QueryRow(t.Context(),
		"select count(*) from pg_namespace where nspname like 'troupetest%'").Scan(&left))
	require.Zero(t, left)
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from pg_publication").Scan(&left))
	require.Zero(t, left)
}

func TestTheDatabaseIsTheOneOfTheEnvironment(t *testing.T) {
	t.Setenv("CI", "")
	t.Setenv(troupetest.DatabaseURL, "")
	f := fails(t, func(tb testing.TB) { troupetest.Pool(tb) })
	require.True(t, f.skipped)
	require.Contains(t, f.text, "set TROUPE_DATABASE_URL")
	t.Setenv("CI", "true")
	f = fails(t, func(tb testing.TB) { troupetest.Pool(tb) })
	require.False(t, f.skipped, "a test that never runs in CI shows nothing")
	t.Setenv("CI", "")
	t.Setenv(troupetest.DatabaseURL, pgtest.Database(t))
	require.NoError(t, troupetest.Pool(t).Ping(t.Context()))
}
