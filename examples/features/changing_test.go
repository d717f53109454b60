package features_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/troupetest"
)

// shipping is a workflow of one step, which says what it was given.
func shipping[O any](step string, says func(O) string) *troupe.Workflow[O, string] {
	return troupe.Define("shipping", func(b *troupe.Builder[O]) troupe.StepRef[string] {
		return troupe.Step0(b, step, func(_ context.Context, o O) (string, error) { return says(o), nil })
	})
}

// last triggers a run as the last version of a program, which executes nothing any more.
func last[O any](t *testing.T, pool *pgxpool.Pool, schema string, w *troupe.Workflow[O, string], in O, options ...troupe.TriggerOption) troupe.RunID {
	t.Helper()
	engine := troupetest.Engine(t, pool, troupe.Config{Schema: schema, ClientOnly: true})
	handle := troupetest.Register(t, engine, w)
	troupetest.Start(t, engine)
	run, err := handle.RunNoWait(t.Context(), in, options...)
	require.NoError(t, err)
	require.NoError(t, engine.Stop(t.Context()))
	return run.ID()
}

// next is a pod of the next version.
func next[O any](t *testing.T, pool *pgxpool.Pool, schema string, w *troupe.Workflow[O, string]) *troupe.Handle[O, string] {
	t.Helper()
	engine := troupetest.Engine(t, pool, troupe.Config{Schema: schema})
	handle := troupetest.Register(t, engine, w)
	troupetest.Start(t, engine)
	return handle
}

// orderOfLast triggers a run with the type that the tests below change.
func orderOfLast(t *testing.T, pool *pgxpool.Pool, schema string, options ...troupe.TriggerOption) troupe.RunID {
	t.Helper()
	type order struct {
		ID    string
		Cents int `json:"cents"`
	}
	return last(t, pool, schema, shipping("ship", func(o order) string { return o.ID }), order{"o-1", 100}, options...)
}

// A new field is empty in runs that are open. With omitempty the same request is the same
// input before and after the deploy; without, it is another one.
func TestANewFieldIsEmptyInOpenRuns(t *testing.T) {
	pool, schema := database(t)
	run := orderOfLast(t, pool, schema, troupe.Key("request-7"))
	t.Run("omitempty", func(t *testing.T) {
		t.Parallel()
		type order struct {
			ID    string
			Cents int    `json:"cents"`
			Note  string `json:",omitempty"`
		}
		handle := next(t, pool, schema, shipping("ship", func(o order) string { return o.ID + o.Note }))
		require.Equal(t, "o-1", troupetest.Await(t, handle.Get("", run)))
		again, err := handle.RunNoWait(t.Context(), order{ID: "o-1", Cents: 100}, troupe.Key("request-7"))
		require.NoError(t, err)
		require.Equal(t, run, again.ID())
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		type order struct {
			ID    string
			Cents int `json:"cents"`
			Note  string
		}
		handle := next(t, pool, schema, shipping("ship", func(o order) string { return o.ID + o.Note }))
		_, err := handle.RunNoWait(t.Context(), order{ID: "o-1", Cents: 100}, troupe.Key("request-7"))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
	})
}

// A field whose JSON name has changed is empty in runs that are open, and with its old tag
// it is not.
func TestARenamedFieldNeedsItsTag(t *testing.T) {
	pool, schema := database(t)
	run := orderOfLast(t, pool, schema)
	type order struct {
		ID    string
		Total int `json:"total"`
		Cents int `json:"cents"`
	}
	handle := next(t, pool, schema, shipping("ship", func(o order) string {
		require.Zero(t, o.Total)
		require.Equal(t, 100, o.Cents)
		return o.ID
	}))
	require.Equal(t, "o-1", troupetest.Await(t, handle.Get("", run)))
}

// A field of another type fails the step that reads it.
func TestAChangedFieldFailsOpenRuns(t *testing.T) {
	pool, schema := database(t)
	run := orderOfLast(t, pool, schema)
	type order struct {
		ID    string
		Cents string `json:"cents"`
	}
	handle := next(t, pool, schema, shipping("ship", func(o order) string { return o.Cents }))
	require.ErrorContains(t, troupetest.AwaitFailure(t, handle.Get("", run)), "decode the run's input into features_test.order")
	status, err := handle.Get("", run).Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "decoding", status.Steps[0].Class)
}

// A step, or a type, of another name waits for a pod that has the old one.
func TestARenamedStepOrTypeWaitsForItsPod(t *testing.T) {
	t.Parallel()
	type order struct {
		ID    string
		Cents int `json:"cents"`
	}
	type parcel order
	for name, deploy := range map[string]func(*testing.T, *pgxpool.Pool, string, troupe.RunID) *troupe.Run[string]{
		"step": func(t *testing.T, pool *pgxpool.Pool, schema string, run troupe.RunID) *troupe.Run[string] {
			t.Helper()
			return next(t, pool, schema, shipping("send", func(o order) string { return o.ID })).Get("", run)
		},
		"type": func(t *testing.T, pool *pgxpool.Pool, schema string, run troupe.RunID) *troupe.Run[string] {
			t.Helper()
			return next(t, pool, schema, shipping("ship", func(p parcel) string { return p.ID })).Get("", run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool, schema := database(t)
			run := orderOfLast(t, pool, schema)
			open := deploy(t, pool, schema, run)
			require.EventuallyWithT(t, func(t *assert.CollectT) { // for an instant the leader holds what it parks
				reasons, err := open.Explain(context.Background())
				require.NoError(t, err)
				require.NotEmpty(t, reasons)
				require.Equal(t, explain.CauseUnregistered, reasons[0].Cause, reasons[0])
			}, time.Minute, 20*time.Millisecond)
			old := next(t, pool, schema, shipping("ship", func(o order) string { return o.ID }))
			require.Equal(t, "o-1", troupetest.Await(t, old.Get("", run)))
		})
	}
}
