package program_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/simtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shout makes "hey" of "  hey " and "HEY!" of that, the latter at its second attempt.
func shout() *chain {
	var calls atomic.Int64
	return newChain("shout", []func(string) (string, error){
		func(text string) (string, error) { return strings.TrimSpace(text), nil },
		func(text string) (string, error) {
			if calls.Add(1) == 1 {
				return "", errors.New("hoarse")
			}
			return strings.ToUpper(text) + "!", nil
		},
	}, troupe.Retry{Attempts: 20})
}

// runs runs a chain on an engine until the test ends.
func runs(t *testing.T, engine *troupe.Engine) {
	t.Helper()
	handle, err := troupe.Register(engine, shout())
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	defer func() { require.NoError(t, engine.Stop(context.Background())) }()

	out, err := handle.Run(t.Context(), "  hey ")
	require.NoError(t, err)
	require.Equal(t, "HEY!", out)

	_, err = handle.RunNoWait(t.Context(), "")
	var refused *troupe.TriggerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, troupe.BadInput, refused.Code)
	require.ErrorContains(t, err, "the text is empty")
}

func TestAFrontEndRunsInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		runs(t, engine)
	})
}

func TestAFrontEndRunsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	runs(t, engine)
}

func TestAFrontEndRunsInASimulation(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		out, err := simtest.Register(s, shout()).Start("  hey ").Await()
		require.NoError(s, err)
		require.Equal(s, "HEY!", out)
	})
}

func TestProblemsOfAFrontEndAreReported(t *testing.T) {
	t.Parallel()
	engine, err := troupe.NewInMemory(troupe.Config{})
	require.NoError(t, err)
	_, err = troupe.Register(engine, newChain("", nil, troupe.Retry{Attempts: 1}))
	var problems *troupe.DefinitionError
	require.ErrorAs(t, err, &problems)
	require.ErrorContains(t, err, "links: the chain has none: pass a function")
	require.ErrorContains(t, err, "name")
	require.NotContains(t, err.Error(), "output")
}

// onQueue is a step option beside the root's.
type onQueue string

func (q onQueue) IsFunctionOption()            {}
func (q onQueue) IsMapOption()                 {}
func (q onQueue) ApplyStep(step *program.Step) { step.Options.Queue = string(q) }
func (q onQueue) ApplyMap(step *program.Step)  { q.ApplyStep(step) }

func TestAnotherPackageHasOptions(t *testing.T) {
	t.Parallel()
	w := troupe.Define("w", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(b, "s", func(_ context.Context, in int) (int, error) { return in, nil }, onQueue("q"))
	})
	require.NoError(t, w.Validate())
	require.Equal(t, "q", w.Program(nil, nil).Definition.Steps[0].Options.Queue)
}
