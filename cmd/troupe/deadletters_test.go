package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// evil is a text that would change the terminal that shows it.
const evil = "it \x1b[31mbroke\x1b]0;owned\x07\nnext\u202eline"

// fallen makes a database with runs of which the second step failed for good.
func fallen(t *testing.T, runs int) (url string) {
	t.Helper()
	url = pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, troupe.Define("fall", func(b *troupe.Builder[int]) troupe.StepRef[int] {
		first := troupe.Step0(b, "first", func(_ context.Context, in int) (int, error) { return in, nil })
		return troupe.Step1(b, "second", func(context.Context, int, int) (int, error) {
			return 0, troupe.Terminal(errors.New(evil))
		}, first)
	}))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	for i := range runs {
		_, err := handle.Run(t.Context(), i)
		require.ErrorIs(t, err, troupe.ErrRunFailed)
	}
	require.NoError(t, engine.Stop(context.Background()))
	return url
}

func TestDeadLettersCommand(t *testing.T) {
	t.Parallel()
	environ := []string{"TROUPE_DATABASE_URL=" + fallen(t, 3)}
	dead := func(args ...string) string {
		t.Helper()
		code, out, problem := call(environ, append([]string{"dead-letters"}, args...)...)
		require.Zero(t, code, problem)
		return out
	}
	require.Equal(t, "3\n", dead("count", "--workflow", "fall", "--reason", "non_retryable"))
	require.Equal(t, "0\n", dead("count", "--older-than", "1h"))
	list := dead("list", "--limit", "2")
	require.Equal(t, 4, strings.Count(list, "\n"), "a header, two letters, where to go on: %s", list)
	require.Contains(t, list, "more: --after ")
	for _, text := range []string{list, dead("show", strings.Fields(list)[8])} {
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
		require.Contains(t, text, `it \x1b[31mbroke`)
	}
	var letter letterJSON
	lines := strings.Split(strings.TrimSpace(dead("list", "--json")), "\n")
	require.Len(t, lines, 3)
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &letter))
	require.Equal(t, "second", letter.Step)
	require.Equal(t, evil, letter.Error)
	require.Contains(t, dead("show", letter.ID, "--json"), `"input":0`)

	require.Contains(t, dead("requeue", letter.ID), "1 steps taken over, 1 letters")
	code, _, problem := call(environ, "dead-letters", "requeue", letter.ID)
	require.Equal(t, exitFailed, code)
	require.Contains(t, problem, "requeued before")
	require.Contains(t, dead("requeue", "--first", "1", "--queue", "default", "--label", "by=hand"), "requeued 1 runs with 1 letters")
	require.Contains(t, dead("requeue", "--all", "--json"), `"letters":1`)
	require.Equal(t, "3\n", dead("count", "--requeued", "yes"))
	require.Equal(t, "purged 2\n", dead("purge", "--older-than", "0s", "--limit", "2"))
	require.Equal(t, "purged 1\n", dead("purge", "--older-than", "0s"))
}

func TestB38WrongCallsAboutDeadLetters(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`there is no reason "bad": use one of attempts_exhausted`: {"list", "--reason", "bad"},
		"--requeued is \"maybe\": use yes or no":                  {"count", "--requeued", "maybe"},
		"say what to requeue":                                     {"requeue"},
		"keep one":                                                {"requeue", "--all", "--first", "3"},
		"use 1 or more":                                           {"requeue", "--first", "-1"},
		"use the form 2030":                                       {"requeue", "--all", "--at", "tomorrow"},
		"purge needs --older-than":                                {"purge"},
		"--tenant is empty":                                       {"purge", "--older-than", "0s", "--tenant", ""},
		"--reason is empty":                                       {"requeue", "--all", "--reason", ""},
		"--younger-than is 0s":                                    {"count", "--younger-than", "0s"},
		"--older-than is -1h0m0s":                                 {"list", "--older-than", "-1h"},
		"an id and filters":                                       {"requeue", "x/1", "--step", "y"},
		"an id and --all or --first":                              {"requeue", "x/1", "--first", "0"},
		"takes the id of one dead letter":                         {"show"},
		"set TROUPE_DATABASE_URL or --database-url":               {"list"},
	} {
		code, out, problem := call(nil, append([]string{"dead-letters"}, args...)...)
		require.Equal(t, exitUsage, code, "%v", args)
		require.Empty(t, out)
		require.Contains(t, problem, want)
		require.Equal(t, 1, strings.Count(problem, "\n"), "%q", problem)
	}
}

func TestB23TextsAreEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain ünïcode ✓": "plain ünïcode ✓",
		"a\x1b[2Jb":       `a\x1b[2Jb`,
		"line\r\nbreak":   `line\r\nbreak`,
		"\u202eevil":      `\u202eevil`,
		"bad\xffutf8":     `bad\xffutf8`,
		"zero\u200bwidth": `zero\u200bwidth`,
		"c1\u009b31m":     `c1\u009b31m`,
	} {
		require.Equal(t, want, plain(text))
		require.Equal(t, want, plain(plain(text)), "twice")
	}
	require.NotContains(t, oneLine("bad name \x1b]0;x\x07"), "\x1b")
}
