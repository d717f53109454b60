package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// order is the input of the workflow of the shop.
type order struct {
	ID    string
	Cents int
}

// ordersWorkflow is receive → charge, which is tried twice and declines orders without cents.
func ordersWorkflow() *troupe.Workflow[order, string] {
	return troupe.Define("orders", func(b *troupe.Builder[order]) troupe.StepRef[string] {
		receive := troupe.Step0(b, "receive", func(_ context.Context, o order) (int, error) { return o.Cents, nil })
		return troupe.Step1(b, "charge", func(_ context.Context, o order, cents int) (string, error) {
			if cents <= 0 {
				return "", troupe.Class("declined", errors.New("the bank declined "+o.ID))
			}
			return fmt.Sprintf("charged %s %d", o.ID, cents), nil
		}, receive, troupe.Retry{Attempts: 2, First: time.Millisecond})
	})
}

// parcelsWorkflow sleeps before it ships.
func parcelsWorkflow(pause time.Duration) *troupe.Workflow[string, string] {
	return troupe.Define("parcels", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		window := troupe.Sleep(b, "window", pause)
		return troupe.Step0(b, "ship", func(_ context.Context, in string) (string, error) { return in, nil }, troupe.After(window))
	})
}

// shop is a database with three runs: of orders one that completed and one that failed, of
// parcels one that sleeps.
type shop struct {
	t                           *testing.T
	environ                     []string
	pool                        *pgxpool.Pool
	completed, failed, sleeping troupe.RunID
}

// newShop makes one, and leaves no pod.
func newShop(t *testing.T) *shop {
	t.Helper()
	address := pgtest.Database(t)
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	s := &shop{t: t, pool: pool, environ: []string{"TROUPE_DATABASE_URL=" + address, "USER=anna"}}
	stop := s.open(func(o *troupe.Handle[order, string], p *troupe.Handle[string, string]) {
		run, err := o.RunNoWait(t.Context(), order{"o-1", 4200}, troupe.Tenant("acme"), troupe.Key("o-1"), troupe.Labels(map[string]string{"color": "red"}))
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.NoError(t, err)
		s.completed = run.ID()
		run, err = o.RunNoWait(t.Context(), order{"o-2", 0}, troupe.Tenant("acme"))
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		s.failed = run.ID()
		run, err = p.RunNoWait(t.Context(), "p-1")
		require.NoError(t, err)
		s.sleeping = run.ID()
		require.Eventually(t, func() bool {
			status, err := run.Status(t.Context())
			require.NoError(t, err)
			return status.State == troupe.StateRunning
		}, time.Minute, time.Millisecond)
	})
	stop()
	return s
}

// open starts a pod, lets use work with it, and returns what stops it.
func (s *shop) open(use func(*troupe.Handle[order, string], *troupe.Handle[string, string])) (stop func()) {
	s.t.Helper()
	engine, err := troupe.New(s.pool, troupe.Config{PodName: "till", Slots: 4})
	require.NoError(s.t, err)
	o, err := troupe.Register(engine, ordersWorkflow())
	require.NoError(s.t, err)
	p, err := troupe.Register(engine, parcelsWorkflow(24*time.Hour))
	require.NoError(s.t, err)
	require.NoError(s.t, engine.Start(s.t.Context()))
	stop = func() { _ = engine.Stop(context.Background()) }
	s.t.Cleanup(stop)
	if use != nil {
		use(o, p)
	}
	return stop
}

// does calls a command that succeeds, and returns what it prints.
func (s *shop) does(args ...string) string {
	s.t.Helper()
	code, out, problem := call(s.environ, args...)
	require.Zero(s.t, code, problem)
	require.Empty(s.t, problem)
	return out
}

// decodes calls a command that prints one object on one line.
func (s *shop) decodes(into any, args ...string) {
	s.t.Helper()
	out := s.does(args...)
	require.Equal(s.t, 1, strings.Count(out, "\n"), out)
	require.NoError(s.t, json.Unmarshal([]byte(out), into), out)
}

// refuses calls a command that ends with a code, and returns the line that says why.
func (s *shop) refuses(want int, args ...string) string {
	s.t.Helper()
	code, _, problem := call(s.environ, args...)
	require.Equal(s.t, want, code, "%v: %s", args, problem)
	require.Equal(s.t, 1, strings.Count(problem, "\n"), "%q", problem)
	return problem
}

var (
	someInstant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	someSpan    = regexp.MustCompile(`\b\d+ (ms|s|m|h|d)\b( \d+ (s|m|h)\b)?`)
	someHash    = regexp.MustCompile(`\b[0-9a-f]{12,64}\b…?`)
	someGaps    = regexp.MustCompile(`  +`)
)

// golden compares what was printed with a file, after all that differs from one time to the
// next.
func (s *shop) golden(name string, sections ...string) {
	s.t.Helper()
	text := strings.Join(sections, "----\n")
	for id, is := range map[troupe.RunID]string{s.completed: "RUN-COMPLETED", s.failed: "RUN-FAILED", s.sleeping: "RUN-SLEEPING"} {
		text = strings.ReplaceAll(text, id.String(), is)
	}
	text = someInstant.ReplaceAllString(text, "INSTANT")
	text = someSpan.ReplaceAllString(text, "SPAN")
	text = someHash.ReplaceAllString(text, "HASH")
	text = someGaps.ReplaceAllString(text, "  ")
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(s.t, err)
	require.Equal(s.t, string(want), text, "%s is out of date: go test ./cmd/troupe -update", path)
}
