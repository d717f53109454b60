package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// lose removes the first n values from the disk that a table stores out of line.
func (k *fixture) lose(table string, n int) {
	k.t.Helper()
	k.exec(strings.NewReplacer("{table}", table, "{n}", strconv.Itoa(n)).Replace(`create extension if not exists pg_surgery;
		do $$ declare toast regclass; places tid[]; begin
			select reltoastrelid into toast from pg_class where oid = '{schema}.{table}'::regclass;
			execute format('select array_agg(c) from (select ctid c from %s where chunk_seq = 0 order by chunk_id limit {n}) x', toast) into places;
			perform heap_force_kill(toast, array[p]) from unnest(places) p;
		end $$`))
}

// noise is a text that is stored out of line.
func noise() string {
	bytes := make([]byte, 5000)
	_, _ = rand.Read(bytes)
	return base64.StdEncoding.EncodeToString(bytes)
}

// startNoisy stores runs whose inputs are stored out of line.
func (k *fixture) startNoisy(n int) []persistence.Trigger {
	k.t.Helper()
	list := k.draft(storetest.Single(), "a", n)
	for i := range list {
		list[i].Input = []byte(noise())
		require.Equal(k.t, persistence.Triggered, k.ask(list[i])[0].Result)
	}
	return list
}

// errored reports tasks as failed.
func (k *fixture) errored(pod int64, retry bool, text string, grants ...persistence.Grant) persistence.Record {
	record := k.completion(pod, grants...)
	for i := range record.Transitions {
		t := &record.Transitions[i]
		t.Report, t.Class, t.Error, t.Output, t.Retry = lifecycle.Errored, "error", text, nil, retry
	}
	return record
}

// failNoisily fails the tasks of n runs with long errors, to be tried again.
func (k *fixture) failNoisily(pod int64, n int) (runs []workflow.RunID) {
	k.t.Helper()
	for range n {
		runs = append(runs, k.start(storetest.Single(), "a", 1)...)
		record := k.errored(pod, true, noise(), k.claim(pod, 1)...)
		record.Transitions[0].RetryIn = time.Microsecond
		require.Equal(k.t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	}
	return runs
}

// A payload that the disk has lost affects only its run: all runs are claimed, and the
// attempt that reads this payload gets the error.
func TestAPayloadThatCannotBeReadStopsNobodyElse(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	list := k.startNoisy(3)
	k.lose("workflow_runs", 1)
	claimed := k.claim(pod, 10)
	require.Len(t, claimed, 3)
	read := map[bool]int{}
	for _, g := range claimed {
		require.True(t, g.LargeInput)
		input, err := persistence.Payload(k.ctx, k.store, workflow.TaskID{Run: g.Task.Run, Step: -1})
		read[err == nil]++
		if err != nil {
			require.Equal(t, list[0].Run, g.Task.Run)
			require.NotErrorIs(t, err, persistence.ErrUnavailable)
			continue
		}
		require.Equal(t, g.Task.Run, list[slices.IndexFunc(list, func(one persistence.Trigger) bool { return bytes.Equal(one.Input, input) })].Run)
	}
	require.Equal(t, map[bool]int{true: 2, false: 1}, read)
	k.exec(`update {schema}.workflow_runs set input = '{}' where id = $1`, [16]byte(list[0].Run)) // as docs/operations.md says
	input, err := persistence.Payload(k.ctx, k.store, workflow.TaskID{Run: list[0].Run, Step: -1})
	require.NoError(t, err)
	require.Equal(t, "{}", string(input))
	k.complete(pod, claimed...)
	k.requireSound()
}

// A run of which the disk has lost a part stays in the live tables; others go into history.
func TestARunThatCannotBeReadIsNotArchived(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	list := k.startNoisy(5)
	k.complete(pod, k.claim(pod, 10)...)
	k.lose("workflow_runs", 1)
	epoch := k.bump(pod)
	out := k.archived(epoch, persistence.Archive{})
	require.Equal(t, 4, out.Count)
	require.Equal(t, []workflow.RunID{list[0].Run}, out.Unreadable)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.workflow_runs"))
	k.exec(`delete from {schema}.tasks; delete from {schema}.workflow_runs`)
}

// progressed has a pod claim tasks that report long progress, and hand them back.
func (k *fixture) progressed(tenant string, n int) []persistence.Grant {
	k.t.Helper()
	pod := k.join(time.Hour)
	k.start(storetest.Single(), tenant, n)
	claimed := k.claim(pod, n)
	for _, g := range claimed {
		_, err := k.store.RenewPod(k.ctx, persistence.Renewal{
			Pod: pod, TTL: time.Hour, Held: []persistence.Held{{Task: g.Task, Epoch: g.Epoch, Progress: []byte(noise())}},
		})
		require.NoError(k.t, err)
	}
	k.leave(pod)
	return claimed
}

// A task whose progress cannot be read is skipped by claims; others are granted.
func TestUnreadableProgressDelaysOneTask(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	claimed := k.progressed("a", 3)
	k.lose("task_progress", 1)
	granted := k.claim(pod, 10)
	require.Len(t, granted, 2)
	for _, g := range granted {
		require.NotEqual(t, claimed[0].Task, g.Task)
		require.NotEmpty(t, g.LastProgress)
	}
	k.start(storetest.Single(), "b", 2)
	request := k.request(pod, 10)
	for range 2 { // the second time as one whose outcome is not known
		out := k.claimed(request)
		require.Len(t, out.Grants, 2)
	}
	require.Equal(t, 1, k.store.quarantine.Met(quarantine.Unreadable))

	k.start(storetest.Single(), "c", 2)
	k.endRests() // and under a limit
	request = k.request(pod, 10)
	request.TenantLimit = 5
	require.Eventually(t, func() bool {
		out, err := k.store.ClaimTasks(k.ctx, request)
		return err == nil && len(out.Grants) == 2
	}, 30*time.Second, time.Millisecond)
	k.exec(`delete from {schema}.task_progress where run_id = $1`, [16]byte(claimed[0].Task.Run)) // as docs/operations.md says
	k.endRests()
	require.Len(t, k.claim(pod, 10), 1)
	k.requireSound()
}

// A claim that meets only unreadable tasks says when to claim again, and the next claim
// skips them.
func TestAHeadOfTheQueueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.progressed("a", 5)
	k.lose("task_progress", 5)
	out := k.claimed(k.request(pod, 1))
	require.Empty(t, out.Grants)
	require.Positive(t, out.Again)
	k.start(storetest.Single(), "b", 1)
	out = k.claimed(k.request(pod, 1))
	require.Len(t, out.Grants, 1)
	require.Equal(t, 5, k.store.quarantine.Met(quarantine.Unreadable))
}

// Under a limit per tenant unreadable tasks are found behind tenants at their limit.
func TestDamageBehindTenantsAtTheirLimit(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	k.progressed("b", 3)
	pod := k.join(time.Hour)
	k.exec("update {schema}.ready_queue set handler = handler + 1000") // not now
	k.start(storetest.Single(), "a", 3)
	require.Len(t, k.claim(pod, 3), 3)
	k.start(storetest.Single(), "a", 50)
	k.exec("update {schema}.ready_queue set handler = handler - 1000, fair_id = fair_id + 2097152 * 1000 where handler > 1000")
	k.lose("task_progress", 1)
	request := k.request(pod, 10)
	request.TenantLimit = 3
	granted := len(k.claimed(request).Grants)
	request.Claim = k.claimID()
	require.Equal(t, 2, granted+len(k.claimed(request).Grants))
}

// Timers of a run that cannot be read are skipped and delay no others.
func TestATimerOfARunThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	runs := k.failNoisily(pod, 3)
	k.lose("tasks", 1)
	epoch := k.bump(pod)
	fired := 0
	var out persistence.Fired
	for range 3 {
		out = k.fire(epoch, 100)
		fired += out.Count
	}
	require.Equal(t, 2, fired)
	require.GreaterOrEqual(t, out.Next.Sub(out.Now), quarantine.AgainMin, "there is nothing to hurry for")
	_, err := k.store.CancelRun(k.ctx, persistence.Cancel{Run: runs[0]})
	require.Error(t, err)
	k.exec(`update {schema}.tasks set error = 'lost' where run_id = $1 and state < 10`, [16]byte(runs[0])) // as docs/operations.md says
	k.requireSound()
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.durable_timers where run_id = $1", [16]byte(runs[0])))
}

// Completions of runs that cannot be read wait; others of their batch are stored.
func TestACompletionThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.failNoisily(pod, 3)
	k.fire(k.bump(pod), 100)
	k.lose("tasks", 2)
	record := k.errored(pod, false, "broke", k.claim(pod, 10)...) // the slow path reads errors
	damaged := record
	damaged.Transitions = record.Transitions[:2]
	for range 2 { // the second time without a try
		out := k.record(damaged)
		require.NoError(t, out.Refused, "it is the fault of these runs")
	}
	require.Equal(t, []lifecycle.Answer{lifecycle.Busy, lifecycle.Busy, lifecycle.Moved}, k.send(record))
	require.Equal(t, 2, k.store.quarantine.Met(quarantine.Unreadable))
	k.store.Conns.Bare().Close()
	_, err := k.store.RecordTransitions(k.ctx, damaged)
	require.ErrorIs(t, err, persistence.ErrUnavailable, "the database does not answer")
	err = k.triggerInTx(k.user, k.draft(storetest.Single(), "a", 1)[0])
	require.ErrorIs(t, err, persistence.ErrUnavailable)
}

// A read without outputs does not touch them on the disk, also in history, where an
// output is a part of an array.
func TestAReadWithoutOutputsReadsNone(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	run := k.start(storetest.Single(), "a", 1)[0]
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Output = []byte(noise() + noise() + noise() + noise() + noise() + noise() + noise() + noise() + noise() + noise()) // smaller ones are read for their sizes
	require.Equal(k.t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	epoch := k.bump(pod)
	out := k.archived(epoch, persistence.Archive{})
	require.Equal(t, 1, out.Count)
	k.lose(value[string](k.database, `select c.relname from {schema}.run_history h join pg_class c on c.oid = h.tableoid`), 1)
	_, err := k.store.Tasks(k.ctx, "a", run)
	require.ErrorContains(t, err, "chunk")
	_, err = k.store.Run(k.ctx, "a", run)
	require.ErrorContains(t, err, "chunk")
	row, err := k.store.Run(k.ctx, "a", run, persistence.WithoutOutputs)
	require.NoError(t, err)
	require.True(t, row.HasOutput)
	tasks, err := k.store.Tasks(k.ctx, "a", run, persistence.WithoutOutputs)
	require.NoError(t, err)
	require.Equal(t, lifecycle.Completed, tasks[0].State)
	k.exec(`truncate {schema}.run_history`)
}

// An index that all claims or all completions need cannot be read: they wait, no run is
// blamed, and the caller is told.
func TestCompletionsThatNeedADamagedIndex(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Chain(2))
	k.start(storetest.Chain(2), "a", 3)
	k.exec(`create function {schema}.lose() returns trigger language plpgsql as
		$$ begin raise exception 'page lost' using errcode = 'XX001'; end $$`)
	broken := func(table string) (mend func()) {
		k.exec(`create trigger lose before insert on {schema}.` + table + ` for each row execute function {schema}.lose()`)
		return func() { k.exec(`drop trigger lose on {schema}.` + table) }
	}
	mend := broken("claims")
	for _, limit := range []int{0, 100} {
		request := k.request(pod, 3)
		request.TenantLimit = limit
		_, err := k.store.ClaimTasks(k.ctx, request)
		require.ErrorContains(t, err, "page lost")
		require.Empty(t, k.store.quarantine.Excluded().Runs)
	}
	mend()
	claimed := k.claim(pod, 3)
	mend = broken("ready_queue")
	out := k.record(k.completion(pod, claimed...))
	require.ErrorContains(t, out.Refused, "page lost")
	require.ErrorContains(t, out.Refusal(), "page lost")
	mend()
	k.endRests()
	k.complete(pod, claimed...)
	k.requireSound()
}

// spoil damages the page of a task on the disk, and has it read from there.
func (k *fixture) spoil(task workflow.TaskID) {
	k.t.Helper()
	block := value[int64](k.database, "select (ctid::text::point)[0]::bigint from {schema}.tasks where run_id = $1 and step = $2",
		[16]byte(task.Run), task.Step)
	conn, err := k.user.Acquire(k.ctx)
	require.NoError(k.t, err)
	defer conn.Release()
	space := strings.ToLower(k.t.Name())
	for _, sql := range []string{ // a move leaves nothing of the table in memory
		"set allow_in_place_tablespaces = true", "create tablespace " + space + " location ''",
		"alter table " + k.schema + ".tasks set tablespace " + space, "checkpoint",
	} {
		_, err := conn.Exec(k.ctx, sql)
		require.NoError(k.t, err)
	}
	k.t.Cleanup(func() { // else the tablespace outlives the database
		for _, sql := range []string{"drop table " + k.schema + ".tasks cascade", "drop tablespace " + space} {
			_, err := k.user.Exec(context.Background(), sql)
			require.NoError(k.t, err)
		}
	})
	path := value[string](k.database, "select current_setting('data_directory') || '/' || pg_relation_filepath('{schema}.tasks')")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		k.t.Skip("the server of TROUPE_DATABASE_URL is on another machine, or another user's")
	}
	require.NoError(k.t, err)
	defer func() { require.NoError(k.t, file.Close()) }()
	junk := make([]byte, 8192)
	for i := range junk {
		junk[i] = byte(i*7 + 13)
	}
	_, err = file.WriteAt(junk, block*int64(len(junk)))
	require.NoError(k.t, err)
}

// A page of tasks that the disk has lost costs no pod its lease, and keeps nothing
// on other pages from being handed back or taken over.
func TestAPageOfTasksIsLost(t *testing.T) {
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	first, second, third := k.join(time.Hour), k.join(time.Hour), k.join(time.Hour)
	k.start(storetest.Single(), "a", 300)
	of := k.claim(first, 100)
	k.claim(second, 100)
	k.claim(third, 100)
	k.spoil(of[0].Task)
	var held []persistence.Held
	for _, g := range of {
		held = append(held, persistence.Held{Task: g.Task, Epoch: g.Epoch})
	}
	out, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: first, TTL: time.Hour, Held: held})
	require.Error(t, err)
	require.False(t, out.Expires.IsZero(), "the lease was renewed")

	k.leave(first)
	damaged := k.store.quarantine.Met(quarantine.Unreadable)
	require.Positive(t, damaged)
	require.Less(t, damaged, 70, "a page holds no more")
	live := k.join(time.Hour)
	require.Len(t, k.claim(live, 100), 100-damaged)

	epoch := k.bump(second)
	k.exec("update {schema}.pods set expires_at = now() where id in ($1, $2, $3)", first, second, third)
	require.Eventually(t, func() bool { // a call that fails may have taken some of them, and does not say how many
		_, _ = k.store.ExpirePods(k.ctx, epoch, 3, 100, time.Time{})
		return value[int](k.database, "select count(*) from {schema}.pods where id in ($1, $2)", second, third) == 0
	}, time.Minute, time.Millisecond)
	require.Len(t, k.claim(live, 300), 200)
	require.Equal(t, []int64{first}, value[[]int64](k.database, "select array_agg(id) from {schema}.pods where id <> $1", live), "it holds what cannot be read")
}
