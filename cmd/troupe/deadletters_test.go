package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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
func fallen(t *testing.T, runs int) (address string) {
	t.Helper()
	address = pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), address)
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
	return address
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
	require.Equal(t, 4, strings.Count(list, "\n"), "a header, two letters, where to continue: %s", list)
	require.Contains(t, list, "more: --after ")
	for _, text := range []string{list, dead("show", strings.Fields(list)[8])} {
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
		require.Contains(t, text, `it \x1b[31mbroke`)
	}
	var page pageJSON
	require.NoError(t, json.Unmarshal([]byte(dead("list", "--json")), &page))
	require.Len(t, page.Letters, 3)
	letter := page.Letters[0]
	require.Equal(t, "second", letter.Step)
	require.Equal(t, evil, letter.Error)
	require.Contains(t, dead("show", letter.ID, "--json"), `"input":0`)

	require.Contains(t, dead("requeue", letter.ID), "1 step taken over, 1 letter\n")
	code, _, problem := call(environ, "dead-letters", "requeue", letter.ID)
	require.Equal(t, exitFailed, code)
	require.Contains(t, problem, "requeued before")
	require.Contains(t, problem, "pass --again to requeue it once more")
	code, _, problem = call(environ, "dead-letters", "show", "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/3")
	require.Equal(t, exitNotFound, code)
	require.Contains(t, problem, "dead letter not found: 0190c2f3-7a1b-7c3d-8e4f-0123456789ab/3 may have been purged")
	code, _, problem = call(environ, "dead-letters", "requeue", letter.ID, "--again", "--tenant", "acme")
	require.Equal(t, exitNotFound, code)
	require.Contains(t, problem, "dead letter not found: "+letter.ID+` may be of another tenant than "acme"`)
	require.Contains(t, dead("requeue", "--first", "1", "--queue", "default", "--label", "by=hand"), "requeued 1 run with 1 letter;")
	require.Contains(t, dead("requeue", "--all", "--json"), `"letters":1`)
	require.Equal(t, "3\n", dead("count", "--requeued", "yes"))
	require.Equal(t, "purged 2\n", dead("purge", "--older-than", "0s", "--limit", "2"))
	require.Equal(t, "purged 1\n", dead("purge", "--older-than", "0s"))
}

// Scripts rely on the keys: all of them are always there.
func TestDeadLettersJSONKeys(t *testing.T) {
	t.Parallel()
	environ := []string{"TROUPE_DATABASE_URL=" + fallen(t, 3)}
	object := func(args ...string) map[string]json.RawMessage {
		t.Helper()
		code, out, problem := call(environ, append([]string{"dlq", "--json"}, args...)...)
		require.Zero(t, code, problem)
		require.Equal(t, 1, strings.Count(out, "\n"), "one object on one line")
		var keys map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(out), &keys), out)
		return keys
	}
	require.Equal(t, map[string]json.RawMessage{"count": json.RawMessage("3")}, object("count"))

	first := object("list", "--limit", "2")
	require.Len(t, first, 2)
	var next string
	require.NoError(t, json.Unmarshal(first["next"], &next))
	second := object("list", "--limit", "2", "--after", next)
	require.Equal(t, "null", string(second["next"]))
	var letters []json.RawMessage
	require.NoError(t, json.Unmarshal(second["letters"], &letters))
	require.Len(t, letters, 1)
	const ofLetter = `["attempts","class","created_at","died_at","error","handled","id","losses","reason","requeued_as","requeued_at","requeues","run","started_at","step","tenant","workflow"]`
	require.JSONEq(t, ofLetter, keysOf(t, letters[0]))
	require.Equal(t, "[]", string(object("list", "--step", "none")["letters"]))

	detail := object("show", next)
	var events []json.RawMessage
	require.NoError(t, json.Unmarshal(detail["events"], &events))
	require.JSONEq(t, `["at","by","class","kind","text"]`, keysOf(t, events[0]))
	require.Contains(t, detail, "parents")
	require.Contains(t, detail, "run_kept")

	ofRequeue := []string{"runs", "taken_over", "letters", "go_on", "gone", "handled", "unserved"}
	for _, args := range [][]string{{"requeue", "--first", "1"}, {"requeue", "--all", "--workflow", "none"}, {"requeue", next, "--from-start"}} {
		done := object(args...)
		require.Len(t, done, len(ofRequeue))
		for _, key := range ofRequeue {
			require.Contains(t, done, key, args)
		}
	}
	require.Equal(t, "1", string(object("requeue", "--all")["taken_over"]), "the outputs of the first step")
	require.Equal(t, map[string]json.RawMessage{"purged": json.RawMessage("3")}, object("purge", "--older-than", "0s"))
}

// A role that lacks a right hears which one, and with it can do it.
func TestDeadLettersSayWhichGrantIsNeeded(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), fallen(t, 2))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	environ, role := reader(t, pool)
	for _, test := range []struct {
		rights string
		args   []string
	}{
		{"select, update, delete", []string{"purge", "--older-than", "0s", "--limit", "1"}},
		{"select, insert, update, delete", []string{"requeue", "--all"}},
	} {
		code, _, problem := call(environ, append([]string{"dead-letters"}, test.args...)...)
		require.Equal(t, exitFailed, code)
		require.Equal(t, 1, strings.Count(problem, "\n"), problem)
		require.Contains(t, problem, "permission denied")
		require.Contains(t, problem, fmt.Sprintf(`grant usage on schema "troupe" to %q; grant %s on all tables in schema "troupe" to %q`, role, test.rights, role))
		_, grants, _ := strings.Cut(strings.TrimSpace(problem), "run: ")
		_, err := pool.Exec(t.Context(), grants)
		require.NoError(t, err)
		code, _, problem = call(environ, append([]string{"dead-letters"}, test.args...)...)
		require.Zero(t, code, problem)
	}
}

// reader makes a role that may only read the tables, and returns an environment that uses
// it.
func reader(t *testing.T, admin *pgxpool.Pool) (environ []string, role string) {
	t.Helper()
	require.NoError(t, admin.QueryRow(t.Context(), "select 'reader_of_' || current_database()").Scan(&role))
	role = role[:min(len(role), 63)]
	for _, statement := range []string{
		"create role " + role + " login noreplication password 'reader'",
		"grant usage on schema troupe to " + role,
		"grant select on all tables in schema troupe to " + role,
	} {
		_, err := admin.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), "drop owned by "+role+" cascade; drop role "+role)
		require.NoError(t, err)
	})
	address, err := url.Parse(admin.Config().ConnString())
	require.NoError(t, err)
	address.User = url.UserPassword(role, "reader")
	return []string{"TROUPE_DATABASE_URL=" + address.String()}, role
}

func TestB38WrongCallsAboutDeadLetters(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--older-than is 1000000h0m0s: use at most 876000h":    {"purge", "--older-than", "1000000h"},
		"--younger-than is 1000000h0m0s: use at most 876000h":  {"list", "--younger-than", "1000000h"},
		"--limit is 0: use 1 to 1000":                          {"list", "--limit", "0"},
		"--limit is 1001: use 1 to 1000, and --after for more": {"list", "--limit", "1001"},
		"--limit is -1: use 1 or more, or 0 for all":           {"purge", "--older-than", "0s", "--limit", "-1"},
		`--after: "x" is not the id of a dead letter`:          {"list", "--after", "x"},
		"--after is empty":                                        {"list", "--after", ""},
		`"x" is not the id of a dead letter`:                      {"show", "x"},
		`"x/1" is not the id of a dead letter`:                    {"requeue", "x/1"},
		`6789ab/01" is not the id of a dead letter`:               {"show", "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/01"},
		`6789ab/+1" is not the id of a dead letter`:               {"requeue", "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/+1"},
		`6789ab/-1" is not the id of a dead letter`:               {"show", "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/-1"},
		`--step is "\xff", which is not valid UTF-8`:              {"list", "--step", "\xff"},
		"--queue is empty":                                        {"requeue", "--all", "--queue", ""},
		"--queue: 300 bytes; at most 255":                         {"requeue", "--all", "--queue", strings.Repeat("q", 300)},
		"--label: a label has no name":                            {"requeue", "--all", "--label", "=red"},
		"--at: year 1066: use one from 1970 to 9999":              {"requeue", "--all", "--at", "1066-01-01T00:00:00Z"},
		"--at is empty":                                           {"requeue", "--all", "--at", ""},
		"--attempts is 0: use 1 to 1000000":                       {"requeue", "--all", "--attempts", "0"},
		"--attempts: 1000001 attempts":                            {"requeue", "--all", "--attempts", "1000001"},
		"are for --attempts: say how many":                        {"requeue", "--all", "--retry-first", "1s"},
		"--retry-cap is 0s: use a positive duration":              {"requeue", "--all", "--attempts", "3", "--retry-cap", "0s"},
		"--retry-first: 2s is longer than the cap of 1s":          {"requeue", "--all", "--attempts", "3", "--retry-cap", "1s", "--retry-first", "2s"},
		"--attempt-timeout is -1s: use a positive duration":       {"requeue", "--all", "--attempt-timeout", "-1s"},
		"--all and --first are both":                              {"requeue", "--all", "--first", "0"},
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
		"--older-than is -24h0m0s":                                {"list", "--older-than", "-1d"},
		"flag: use a duration such as 2h or 3d":                   {"list", "--older-than", "1w"},
		"flag: use at most 36500d":                                {"count", "--younger-than", "36501d"},
		"an id and filters":                                       {"requeue", "x/1", "--step", "y"},
		"an id and --all or --first":                              {"requeue", "x/1", "--first", "0"},
		"takes the id of one dead letter":                         {"show"},
		"set TROUPE_DATABASE_URL or --database-url":               {"list"},
	} {
		environ := []string{"TROUPE_DATABASE_URL=postgres://127.0.0.1:1/none"} // a command that connects fails with another code
		if strings.HasPrefix(want, "set TROUPE") {
			environ = nil
		}
		code, out, problem := call(environ, append([]string{"dead-letters"}, args...)...)
		require.Equal(t, exitUsage, code, "%v: %s", args, problem)
		require.Empty(t, out)
		require.Contains(t, problem, want)
		require.Equal(t, 1, strings.Count(problem, "\n"), "%q", problem)
	}
}

func TestB23ErrorsAreEscaped(t *testing.T) {
	t.Parallel()
	require.NotContains(t, oneLine("bad name \x1b]0;x\x07"), "\x1b")
}
