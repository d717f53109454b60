package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// picky are two workflows that take any input but "bad". A condition of branched
// looks at it.
func picky() (plain, branched *troupe.Workflow[string, string]) {
	eat := func(_ context.Context, in string) (string, error) {
		if in == "bad" {
			return "", troupe.Terminal(errors.New("it tastes bad"))
		}
		return in + " eaten", nil
	}
	plain = troupe.Define("plain", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "eat", eat)
	})
	branched = troupe.Define("branched", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		some, _ := troupe.If(b.Input(), func(in string) bool { return in != "" })
		return troupe.Step0(b, "eat", eat, some)
	})
	return plain, branched
}

// kitchen starts an engine with both workflows.
func kitchen(t *testing.T, pool *pgxpool.Pool) (engine *troupe.Engine, plain, branched *troupe.Handle[string, string]) {
	t.Helper()
	engine, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	one, other := picky()
	plain, err = troupe.Register(engine, one)
	require.NoError(t, err)
	branched, err = troupe.Register(engine, other)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	return engine, plain, branched
}

// piped runs a command line with something on its standard input.
func piped(in string, environ []string, args ...string) (code int, out, problem string) {
	var stdout, stderr bytes.Buffer
	code = run(args, world{environ: environ, in: strings.NewReader(in), out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestDeadLetterIsRequeuedWithAnInputOfAFile(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	environ := []string{"TROUPE_DATABASE_URL=" + address}
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	engine, plain, branched := kitchen(t, pool)
	ids := map[string]string{}
	for name, handle := range map[string]*troupe.Handle[string, string]{"plain": plain, "branched": branched} {
		_, err := handle.Run(t.Context(), "bad")
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		page, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{Workflow: name})
		require.NoError(t, err)
		ids[name] = page.Letters[0].ID
	}
	require.NoError(t, engine.Stop(context.Background()))

	code, _, problem := piped(`"good"`, environ, "dlq", "requeue", ids["branched"], "--input", "-")
	require.Equal(t, exitFailed, code)
	require.Contains(t, problem, `conditions of workflow "branched" look at its input`)
	require.Contains(t, problem, "requeue it in a program that registers it")
	stranger, err := troupe.New(pool, troupe.Config{})
	require.NoError(t, err)
	one, _ := picky()
	_, err = troupe.Register(stranger, one)
	require.NoError(t, err)
	require.NoError(t, stranger.Start(t.Context()))
	_, err = stranger.DeadLetters().Requeue(t.Context(), "", ids["branched"], troupe.RequeueOptions{Input: "good"})
	refused := &troupe.TriggerError{}
	require.ErrorAs(t, err, &refused, "nor does a program that lacks the workflow")
	require.Equal(t, troupe.BadInput, refused.Code)
	require.NoError(t, stranger.Stop(context.Background()))
	code, out, problem := piped("", environ, "dlq", "count", "--requeued", "yes")
	require.Zero(t, code, problem)
	require.Equal(t, "0\n", out, "nothing was tried")

	code, out, problem = piped(" \"good\"\n", environ, "dlq", "requeue", ids["plain"], "--input", "-")
	require.Zero(t, code, problem)
	require.Contains(t, out, "0 steps taken over, 1 letter\n")
	fromPipe := runOf(t, out)
	file := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(file, []byte(`no JSON`), 0o600))
	code, out, problem = piped("", environ, "dlq", "requeue", ids["plain"], "--again", "--input", file, "--raw")
	require.Zero(t, code, problem)
	fromFile := runOf(t, out)

	engine, plain, _ = kitchen(t, pool)
	eaten, err := plain.Get("", fromPipe).Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, "good eaten", eaten)
	_, err = plain.Get("", fromFile).Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunFailed)
	require.ErrorContains(t, err, "decode the run's input", "an input that could not be checked is an error of the steps")
	require.NoError(t, engine.Stop(context.Background()))

	// A program that did not say what its conditions look at.
	_, err = pool.Exec(t.Context(), "update troupe.workflow_definitions set input_free = false")
	require.NoError(t, err)
	code, _, problem = piped(`"good"`, environ, "dlq", "requeue", ids["plain"], "--again", "--input", "-")
	require.Equal(t, exitFailed, code)
	require.Contains(t, problem, `conditions of workflow "plain" look at its input, or may`)
	engine, _, _ = kitchen(t, pool) // says so
	require.NoError(t, engine.Stop(context.Background()))
	code, _, problem = piped(`"good"`, environ, "dlq", "requeue", ids["plain"], "--again", "--input", "-")
	require.Zero(t, code, problem)
}

// runOf reads the id of the new run in what requeue prints.
func runOf(t *testing.T, out string) troupe.RunID {
	t.Helper()
	_, rest, _ := strings.Cut(out, "requeued as run ")
	text, _, _ := strings.Cut(rest, ":")
	id, err := troupe.ParseRunID(text)
	require.NoError(t, err, out)
	return id
}

func TestB38WrongInputsOfDeadLetters(t *testing.T) {
	t.Parallel()
	const id = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/3"
	for want, args := range map[string][]string{
		"--input is for one dead letter":               {"--all", "--input", "-"},
		"--input is empty":                             {id, "--input", ""},
		"--raw is given without --input":               {id, "--raw"},
		"--input is not JSON":                          {id, "--input", "-"},
		"--input: open /nowhere/to/be/found":           {id, "--input", "/nowhere/to/be/found"},
		"--input has more than 9 bytes":                {id, "--input", "-", "--raw"},
		"an id and --all or --first are both given":    {id, "--all", "--input", "-"},
		"--input is for one dead letter: give its id,": {"--first", "2", "--input", "-"},
	} {
		environ := []string{"TROUPE_DATABASE_URL=postgres://127.0.0.1:1/none", "TROUPE_PAYLOAD_LIMIT=9"}
		in := `{"half": `
		if strings.Contains(want, "9 bytes") {
			in += "1}"
		}
		code, out, problem := piped(in, environ, append([]string{"dead-letters", "requeue"}, args...)...)
		require.Equal(t, exitUsage, code, "%v: %s", args, problem)
		require.Empty(t, out)
		require.Contains(t, problem, want)
		require.Equal(t, 1, strings.Count(problem, "\n"), "%q", problem)
	}
}
