package postgres

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	cluster "github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A claim is outside the lock of its run. While its commit is held up, another session
// records a later event of the run; a reader that saw that one still gets the event of the claim.
func TestAnEventThatCommitsLateIsNotSkipped(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Diamond())
	other := k.join(time.Hour)
	run := k.start(storetest.Diamond(), "a", 1)[0]
	k.complete(pod, k.claim(pod, 1)...)
	k.exec(`create function hold_up() returns trigger language plpgsql set lock_timeout = 0 as $$ begin
			perform pg_advisory_xact_lock(4242);
			return null;
		end $$;
		create constraint trigger hold_up after insert on {schema}.task_events deferrable initially deferred for each row
			when (new.step = 1 and new.kind = 2) execute function hold_up()`)
	release := k.hold("select pg_advisory_xact_lock(4242)")
	claimed := make(chan error, 1)
	go func() {
		out, err := k.store.ClaimTasks(k.ctx, k.request(pod, 1))
		if err == nil && (len(out.Grants) != 1 || out.Grants[0].Step != "b") {
			err = persistence.ErrConflict
		}
		claimed <- err
	}()
	require.Eventually(t, func() bool {
		return value[int](k.database, "select count(*) from pg_locks where locktype = 'advisory' and not granted and objid = 4242") == 1
	}, 30*time.Second, 10*time.Millisecond, "the claim of b is about to commit")
	grants := k.claim(other, 1)
	require.Equal(t, "c", grants[0].Step)
	k.complete(other, grants...)

	read := func(seen persistence.EventPosition) []lifecycle.Event {
		events, err := k.store.Events(k.ctx, "a", run, seen, 0)
		require.NoError(t, err)
		return events
	}
	before := read(nil)
	last := before[len(before)-1]
	require.Equal(t, []any{int32(2), lifecycle.EventCompleted}, []any{last.Step, last.Kind}, "c has completed")
	seen := persistence.EventPosition{}.After(before)
	require.Empty(t, read(seen))
	release()
	require.NoError(t, <-claimed)
	late := read(seen)
	require.Len(t, late, 1)
	require.Equal(t, []any{int32(1), lifecycle.EventStarted}, []any{late[0].Step, late[0].Kind})
	require.True(t, late[0].At.Before(last.At), "by the clock it is earlier than what was seen before it")
	require.Empty(t, read(seen.After(late)))
}

// Clocks are set back. The events of a step still come in the order of their numbers, or the
// position behind a page would cover some that were not on it.
func TestEventsOfAStepKeepTheirOrderWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Chain(2))
	run := k.start(storetest.Chain(2), "a", 1)[0]
	k.finish(pod)
	k.exec("update {schema}.task_events set at = at - interval '1 minute' where step = 0 and n = 3")
	var seen persistence.EventPosition
	var ns []int64
	for {
		page, err := k.store.Events(k.ctx, "a", run, seen, 1)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		seen = seen.After(page)
		if page[0].Step == 0 {
			ns = append(ns, page[0].N)
		}
	}
	require.Equal(t, []int64{1, 2, 3}, ns)
}

// The sizes of large outputs in history are kept beside them, so that a status does not read
// them; rows of earlier versions and small outputs tell their size themselves.
func TestSizesInHistoryAreReadWithoutTheOutputs(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	epoch := k.bump(pod)
	ids := k.start(storetest.Single(), "a", 2)
	grants := k.claim(pod, 2)
	record := k.completion(pod, grants...)
	record.Transitions[0].Output = bytes.Repeat([]byte("7"), 100_000)
	k.send(record)
	require.Equal(t, 2, k.archived(epoch, persistence.Archive{}).Count)
	sizes := func() (list []int) {
		for _, g := range grants {
			tasks, err := k.store.Tasks(k.ctx, "a", g.Task.Run, persistence.WithoutOutputs)
			require.NoError(t, err)
			list = append(list, tasks[0].OutputSize)
		}
		return list
	}
	want := []int{100_000, len(`"a"`)}
	require.Equal(t, want, sizes())
	require.Equal(t, 1, value[int](k.database, "select count(*) from {schema}.run_history where sizes is not null"))
	k.exec("update {schema}.run_history set outputs = null where sizes is not null")
	require.Equal(t, want, sizes(), "they are not needed")
	require.Len(t, ids, 2)
}

func TestSizesOfWhatAnEarlierVersionArchived(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	run := k.start(storetest.Single(), "a", 1)[0]
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Output = bytes.Repeat([]byte("7"), 100_000)
	k.send(record)
	require.Equal(t, 1, k.archived(k.bump(pod), persistence.Archive{}).Count)
	k.exec("update {schema}.run_history set sizes = null")
	tasks, err := k.store.Tasks(k.ctx, "a", run, persistence.WithoutOutputs)
	require.NoError(t, err)
	require.Equal(t, 100_000, tasks[0].OutputSize)
	require.Empty(t, tasks[0].Output)
}

// However much waits, so much of it is looked at and no more.
func TestWhatWaitsIsToldOfWithinBounds(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	k.start(storetest.Single(), "a", 1)
	k.exec(`insert into {schema}.ready_queue (queue, band, handler, fair_id, run_id, step, suspect)
		select q.queue, q.band, q.handler, q.fair_id + i * 2097152::bigint, gen_random_uuid(), 0, false
		from {schema}.ready_queue q, generate_series(1, $1::int) i`, persistence.WaitingMax)
	ready := func() persistence.QueueRow {
		rows, err := k.store.Queues(k.ctx, "")
		require.NoError(t, err)
		return rows[0]
	}
	row := ready()
	require.Equal(t, persistence.WaitingMax, row.Ready)
	require.True(t, row.More)
	require.Positive(t, row.Waited)
	of, err := k.store.Queues(k.ctx, "b")
	require.NoError(t, err)
	require.Zero(t, of[0].Ready)
	require.True(t, of[0].More, "what is behind may be of that tenant")

	k.exec(`with gone as (delete from {schema}.ready_queue returning *)
		insert into {schema}.parked_tasks (run_id, step, queue, band, handler, fair_id, suspect)
		select run_id, step, queue, band, handler, fair_id, suspect from gone`)
	require.Zero(t, ready().Ready)
	parked, err := k.store.ParkedWork(k.ctx, "")
	require.NoError(t, err)
	require.Len(t, parked, 1)
	require.Equal(t, persistence.WaitingMax, parked[0].Tasks)
	require.True(t, parked[0].More)
	require.False(t, parked[0].Since.IsZero())
	k.exec("delete from {schema}.parked_tasks where ctid = (select ctid from {schema}.parked_tasks limit 1)")
	parked, err = k.store.ParkedWork(k.ctx, "")
	require.NoError(t, err)
	require.False(t, parked[0].More)
}

// The reads of what waits find their rows by keys, whatever the statistics say.
func TestViewsReadByKey(t *testing.T) {
	d := schemas(t)(t)
	require.NoError(t, d.analyze(t.Context()))
	for _, name := range []string{"read_payload", "read_queues", "read_places", "read_running"} {
		for _, finding := range scans(t, d.plan(d.store.Statements[name])) {
			t.Errorf("%s: %s", name, finding)
		}
	}
}

// The pod that has led last leads as long as its session has the lock.
func TestAPodLeadsWhileItsSessionHasTheLock(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	leads := func() bool {
		pods, err := k.store.Pods(k.ctx)
		require.NoError(t, err)
		require.Len(t, pods, 1)
		return pods[0].Leads
	}
	require.False(t, leads())
	k.bump(pod)
	require.False(t, leads(), "its session has ended")
	config := k.user.Config().ConnConfig
	config.RuntimeParams["application_name"] = fmt.Sprintf("troupe leader %s %d", k.store.Schema, pod)
	conn, err := pgx.ConnectConfig(k.ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(k.ctx, "select pg_advisory_lock($1)", cluster.LeaderKey(k.store.Schema))
	require.NoError(t, err)
	require.True(t, leads())
	_, err = conn.Exec(k.ctx, "select pg_advisory_unlock_all()")
	require.NoError(t, err)
	require.False(t, leads())
}

// A migration of a later version adds a column to history while pods of this one have their
// statements prepared.
func TestHistoryIsReadOnWhenItGetsAColumn(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{PoolSize: 1}), storetest.Single())
	pod := k.join(time.Hour)
	run := k.start(storetest.Single(), "a", 1)[0]
	k.finish(pod)
	require.Equal(t, 1, k.archived(k.bump(pod), persistence.Archive{}).Count)
	read := func() {
		require.Equal(t, lifecycle.Completed, k.state(run))
		tasks, err := k.store.Tasks(k.ctx, "a", run)
		require.NoError(t, err)
		require.Equal(t, `"a"`, string(tasks[0].Output))
		events, err := k.store.Events(k.ctx, "a", run, nil, 0)
		require.NoError(t, err)
		require.Len(t, events, 6)
	}
	read()
	k.exec("alter table {schema}.run_history add column later integer[]")
	read()
}
