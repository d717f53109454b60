package postgres

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// serializableTxs is how many transactions a count is of, and serializableOpen how many
// of them are open at a time.
const (
	serializableTxs  = 200
	serializableOpen = 4
)

// conflicts counts the serializable transactions that the server rolls back. Each does
// its work twice: when it begins, and before it commits, with serializableOpen others
// begun meanwhile. One goroutine makes all of them, so that their order is the same each
// time.
func (k *fixture) conflicts(do func(tx pgx.Tx, n int) error) (count int) {
	k.t.Helper()
	var open []pgx.Tx
	good := func(tx pgx.Tx, err error) bool {
		if err == nil {
			return true
		}
		require.True(k.t, pgerr.HasCode(err, "40001"), "%v", err)
		_ = tx.Rollback(k.ctx) // it may have ended
		count++
		return false
	}
	for n := range serializableTxs + serializableOpen {
		if len(open) == serializableOpen || n >= serializableTxs && len(open) > 0 {
			first := open[0]
			open = open[1:]
			if good(first, do(first, n+serializableTxs)) {
				_ = good(first, first.Commit(k.ctx))
			}
		}
		if n >= serializableTxs {
			continue
		}
		tx, err := k.user.BeginTx(k.ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		require.NoError(k.t, err)
		k.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(k.ctx)) })
		if good(tx, do(tx, n)) {
			open = append(open, tx)
		}
	}
	require.Empty(k.t, open)
	return count
}

// Serializable transactions that trigger different runs do not conflict with each other,
// as inserts of different rows do not.
func TestSerializableTriggersDoNotConflict(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	trigger := func(k *fixture, change func(one *persistence.Trigger, n int)) func(tx pgx.Tx, n int) error {
		return func(tx pgx.Tx, n int) error {
			one := k.draft(g, "a", 1)[0]
			change(&one, n)
			answer, err := k.store.TriggerInTx(k.ctx, tx, one)
			if err == nil {
				require.Equal(k.t, persistence.Triggered, answer.Result)
			}
			return err
		}
	}
	for name, test := range map[string]func(k *fixture) func(tx pgx.Tx, n int) error{
		"plain inserts": func(k *fixture) func(tx pgx.Tx, n int) error {
			k.exec("create table {schema}.orders (id int primary key)")
			return func(tx pgx.Tx, n int) error {
				_, err := tx.Exec(k.ctx, "insert into "+k.schema+".orders values ($1)", n)
				return err
			}
		},
		"without a key": func(k *fixture) func(tx pgx.Tx, n int) error {
			return trigger(k, func(*persistence.Trigger, int) {})
		},
		"of new tenants": func(k *fixture) func(tx pgx.Tx, n int) error {
			return trigger(k, func(one *persistence.Trigger, n int) { one.Tenant = strconv.Itoa(n) })
		},
		"with a key each": func(k *fixture) func(tx pgx.Tx, n int) error {
			return trigger(k, func(one *persistence.Trigger, n int) { one.Key = strconv.Itoa(n) })
		},
		"with a key each that exists": func(k *fixture) func(tx pgx.Tx, n int) error {
			there := k.draft(g, "a", 2*(serializableTxs+serializableOpen))
			for i := range there {
				there[i].Key = strconv.Itoa(i)
			}
			k.ask(there...)
			return func(tx pgx.Tx, n int) error {
				again := there[n]
				again.Run = k.draft(g, "a", 1)[0].Run
				answer, err := k.store.TriggerInTx(k.ctx, tx, again)
				if err == nil {
					require.Equal(k.t, persistence.Existing, answer.Result)
				}
				return err
			}
		},
	} {
		for _, analyzed := range []bool{false, true} {
			t.Run(name+", analyzed "+strconv.FormatBool(analyzed), func(t *testing.T) {
				t.Parallel()
				k := newFixture(openChanged(t, func(config *pgxpool.Config) { config.MaxConns = serializableOpen + 1 }), g)
				if analyzed {
					k.start(g, "a", 1000)
					require.NoError(t, k.analyze(k.ctx))
				}
				count := k.conflicts(test(k))
				t.Logf("%s: %d of %d", t.Name(), count, serializableTxs)
				require.LessOrEqual(t, count, 2)
			})
		}
	}
}

// What is stored is found in serializable transactions as in others, also by the
// transaction that stored it. A key that was stored since the transaction began is a
// serialization failure.
func TestSerializableTriggersFindWhatExists(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newFixture(openDatabase(t, Options{TenantsMax: 1}), g)
	k.start(g, "a", 1)
	list := k.draft(g, "a", 6)
	for i := range list {
		list[i].Key = "key"
	}
	list[2].InputHash = [32]byte{1}
	list[3].Key, list[4].Key = "", "other"
	list[5].Tenant, list[5].Key = "b", ""
	begin := func() pgx.Tx {
		tx, err := k.user.BeginTx(k.ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(k.ctx)) })
		return tx
	}
	in := func(tx pgx.Tx, one persistence.Trigger) persistence.TriggerAnswer {
		answer, err := k.store.TriggerInTx(k.ctx, tx, one)
		require.NoError(t, err)
		return answer
	}
	stored := persistence.TriggerAnswer{Result: persistence.Triggered, Run: list[0].Run}
	found := persistence.TriggerAnswer{Result: persistence.Existing, Run: list[0].Run}
	late := begin()
	require.Equal(t, persistence.Triggered, in(late, list[4]).Result)
	first := begin()
	for range 2 { // in the transaction that stores it, and after its commit
		require.Equal(t, stored, in(first, list[0]))
		require.Equal(t, stored, in(first, list[0]), "the same run")
		require.Equal(t, found, in(first, list[1]))
		require.Equal(t, persistence.TriggerAnswer{Result: persistence.KeyConflict, Run: list[0].Run}, in(first, list[2]))
		require.Equal(t, persistence.TriggerAnswer{Result: persistence.Triggered, Run: list[3].Run}, in(first, list[3]))
		require.Equal(t, persistence.TenantsFull, in(first, list[5]).Result)
		require.NoError(t, first.Commit(k.ctx))
		first = begin()
	}
	_, err := k.store.TriggerInTx(k.ctx, late, list[1])
	require.ErrorIs(t, err, persistence.ErrConflict)
	require.True(t, pgerr.HasCode(err, "40001"), "%v", err)
	require.NoError(t, late.Rollback(k.ctx))
	require.Equal(t, 3, value[int](k.database, `select count(*) from {schema}.workflow_runs`))
	require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.run_keys`))
}
