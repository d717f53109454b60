package postgres

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// Rows that a policy hides from the engine's role are not taken for deleted: otherwise a
// timer would be removed, and its task would never start.
func TestAPolicyThatHidesRowsIsAnError(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	ids := k.start(storetest.Single(), "a", 2)
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Report, record.Transitions[0].Retry = lifecycle.Errored, true
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	epoch := k.bump(pod)
	require.NoError(t, k.advance(k.ctx, time.Second))
	ordinary := k.as("role_" + k.schema)
	k.exec("alter table {schema}.tasks enable row level security")
	_, err := ordinary.FireTimers(k.ctx, epoch, 10)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.ErrorContains(t, err, "row-level security")
	k.exec("alter table {schema}.tasks disable row level security")
	_, err = ordinary.FireTimers(k.ctx, epoch, 10)
	require.NoError(t, err)
	k.ends(pod, ids)
}

// as returns a store whose role may do what it has to, and owns nothing.
func (k *fixture) as(role string) *Store {
	k.t.Helper()
	quoted := pgx.Identifier{role}.Sanitize()
	k.exec("create role " + quoted + " login password 'ordinary'; grant usage on schema {schema} to " + quoted +
		"; grant all on all tables in schema {schema} to " + quoted + "; grant all on all sequences in schema {schema} to " + quoted)
	k.t.Cleanup(func() {
		_, err := k.user.Exec(context.Background(), "drop owned by "+quoted+"; drop role "+quoted)
		require.NoError(k.t, err)
	})
	return k.open(k.pool(loginAs(role)))
}

// loginAs has a pool log in as a role that as has made.
func loginAs(role string) func(*pgx.ConnConfig) {
	return func(c *pgx.ConnConfig) { c.User, c.Password = role, "ordinary" }
}

// pool returns a second pool, whose sessions differ from the first one's.
func (k *fixture) pool(change func(*pgx.ConnConfig)) *pgxpool.Pool {
	k.t.Helper()
	config := k.user.Config()
	change(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(k.ctx, config)
	require.NoError(k.t, err)
	k.t.Cleanup(pool.Close)
	return pool
}

// open returns a second store, of a pool.
func (k *fixture) open(pool *pgxpool.Pool) *Store {
	k.t.Helper()
	store, err := Open(k.ctx, Options{Pool: pool, Schema: k.store.Schema})
	require.NoError(k.t, err)
	k.t.Cleanup(store.Close)
	return store
}

// Pods whose roles come and go, all of them members of the owner's, leave each
// other tables that each can close and drop.
func TestTheTablesThatALeaderMakesAreTheOwners(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	const role = "First.Last@Corp" // no plain word
	passing := k.as(role)
	k.exec("do $$ begin execute format('grant %I to \"" + role + "\"', current_user); end $$")
	epoch, err := passing.BumpEpoch(k.ctx, 1)
	require.NoError(t, err)
	spans := value[int](k.database, `select count(*) from {schema}.spans`)
	_, err = passing.RotateEvents(k.ctx, epoch, time.Hour)
	require.NoError(t, err)
	require.Greater(t, value[int](k.database, `select count(*) from {schema}.spans`), spans)
	require.Zero(t, value[int](k.database, `select count(*) from pg_class where pg_get_userbyid(relowner) = $1 and relkind = 'r'`, role))
}

// Where a role may have fewer connections than its pod wants, calls wait for those
// that it has.
func TestCallsWaitForTheConnectionsThatThereAre(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	const role = "few"
	few := k.as(role)
	require.NoError(t, few.PingLease(k.ctx))
	taken := value[int](k.database, "select count(*)::int from pg_stat_activity where usename = $1", role)
	k.exec(fmt.Sprintf(`alter role "%s" connection limit %d`, role, taken))
	failed := make(chan error)
	for range 12 {
		go func() {
			_, err := few.TriggerRuns(k.ctx, k.draft(storetest.Single(), "a", 1), persistence.GrantRequest{})
			failed <- err
		}()
	}
	for range 12 {
		require.NoError(t, <-failed)
	}
}

// What is stored is what was said, whatever encoding the sessions of the embedder
// have; a transaction of theirs takes no trigger.
func TestTheEncodingOfSessionsChangesNothing(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	pool := k.pool(func(c *pgx.ConnConfig) { c.RuntimeParams["client_encoding"] = "WIN1252" })
	store := k.open(pool)

	const tenant, text = "東京", "НЕТ 🐍"
	pod := k.join(time.Hour)
	k.start(storetest.Single(), tenant, 2)
	claimed, err := store.ClaimTasks(k.ctx, k.request(pod, 2))
	require.NoError(t, err)
	require.Len(t, claimed.Grants, 2)
	record := k.completion(pod, claimed.Grants[0])
	failed := &record.Transitions[0]
	failed.Report, failed.Class, failed.Error, failed.Output = lifecycle.Errored, "error", text, nil
	out, err := store.RecordTransitions(k.ctx, record)
	require.NoError(t, err)
	require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.tasks where error = $1", text))

	record = k.completion(pod, claimed.Grants[1])
	record.Transitions[0].Progress = []byte("made")
	out, err = store.RecordInTx(k.ctx, record, func(context.Context, any) (persistence.Transition, error) {
		return record.Transitions[0], nil
	})
	require.NoError(t, err)
	require.Equal(t, lifecycle.Moved, out.Answers[0].Result)

	tx, err := pool.Begin(k.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = store.TriggerInTx(k.ctx, tx, k.draft(storetest.Single(), tenant, 1)[0])
	require.ErrorContains(t, err, "client_encoding=UTF8")
}

// A constraint of the embedder's own that is looked at with the commit is the
// step's concern.
func TestADeferredConstraintFailsItsStep(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.start(storetest.Single(), "a", 1)
	k.exec(`create table {schema}.mine (id int primary key, other int references {schema}.mine (id) deferrable initially deferred)`)
	_, err := k.inTx(k.completion(pod, k.claim(pod, 1)...), "insert into "+k.store.Schema+".mine values (1, 2)")
	require.ErrorContains(t, err, "foreign key")
	for _, other := range []error{persistence.ErrUnavailable, persistence.ErrBadRow, persistence.ErrConflict} {
		require.NotErrorIs(t, err, other, "it is charged like any other error of the step")
	}
}

// What the function defers to the end of its transaction happens under its own
// settings, not the engine's.
func TestDeferredTriggersHaveTheSettingsOfTheStep(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	ids := k.start(storetest.Single(), "a", 1)
	k.exec(`create table {schema}.mine (id int); create table {schema}.other (id int);
		create function {schema}.copy() returns trigger language plpgsql as 'begin insert into other values (new.id); return null; end';
		create constraint trigger copies after insert on {schema}.mine deferrable initially deferred for each row execute function {schema}.copy()`)
	_, err := k.inTx(k.completion(pod, k.claim(pod, 1)...), "set local search_path = "+k.store.Schema+"; insert into mine values (1)")
	require.NoError(t, err)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.other"))
	k.ends(pod, ids)
}

// A statement of the step that the server had no room for is not its fault.
func TestAServerWithoutRoomIsNotTheStepsFault(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.start(storetest.Single(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	_, err := k.inTx(record, "do $$ begin raise exception 'no space' using errcode = '53100'; end $$")
	require.ErrorIs(t, err, persistence.ErrTxBroken)
	_, err = k.inTx(record, "do $$ begin raise exception 'mine' using errcode = '22000'; end $$")
	require.NotErrorIs(t, err, persistence.ErrUnavailable)
}

// The leader ends the sessions of the steps of dead pods, whatever the server is
// waiting for in them.
func TestTheStepsOfDeadPodsAreEnded(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	pod, leader := k.join(time.Hour), k.join(time.Hour)
	epoch := k.bump(leader)
	ids := k.start(storetest.Single(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	_, err := k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		_, err := k.user.Exec(ctx, "update "+k.store.Schema+".pods set expires_at = now() - interval '1 second' where id = $1", pod)
		require.NoError(t, err)
		_, err = k.store.ExpirePods(ctx, epoch, 3, 10, time.Time{})
		require.NoError(t, err)
		own, ok := tx.(pgx.Tx)
		require.True(t, ok)
		require.Eventually(t, func() bool {
			_, err := own.Exec(ctx, "select 1")
			return err != nil
		}, 30*time.Second, 10*time.Millisecond)
		return record.Transitions[0], nil
	})
	require.ErrorIs(t, err, persistence.ErrTxBroken)
	k.complete(leader, k.claim(leader, 1)...)
	k.ends(leader, ids)
}

// The transaction of a step whose pod froze ends, and with it its locks: the next
// attempt waits for them.
func TestTheTransactionOfAFrozenStepEnds(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	ids := k.start(storetest.Single(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	record.TxLimit = 500 * time.Millisecond
	k.exec("create table {schema}.mine (id int primary key)")
	insert := "insert into " + k.store.Schema + ".mine values (1)"
	_, err := k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		own, ok := tx.(pgx.Tx)
		require.True(t, ok)
		_, err := own.Exec(ctx, insert)
		require.NoError(t, err)
		_, err = k.user.Exec(ctx, insert) // waits for the row
		return record.Transitions[0], err
	})
	require.ErrorIs(t, err, persistence.ErrTxBroken)
	k.exec("truncate {schema}.mine")
	record.TxLimit = math.MaxInt64 // longer than the server can count
	_, err = k.inTx(record, insert)
	require.NoError(t, err)
	k.ends(pod, ids)
}

// An administrator cancels a statement of a step, of its function or of its deferred
// triggers: the step is handed back. A timeout that the step sets is its own fault.
func TestACanceledStatementIsNotTheFaultOfAStep(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	ids := k.start(storetest.Single(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	cancels := "select pg_cancel_backend(pg_backend_pid()), pg_sleep(10)"
	_, err := k.inTx(record, cancels)
	require.ErrorIs(t, err, persistence.ErrTxBroken)
	_, err = k.inTx(record, "set local statement_timeout = 1; select pg_sleep(10)")
	require.ErrorContains(t, err, "statement timeout")
	require.NotErrorIs(t, err, persistence.ErrTxBroken)

	k.exec(`create table {schema}.mine (id int)`)
	k.exec(`create function {schema}.late() returns trigger language plpgsql as $$ begin perform ` + cancels[len("select "):] + `; return null; end $$`)
	k.exec(`create constraint trigger late after insert on {schema}.mine initially deferred for each row execute function {schema}.late()`)
	_, err = k.inTx(record, "insert into "+k.store.Schema+".mine values (1)")
	require.ErrorIs(t, err, persistence.ErrTxBroken, "at the end")
	k.exec(`drop trigger late on {schema}.mine`)
	_, err = k.inTx(record, "select 1")
	require.NoError(t, err)
	k.ends(pod, ids)
}

// A default that ends idle sessions ends none of the engine's, in which nothing
// happens between two renewals.
func TestADefaultForIdleSessionsIsNotTheEngines(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	const role = "idler"
	k.as(role) // its role is there
	k.exec(`alter role "` + role + `" set idle_session_timeout = '300ms'`)
	store := k.open(k.pool(loginAs(role)))
	var value string
	require.NoError(t, store.Conns.QueryRow(k.ctx, "show idle_session_timeout").Scan(&value))
	require.Equal(t, "0", value)
	require.NoError(t, store.lease.Use(k.ctx, func(on *pgx.Conn) error {
		return on.QueryRow(k.ctx, "show idle_session_timeout").Scan(&value)
	}))
	require.Equal(t, "0", value)
}
