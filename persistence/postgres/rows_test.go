package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// TestOneBadRowOfABatch puts values that the database refuses into a batch of
// 500: their attempts fail with the cause, and the rest is recorded.
func TestOneBadRowOfABatch(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	for name, c := range map[string]struct {
		refuse string // how the database is made to refuse it
		spoil  func(*persistence.Transition)
	}{
		"NUL in text": {
			`alter table {schema}.tasks add check (output is null or convert_from(output, 'UTF8') is not null)`,
			func(tr *persistence.Transition) { tr.Output = []byte("\x00") },
		},
		"an instant out of range": {
			``,
			func(tr *persistence.Transition) {
				tr.Edges = []persistence.EdgeResult{{Child: "s1", WakeAt: time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Chain(2)
			k := newFixture(open(t), g)
			if c.refuse != "" {
				k.exec(c.refuse)
			}
			k.start(g, "a", 500)
			pod := k.join(time.Hour)
			record := k.completion(pod, k.claim(pod, 500)...)
			require.Len(t, record.Transitions, 500)
			for _, i := range []int{123, 124, 499} {
				c.spoil(&record.Transitions[i])
			}
			out := k.record(record)
			for i, answer := range out.Answers {
				if i == 123 || i == 124 || i == 499 {
					require.Equal(t, lifecycle.BadRow, answer.Result)
					require.ErrorIs(t, answer.Err, persistence.ErrBadRow)
					continue
				}
				require.Equal(t, lifecycle.Moved, answer.Result, "transition %d", i)
			}
			row, err := k.store.Run(k.ctx, "a", record.Transitions[123].Task.Run)
			require.NoError(t, err)
			require.Equal(t, lifecycle.Failed, row.State)
			require.Equal(t, persistence.ClassBadRow, row.Class)
			require.Len(t, k.claim(pod, 1000), 497)
			k.requireSound()
		})
	}
}

// A value that the database refuses leaves the caller's transaction usable.
func TestBadTriggerInTx(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newFixture(schemas(t)(t), g)
	k.exec(`alter table {schema}.workflow_runs add check (1 / (input <> 'bad')::int = 1)`)
	list := k.draft(g, "a", 2)
	list[0].Input, list[0].Key = []byte("bad"), "key"
	require.NoError(t, pgx.BeginFunc(k.ctx, k.user, func(tx pgx.Tx) error {
		for i, want := range []persistence.TriggerResult{persistence.TriggerBadRow, persistence.Triggered} {
			answer, err := k.store.TriggerInTx(k.ctx, tx, list[i])
			require.NoError(t, err)
			require.Equal(t, want, answer.Result)
		}
		return nil
	}))
	require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.workflow_runs`))
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.run_keys`))
}

// TestFastPathLeavesDecisions sends successes of runs to which something else
// happened: where that makes a decision necessary, lifecycle makes it, never the
// fast statement.
func TestFastPathLeavesDecisions(t *testing.T) {
	g := storetest.Diamond()
	tracer := &counter{}
	k := newFixture(openDatabase(t, Options{Tracer: tracer}), g)
	ids := k.start(g, "a", 3)
	pod := k.join(time.Hour)
	grants := k.claim(pod, 3)
	slow := pgsql.UUIDs{ids[0], ids[1]}
	k.exec(`update {schema}.workflow_runs set slow = true where id = any($1)`, slow)
	k.exec(`update {schema}.tasks set start_timeout = 3600000000000 where run_id = $1 and step = 1`, [16]byte(ids[0]))
	tracer.take()
	k.complete(pod, grants[1], grants[2])
	require.NotContains(t, tracer.take(), "update_tasks", "nothing to decide")
	k.complete(pod, grants[0])
	require.Contains(t, tracer.take(), "update_tasks")
	require.Equal(t, 2, value[int](k.database,
		`select count(*) from {schema}.tasks where run_id = $1 and state = 2`, [16]byte(ids[0])))
	k.finish(pod)
	for _, id := range ids {
		require.Equal(t, lifecycle.Completed, k.state(id))
	}
	k.requireSound()
}

// TestStepTransactions records in the transaction of a step function.
func TestStepTransactions(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	type call func(ctx context.Context, tx any) (persistence.Transition, error)
	for name, c := range map[string]struct {
		wrap  func(calls *int, write call) call
		calls int
		wrote int
		fails bool
	}{
		"it commits": {func(_ *int, write call) call {
			return func(ctx context.Context, tx any) (persistence.Transition, error) {
				require.ErrorIs(t, stepTx(tx).Commit(ctx), steptx.ErrTxNotYours)
				require.ErrorIs(t, stepTx(tx).Rollback(ctx), steptx.ErrTxNotYours)
				return write(ctx, tx)
			}
		}, 1, 1, false},
		"it commits by text": {func(_ *int, write call) call {
			return func(ctx context.Context, tx any) (persistence.Transition, error) {
				_, err := stepTx(tx).Exec(ctx, "commit")
				require.NoError(t, err)
				return write(ctx, tx)
			}
		}, 1, 1, true}, // its own write was its own transaction
		"an ignored error": {func(_ *int, write call) call {
			return func(ctx context.Context, tx any) (persistence.Transition, error) {
				transition, err := write(ctx, tx)
				_, _ = stepTx(tx).Exec(ctx, "select 1 / 0")
				return transition, err
			}
		}, 1, 0, true},
		"two conflicts":   {func(calls *int, write call) call { return conflicting(calls, 2, write) }, 3, 1, false},
		"three conflicts": {func(calls *int, write call) call { return conflicting(calls, 3, write) }, 3, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Chain(2)
			k := newFixture(open(t), g)
			k.exec(`create table {schema}.effects (id int)`)
			ids := k.start(g, "a", 1)
			pod := k.join(time.Hour)
			grants := k.claim(pod, 1)
			record := k.completion(pod, grants...)
			record.Limit, record.Handlers, record.Queues = 5, k.handlers, []string{registry.DefaultQueue}
			calls := 0
			write := func(ctx context.Context, tx any) (persistence.Transition, error) {
				calls++
				_, err := stepTx(tx).Exec(ctx, strings.ReplaceAll(`insert into {schema}.effects values (1)`, "{schema}", k.schema))
				return record.Transitions[0], err
			}
			out, err := k.store.RecordInTx(k.ctx, record, c.wrap(&calls, write))
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, c.calls, calls)
			require.Equal(t, c.wrote, value[int](k.database, `select count(*) from {schema}.effects`))
			if !c.fails {
				require.Len(t, out.Grants, 1)
				require.Equal(t, "s1", out.Grants[0].Step)
				again, err := k.store.RecordInTx(k.ctx, record, write)
				require.NoError(t, err)
				require.Equal(t, lifecycle.AlreadyYours, again.Answers[0].Result)
				require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.effects`), "the repetition is rolled back")
				require.Equal(t, out.Grants, again.Grants)
			} else {
				require.Equal(t, lifecycle.Running, k.state(ids[0]))
				require.Len(t, k.store.held(t, pod), 1)
			}
			k.requireSound()
		})
	}
}

// stepTx returns the transaction that a step function gets.
func stepTx(tx any) steptx.OwnedTx {
	own, ok := tx.(steptx.OwnedTx)
	if !ok {
		panic("not a transaction of the engine")
	}
	return own
}

// conflicting is told by the database to begin again the first times.
func conflicting(
	calls *int, times int, write func(context.Context, any) (persistence.Transition, error),
) func(context.Context, any) (persistence.Transition, error) {
	return func(ctx context.Context, tx any) (persistence.Transition, error) {
		if *calls >= times {
			return write(ctx, tx)
		}
		*calls++
		_, err := stepTx(tx).Exec(ctx, `do $$ begin raise exception 'x' using errcode = '40001'; end $$`)
		return persistence.Transition{}, err
	}
}

// held returns what a pod holds by the tables.
func (s *Store) held(t *testing.T, pod int64) []persistence.Held {
	t.Helper()
	out, err := s.RenewPod(t.Context(), persistence.Renewal{Pod: pod, TTL: time.Hour})
	require.NoError(t, err)
	return out.Unheld
}
