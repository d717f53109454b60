package acceptance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Bad triggers: each is refused with the field and a remedy, and nothing of it
// is stored.

// triggerRefused checks a refusal.
func triggerRefused(t *testing.T, engine *troupe.Engine, err error, code troupe.RefusalCode, field string) {
	t.Helper()
	require.ErrorIs(t, err, troupe.ErrRefused)
	var refusal *troupe.TriggerError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code, "%v", err)
	require.Equal(t, field, refusal.Field, "%v", err)
	require.NotEmpty(t, refusal.Remedy)
	require.Less(t, len(err.Error()), 1000, "what was refused is not repeated")
	nothingStored(t, engine)
}

func nothingStored(t *testing.T, engine *troupe.Engine) {
	t.Helper()
	page, err := engine.Runs(t.Context(), troupe.Filter{})
	require.NoError(t, err)
	require.Empty(t, page.Runs)
}

func TestB06NULIsRefusedWhereItCannotBeStored(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(number))
		for field, option := range map[string]troupe.TriggerOption{
			"key":           troupe.Key("a\x00b"),
			"tenant":        troupe.Tenant("a\x00b"),
			"queue":         troupe.OnQueue("a\x00b"),
			"labels":        troupe.Labels(map[string]string{"k": "a\x00b"}),
			"trace_context": troupe.TraceContext("a\x00b"),
		} {
			_, err := handle.RunNoWait(t.Context(), "", option)
			triggerRefused(t, engine, err, troupe.BadInput, field)
		}
		_, err := handle.RunNoWait(t.Context(), "", troupe.Key("\xff"))
		triggerRefused(t, engine, err, troupe.BadInput, "key")
	})
}

func TestB06NULInPayloadsIsKept(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(func(_ context.Context, in string) (string, error) { return in + "\x00", nil }))
		got, err := handle.Run(t.Context(), "a\x00b")
		require.NoError(t, err)
		require.Equal(t, "a\x00b\x00", got)
	})
}

func TestAnInputTooDeepToDecodeIsRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		deep := troupe.Define("deep", func(b *troupe.Builder[any]) troupe.StepRef[int] {
			return troupe.Step0(b, "step", func(context.Context, any) (int, error) { return 1, nil })
		})
		engine, handle := start(t, deep)
		nested := func(depth int) (value any) {
			for range depth {
				value = []any{value}
			}
			return value
		}
		_, err := handle.RunNoWait(t.Context(), nested(10_001))
		triggerRefused(t, engine, err, troupe.BadInput, "input")
		require.ErrorContains(t, err, "nested")
		_, err = handle.Run(t.Context(), nested(10_000))
		require.NoError(t, err)
	})
}

func TestB25AKeyNamesOneRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(number))
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
			ids  = map[troupe.RunID]int{}
			made int
		)
		for range 100 {
			wait.Go(func() {
				run, err := handle.RunNoWait(t.Context(), "same", troupe.Key("k"))
				if !assertNoError(t, err) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[run.ID()]++
				if !run.Existing() {
					made++
				}
			})
		}
		wait.Wait()
		require.Len(t, ids, 1, "one hundred callers, one run")
		require.Equal(t, 1, made)

		_, err := handle.RunNoWait(t.Context(), "other", troupe.Key("k"))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
		var refusal *troupe.TriggerError
		require.ErrorAs(t, err, &refusal)
		require.Contains(t, ids, refusal.Run, "the refusal names the run that has the key")

		_, err = handle.RunNoWait(t.Context(), "other", troupe.Key("k"), troupe.Tenant("another"))
		require.NoError(t, err, "keys of two tenants do not meet")
		_, err = handle.RunMany(t.Context(), []string{"a", "b"}, troupe.Key("two"))
		require.ErrorIs(t, err, troupe.ErrRefused)
		page, err := engine.Runs(t.Context(), troupe.Filter{})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
	})
}

// assertNoError is require.NoError for goroutines other than the test's own.
func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func TestB40InstantsThatCannotBeStoredAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(number))
		for _, at := range []time.Time{
			time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
			time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Unix(1<<60, 0),
		} {
			_, err := handle.RunNoWait(t.Context(), "", troupe.At(at))
			triggerRefused(t, engine, err, troupe.BadInput, "at")
		}
		_, err := handle.Run(t.Context(), "", troupe.At(time.Unix(0, 0)))
		require.NoError(t, err, "an instant in the past is now")
	})
}

func TestB40InstantsOfASleepAreChecked(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("until", func(b *troupe.Builder[time.Time]) troupe.StepRef[bool] {
			until := troupe.SleepUntil(b, "until", b.Input(), func(at time.Time) time.Time { return at.AddDate(1, 0, 0) })
			return troupe.Step0(b, "after", func(context.Context, time.Time) (bool, error) { return true, nil }, troupe.After(until))
		}))
		run := begin(t, handle, time.Date(9999, 6, 1, 0, 0, 0, 0, time.UTC))
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.ErrorContains(t, err, "not in the years 1 to 9999")
		require.Equal(t, "failed until=failed after=canceled", states(t, run))
	})
}

func TestB43LabelsAndTextsHaveLimits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(number))
		thousand := map[string]string{}
		for i := range 1000 {
			thousand[fmt.Sprintf("label-%d", i)] = "x"
		}
		long := strings.Repeat("x", 64<<10)
		for field, option := range map[string]troupe.TriggerOption{
			"labels":        troupe.Labels(thousand),
			"tenant":        troupe.Tenant(long),
			"key":           troupe.Key(long),
			"queue":         troupe.OnQueue(long),
			"trace_context": troupe.TraceContext(long),
		} {
			_, err := handle.RunNoWait(t.Context(), "", option)
			triggerRefused(t, engine, err, troupe.LimitReached, field)
		}
		for _, labels := range []map[string]string{{"k": long}, {long: "v"}} {
			_, err := handle.RunNoWait(t.Context(), "", troupe.Labels(labels))
			triggerRefused(t, engine, err, troupe.LimitReached, "labels")
		}
		_, err := handle.RunNoWait(t.Context(), "", troupe.Labels(map[string]string{"": "v"}))
		triggerRefused(t, engine, err, troupe.BadInput, "labels")
	})
}

func TestInputsThatCannotBeEncodedOrAreTooLargeAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, troupe.Define("any", func(b *troupe.Builder[any]) troupe.StepRef[bool] {
			return troupe.Step0(b, "step", func(context.Context, any) (bool, error) { return true, nil })
		}))
		for _, input := range []any{make(chan int), func() {}, marshalPanics{}} {
			_, err := handle.RunNoWait(t.Context(), input)
			triggerRefused(t, engine, err, troupe.BadInput, "input")
		}
		_, err := handle.RunNoWait(t.Context(), strings.Repeat("x", 2<<20))
		triggerRefused(t, engine, err, troupe.LimitReached, "input")

		_, err = handle.RunMany(t.Context(), []any{1, 2, make(chan int)})
		triggerRefused(t, engine, err, troupe.BadInput, "input")
		_, err = handle.RunMany(t.Context(), make([]any, troupe.RunManyMax+1))
		triggerRefused(t, engine, err, troupe.LimitReached, "inputs")
	})
}

func TestAnEngineThatDoesNotRunRefuses(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(calm())
		require.NoError(t, err)
		w := single(number)
		handle, err := troupe.Register(engine, w)
		require.NoError(t, err)
		_, err = troupe.Register(engine, w)
		require.ErrorContains(t, err, "is registered")
		_, err = handle.Run(t.Context(), "")
		require.ErrorIs(t, err, troupe.ErrNotStarted)

		require.NoError(t, engine.Start(t.Context()))
		require.ErrorIs(t, engine.Start(t.Context()), troupe.ErrStarted)
		_, err = troupe.Register(engine, slow())
		require.ErrorIs(t, err, troupe.ErrStarted)

		require.NoError(t, engine.Stop(t.Context()))
		require.NoError(t, engine.Stop(t.Context()), "twice is safe")
		_, err = handle.Run(t.Context(), "")
		require.ErrorIs(t, err, troupe.ErrNotStarted)
		require.ErrorContains(t, err, "make a new one", "Start would not help")
		err = engine.Start(t.Context())
		require.ErrorIs(t, err, troupe.ErrStarted)
		require.ErrorContains(t, err, "make a new one")
		require.NoError(t, engine.Err())
	})
}
