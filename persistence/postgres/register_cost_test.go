package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// chains returns workflows of 50 steps, one after the other.
func chains(count int) []*workflow.Graph {
	graphs := make([]*workflow.Graph, count)
	for i := range graphs {
		graphs[i] = chain(fmt.Sprintf("chain%d", i), 50)
	}
	return graphs
}

func chain(name string, length int) *workflow.Graph {
	d := workflow.Definition{Name: name, Output: length - 1}
	for i := range length {
		step := workflow.Step{Name: fmt.Sprintf("step%d", i)}
		if i > 0 {
			step.Parents = []workflow.Edge{{Parent: i - 1, Kind: workflow.Plain}}
		}
		d.Steps = append(d.Steps, step)
	}
	return storetest.Graph(d)
}

// rows returns how many rows of the tables of definitions the sessions of a store have read
// and stored. The store is closed by it.
func (k *fixture) rows() (read, stored int) {
	k.t.Helper()
	k.store.Close()
	require.Eventually(k.t, func() bool {
		return value[bool](k.database, `select count(*) = 0 from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid() and query like '%/* troupe %'`)
	}, 10*time.Second, 10*time.Millisecond)
	const counted = "pg_stat_user_tables where relname in ('workflow_definitions', 'definition_steps', 'handlers')"
	return value[int](k.database, "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int from "+counted),
		value[int](k.database, "select sum(n_tup_ins)::int from "+counted)
}

// The first start with n definitions reads rows in proportion to n.
func TestTheFirstStartIsLinear(t *testing.T) {
	t.Parallel()
	reads := func(count int) int {
		k := &fixture{database: openDatabase(t, Options{}), ctx: t.Context()}
		graphs, begun := chains(count), time.Now()
		_, err := k.store.RegisterDefinitions(k.ctx, graphs, nil)
		require.NoError(t, err)
		took := time.Since(begun)
		read, stored := k.rows()
		require.Equal(t, count*(1+50+50), stored)
		t.Logf("%d definitions of 50 steps: %d rows read in %.2f s", count, read, took.Seconds())
		return read
	}
	few := reads(100)
	require.LessOrEqual(t, reads(1000), 15*few)
}

// A deploy that changes one workflow stores that one, whatever else there is: the others
// are compared by one statement.
func TestADeployPaysForWhatItChanges(t *testing.T) {
	t.Parallel()
	k := &fixture{database: openDatabase(t, Options{}), ctx: t.Context()}
	graphs := chains(4 * registry.RegisterBatch)
	first, err := k.store.RegisterDefinitions(k.ctx, graphs, nil)
	require.NoError(t, err)
	_, before := k.rows()

	changed := slices.Clone(graphs)
	changed[10] = chain("chain10", 51)
	statements := &counter{}
	store, err := Open(k.ctx, Options{Pool: k.user, Tracer: statements})
	require.NoError(t, err)
	k.store = store
	statements.take()
	numbers, err := store.RegisterDefinitions(k.ctx, changed, nil)
	require.NoError(t, err)
	sent := statements.take()
	count := func(name string) (n int) {
		for _, one := range sent {
			if one == name {
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, count("find_numbers"), "of all, and of the changed one")
	for _, name := range []string{"lock_catalog", "insert_definition", "insert_handlers", "insert_definition_steps", "renumber_tasks"} {
		require.Equal(t, 1, count(name), name)
	}
	require.Equal(t, first[10], numbers[10][:50], "its other steps keep their numbers")
	numbers[10] = first[10]
	require.Equal(t, first, numbers)
	_, after := k.rows()
	require.Equal(t, 1+51+1, after-before)
}

// A start waits for a locked table of definitions for longer than other statements wait.
func TestAStartWaitsForTheTablesOfDefinitions(t *testing.T) {
	t.Parallel()
	k := &fixture{database: openDatabase(t, Options{}), ctx: t.Context()}
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(k.ctx, "lock table "+k.schema+".workflow_definitions in access exclusive mode")
	require.NoError(t, err)
	registered := make(chan error, 1)
	go func() {
		_, err := k.store.RegisterDefinitions(k.ctx, chains(1), nil)
		registered <- err
	}()
	require.Eventually(t, func() bool {
		return len(registered) > 0 || value[bool](k.database, `select exists (select from pg_locks l join pg_database d on d.oid = l.database
			where d.datname = current_database() and not l.granted and l.waitstart < clock_timestamp() - interval '2.5 s')`)
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, tx.Rollback(k.ctx))
	require.NoError(t, <-registered)
}
