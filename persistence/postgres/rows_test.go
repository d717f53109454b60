package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
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
		"a constraint": {
			`alter table {schema}.tasks add check (1 / (output <> 'bad')::int = 1)`,
			func(tr *persistence.Transition) { tr.Output = []byte("bad") },
		},
		"too long": {
			`alter table {schema}.tasks add check (1 / (octet_length(output) < 1000)::int = 1)`,
			func(tr *persistence.Transition) { tr.Output = []byte(strings.Repeat("x", 1000)) },
		},
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
			k := newKit(open(t), g)
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
			out, err := k.store.RecordTransitions(k.ctx, record)
			require.NoError(t, err)
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

// TestOneBadTrigger is the same for intake: a trigger, or its group, is refused
// and leaves nothing behind.
func TestOneBadTrigger(t *testing.T) {
	g := storetest.Single()
	k := newKit(schemas(t)(t), g)
	k.exec(`alter table {schema}.workflow_runs add check (1 / (input <> 'bad')::int = 1)`)
	list := k.draft(g, "a", 500)
	list[7].Input = []byte("bad")
	list[8].TraceContext = "\x00"
	list[9].Tenant = "bad\xff"
	list[10].Labels = map[string]string{"a": "b\x00"}
	list[11].At = time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 20; i < 30; i++ {
		list[i].Group = 1
	}
	list[25].Input = []byte("bad")
	out, err := k.store.TriggerRuns(k.ctx, list, persistence.GrantRequest{})
	require.NoError(t, err)
	for i, answer := range out.Answers {
		switch {
		case i >= 7 && i <= 11, i == 25:
			require.Equal(t, persistence.TriggerBadRow, answer.Result, "trigger %d", i)
			require.ErrorIs(t, answer.Err, persistence.ErrBadRow)
		case i >= 20 && i < 30:
			require.Equal(t, persistence.GroupRefused, answer.Result)
		default:
			require.Equal(t, persistence.Triggered, answer.Result)
		}
	}
	require.Equal(t, 485, value[int](k.database, `select count(*) from {schema}.workflow_runs`))
	require.Equal(t, 485, value[int](k.database, `select count(*) from {schema}.tasks`))
	k.requireSound()
}

// TestBadTriggerInTx leaves the user's transaction usable.
func TestBadTriggerInTx(t *testing.T) {
	g := storetest.Single()
	k := newKit(schemas(t)(t), g)
	k.exec(`alter table {schema}.workflow_runs add check (1 / (input <> 'bad')::int = 1); create table {schema}.orders (id int)`)
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(k.ctx)) }()
	list := k.draft(g, "a", 2)
	list[0].Input, list[0].Key = []byte("bad"), "key"
	answer, err := k.store.TriggerInTx(k.ctx, tx, list[0])
	require.NoError(t, err)
	require.Equal(t, persistence.TriggerBadRow, answer.Result)
	_, err = tx.Exec(k.ctx, strings.ReplaceAll(`insert into {schema}.orders values (1)`, "{schema}", k.schema))
	require.NoError(t, err)
	answer, err = k.store.TriggerInTx(k.ctx, tx, list[1])
	require.NoError(t, err)
	require.Equal(t, persistence.Triggered, answer.Result)
	require.NoError(t, tx.Commit(k.ctx))
	require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.workflow_runs`))
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.run_keys`))

	_, err = k.store.TriggerInTx(k.ctx, tx, k.draft(g, "a", 1)[0])
	require.ErrorContains(t, err, "the transaction has ended")
	require.NotErrorIs(t, err, persistence.ErrUnavailable, "asking again would not help")
}

// TestEqualCtids keeps tasks and runs in partitions, whose rows share ctids:
// a statement that found rows by ctid alone would confuse them.
func TestEqualCtids(t *testing.T) {
	g := storetest.Diamond()
	k := newKit(schemas(t)(t), g)
	views := map[string]string{}
	for _, view := range []string{"every_run", "every_task", "every_event"} {
		views[view] = value[string](k.database, `select pg_get_viewdef('{schema}.`+view+`'::regclass)`)
	}
	for table, key := range map[string]string{"tasks": "run_id", "workflow_runs": "id"} {
		k.exec(`alter table {schema}.` + table + ` rename to old_` + table)
		k.exec(`create table {schema}.` + table + ` (like {schema}.old_` + table + ` including all) partition by hash (` + key + `)`)
		for _, remainder := range []string{"0", "1", "2", "3"} {
			k.exec(`create table {schema}.` + table + remainder + ` partition of {schema}.` + table +
				` for values with (modulus 4, remainder ` + remainder + `)`)
		}
	}
	for view, text := range views { // of the tables that have these names now
		k.exec(`create or replace view {schema}.` + view + ` as ` + text)
	}
	pod, other := k.join(time.Hour), k.join(time.Hour)
	ids := k.start(g, "a", 40)
	for i := 0; ; i++ {
		grants := k.claim(pod, 13)
		if len(grants) == 0 {
			break
		}
		record := k.completion(pod, grants...)
		record.Limit, record.Handlers, record.Queues = 5, k.handlers, []string{defaultQueue}
		if i == 3 {
			record.Transitions[0].Report = lifecycle.Released // the slow path too
		}
		out, err := k.store.RecordTransitions(k.ctx, record)
		require.NoError(t, err)
		k.complete(pod, out.Grants...)
		k.requireSound()
	}
	k.finish(other)
	for _, id := range ids {
		require.Equal(t, lifecycle.Completed, k.state(id))
	}
	k.requireSound()
}

// TestFastPathLeavesDecisions sends successes of runs to which something else
// happened: where that makes a decision necessary, lifecycle makes it, never the
// fast statement.
func TestFastPathLeavesDecisions(t *testing.T) {
	g := storetest.Diamond()
	d := schemas(t)(t)
	tracer := &counter{}
	store, err := Open(t.Context(), Options{Pool: d.user, Schema: strings.Trim(d.schema, `"`), Tracer: tracer})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	d.store = store
	k := newKit(d, g)
	ids := k.start(g, "a", 3)
	pod := k.join(time.Hour)
	grants := k.claim(pod, 3)
	slow := uuids{ids[0], ids[1]}
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
		"commits":  {func(_ *int, write call) call { return write }, 1, 1, false},
		"an error": {func(_ *int, write call) call { return failing(write, errors.New("no")) }, 1, 0, true},
		"it commits": {func(_ *int, write call) call {
			return func(ctx context.Context, tx any) (persistence.Transition, error) {
				require.ErrorIs(t, stepTx(tx).Commit(ctx), errTxNotYours)
				require.ErrorIs(t, stepTx(tx).Rollback(ctx), errTxNotYours)
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
			k := newKit(open(t), g)
			k.exec(`create table {schema}.effects (id int)`)
			ids := k.start(g, "a", 1)
			pod := k.join(time.Hour)
			grants := k.claim(pod, 1)
			record := k.completion(pod, grants...)
			record.Limit, record.Handlers, record.Queues = 5, k.handlers, []string{defaultQueue}
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
func stepTx(tx any) ownedTx {
	own, ok := tx.(ownedTx)
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

func failing(
	call func(context.Context, any) (persistence.Transition, error), err error,
) func(context.Context, any) (persistence.Transition, error) {
	return func(ctx context.Context, tx any) (persistence.Transition, error) {
		transition, _ := call(ctx, tx)
		return transition, err
	}
}

// held returns what a pod holds by the tables.
func (s *Store) held(t *testing.T, pod int64) []persistence.Held {
	t.Helper()
	out, err := s.RenewPod(t.Context(), persistence.Renewal{Pod: pod, TTL: time.Hour})
	require.NoError(t, err)
	return out.Unheld
}
