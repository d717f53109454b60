package acceptance

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

func TestEachInputOfManyHasItsKey(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(number))
		known := begin(t, handle, "b", troupe.Key("kb"))
		runs, err := handle.RunMany(t.Context(), []string{"a", "b", "c", "c"}, troupe.Keys([]string{"ka", "kb", "", ""}))
		require.NoError(t, err)
		require.Equal(t, []bool{false, true, false, false}, []bool{runs[0].Existing(), runs[1].Existing(), runs[2].Existing(), runs[3].Existing()})
		require.Equal(t, known.ID(), runs[1].ID())
		require.NotEqual(t, runs[2].ID(), runs[3].ID(), "without a key each is another run")

		again, err := handle.RunMany(t.Context(), []string{"a", "d", "d"}, troupe.Keys([]string{"ka", "kd", "kd"}))
		require.NoError(t, err)
		require.Equal(t, runs[0].ID(), again[0].ID())
		require.Equal(t, again[1].ID(), again[2].ID(), "a key that is given twice names one run")

		_, err = handle.RunMany(t.Context(), []string{"e", "f", "g"}, troupe.Keys([]string{"ke", "kf", "kf"}))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
		_, err = handle.GetByKey(t.Context(), "", "ke")
		require.ErrorIs(t, err, troupe.ErrRunNotFound, "all or none")
	})
}

func TestKeysThatDoNotFitTheInputsAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(number))
		for text, options := range map[string][]troupe.TriggerOption{
			"1 keys for 2 inputs: give one for each": {troupe.Keys([]string{"a"})},
			"give Key or Keys, not both":             {troupe.Key("a"), troupe.Keys([]string{"a", "b"})},
			"give each input its own with Keys":      {troupe.Key("a")},
			"key: remove the NUL character":          {troupe.Keys([]string{"a", "\x00"})},
		} {
			_, err := handle.RunMany(t.Context(), []string{"x", "y"}, options...)
			require.ErrorIs(t, err, troupe.ErrRefused)
			require.ErrorContains(t, err, text)
		}
		keys := []string{"a", "b"}
		option := troupe.Keys(keys)
		keys[0] = "changed"
		_, err := handle.RunMany(t.Context(), []string{"x", "y"}, option)
		require.NoError(t, err)
		_, err = handle.GetByKey(t.Context(), "", "a")
		require.NoError(t, err, "they are taken when they are given")
	})
}

func TestARunIsFoundByItsKey(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(number))
		run := begin(t, handle, "in", troupe.Key("k"), troupe.Tenant("a"))
		found, err := handle.GetByKey(t.Context(), "a", "k")
		require.NoError(t, err)
		require.Equal(t, run.ID(), found.ID())
		out, err := found.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, out)
		id, err := engine.RunByKey(t.Context(), "a", "single", "k")
		require.NoError(t, err)
		status, err := engine.Status(t.Context(), "a", id)
		require.NoError(t, err)
		require.Equal(t, "k", status.Key)
		for _, missing := range [][]string{{"", "single", "k"}, {"a", "other", "k"}, {"a", "single", "other"}, {"a", "single", ""}} {
			_, err := engine.RunByKey(t.Context(), missing[0], missing[1], missing[2])
			require.True(t, errors.Is(err, troupe.ErrRunNotFound), "%v", missing)
		}
	})
}
