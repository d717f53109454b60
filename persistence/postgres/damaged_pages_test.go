package postgres

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// loseMany takes the first values from the disk that a table keeps apart.
func (k *kit) loseMany(table, n string) {
	k.t.Helper()
	k.exec(strings.NewReplacer("{table}", table, "{n}", n).Replace(`create extension if not exists pg_surgery;
		do $$ declare toast regclass; places tid[]; begin
			select reltoastrelid into toast from pg_class where oid = '{schema}.{table}'::regclass;
			execute format('select array_agg(c) from (select ctid c from %s where chunk_seq = 0 order by chunk_id limit {n}) x', toast) into places;
			perform heap_force_kill(toast, array[p]) from unnest(places) p;
		end $$`))
}

// failMany fails the tasks of runs with long errors, to be tried again.
func (k *kit) failMany(pod int64, n int) {
	k.t.Helper()
	for range n {
		k.start(storetest.Single(), "a", 1)
		record := k.completion(pod, k.claim(pod, 1)...)
		t := &record.Transitions[0]
		t.Report, t.Class, t.Error, t.Retry, t.RetryIn = lifecycle.Errored, "error", noise(), true, time.Microsecond
		require.Equal(k.t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	}
}

// spoil damages the page of a task on the disk, and has it read from there.
func (k *kit) spoil(task workflow.TaskID) {
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

// More timers than one call can look at, of runs that cannot be read, stop the
// others for a few calls and not for ever.
func TestManyTimersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	k.failMany(pod, 70)
	k.loseMany("tasks", "67")
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	fired := 0
	for range 4 {
		out, _ := k.store.FireTimers(k.ctx, epoch, 100)
		fired += out.Count
	}
	require.Equal(t, 3, fired)
	require.Equal(t, 67, k.quarantined(reasonUnreadable))
}

// Completions of several runs that cannot be read, and of nothing else, wait; the
// next batch is recorded.
func TestABatchOfNothingThatCanBeRead(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	k.failMany(pod, 3)
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	_, err = k.store.FireTimers(k.ctx, epoch, 100)
	require.NoError(t, err)
	k.loseMany("tasks", "2")
	claimed := k.claim(pod, 10)
	require.Len(t, claimed, 3)
	record := k.completion(pod, claimed...)
	for i := range record.Transitions {
		record.Transitions[i].Report, record.Transitions[i].Class = lifecycle.Errored, "error"
	}
	damaged := record
	damaged.Transitions = record.Transitions[:2]
	for range 2 { // the second time without a try
		out, err := k.store.RecordTransitions(k.ctx, damaged)
		require.NoError(t, err)
		require.NoError(t, out.Refused, "it is the fault of these runs")
		for _, answer := range out.Answers {
			require.Equal(t, lifecycle.Busy, answer.Result)
		}
	}
	require.Equal(t, 2, k.quarantined(reasonUnreadable))
	require.Equal(t, []lifecycle.Answer{lifecycle.Busy, lifecycle.Busy, lifecycle.Moved}, k.send(record))
	k.store.pool.Bare().Close()
	_, err = k.store.RecordTransitions(k.ctx, damaged)
	require.ErrorIs(t, err, persistence.ErrUnavailable, "nobody answered")
}

// What every completion needs cannot be read: they wait, and the caller is told.
func TestCompletionsThatNeedADamagedIndex(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Chain(2))
	pod := k.join(time.Hour)
	k.start(storetest.Chain(2), "a", 3)
	claimed := k.claim(pod, 3)
	k.exec(`create function {schema}.lose() returns trigger language plpgsql as
		$$ begin raise exception 'page lost' using errcode = 'XX001'; end $$`)
	k.exec(`create trigger lose before insert on {schema}.ready_queue for each row execute function {schema}.lose()`)
	out, err := k.store.RecordTransitions(k.ctx, k.completion(pod, claimed...))
	require.NoError(t, err)
	require.ErrorContains(t, out.Refused, "page lost")
	require.ErrorContains(t, out.Refusal(), "page lost")
	k.exec(`drop trigger lose on {schema}.ready_queue`)
	k.endRests()
	k.complete(pod, claimed...)
	k.requireSound()
}

// A page of tasks that the disk has lost costs no pod its lease, and keeps nothing
// on other pages from being handed back or taken over.
func TestAPageOfTasksIsLost(t *testing.T) {
	k := newKit(openDatabase(t, Options{}), storetest.Single())
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

	_, err = k.store.LeavePod(k.ctx, first)
	require.NoError(t, err)
	damaged := k.quarantined(reasonUnreadable)
	require.Positive(t, damaged)
	require.Less(t, damaged, 70, "a page holds no more")
	require.Len(t, k.claim(k.join(time.Hour), 100), 100-damaged)

	epoch, err := k.store.BumpEpoch(k.ctx, second)
	require.NoError(t, err)
	k.exec("update {schema}.pods set expires_at = now() where id in ($1, $2)", second, third)
	taken := 0
	for range 10 {
		out, _ := k.store.ExpirePods(k.ctx, epoch, 3, 100, time.Time{})
		taken += out.Tasks
	}
	require.Equal(t, 200, taken)
}

// What lies behind a damaged page among the tasks of dead pods is taken over, once.
func TestAPageOfTasksOfDeadPodsIsLost(t *testing.T) {
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	first, second, third := k.join(time.Hour), k.join(time.Hour), k.join(time.Hour)
	k.start(storetest.Single(), "a", 300)
	done := k.claim(first, 40)
	k.claim(first, 60)
	of := k.claim(second, 100)
	k.claim(third, 100)
	k.complete(first, done...) // still in its claim
	k.spoil(of[50].Task)
	epoch, err := k.store.BumpEpoch(k.ctx, third)
	require.NoError(t, err)
	k.exec("update {schema}.pods set expires_at = now()")
	var out persistence.Expired
	for range 4 {
		out, err = k.store.ExpirePods(k.ctx, epoch, 3, 100, time.Time{})
		require.NoError(t, err)
	}
	damaged := k.quarantined(reasonUnreadable)
	require.Positive(t, damaged)
	require.Less(t, damaged, 70, "a page holds no more")
	require.Equal(t, 260-damaged, value[int](k.database, "select count(*)::int from {schema}.ready_queue"))
	for range 3 {
		out, err = k.store.ExpirePods(k.ctx, epoch, 3, 100, time.Time{})
		require.NoError(t, err)
		require.Zero(t, out.Tasks)
		require.GreaterOrEqual(t, out.NextExpiry.Sub(out.Now), againMin)
	}
	require.Len(t, out.Pods, 1, "the one that holds what cannot be read")
}

// progressed has a pod claim tasks that report long progress, and hand them back.
func (k *kit) progressed(tenant string, n int) []persistence.Grant {
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
	_, err := k.store.LeavePod(k.ctx, pod)
	require.NoError(k.t, err)
	return claimed
}

// A claim of which nothing that comes next can be read says when to look again, and leaves
// it out from then on.
func TestAHeadOfTheQueueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	k.progressed("a", 5)
	k.loseMany("task_progress", "5")
	pod := k.join(time.Hour)
	out, err := k.store.ClaimTasks(k.ctx, k.request(pod, 1))
	require.NoError(t, err)
	require.Empty(t, out.Grants)
	require.Positive(t, out.Again)
	k.start(storetest.Single(), "b", 1)
	out, err = k.store.ClaimTasks(k.ctx, k.request(pod, 1))
	require.NoError(t, err)
	require.Len(t, out.Grants, 1)
	require.Equal(t, 5, k.quarantined(reasonUnreadable))
}

// Under a limit per tenant damage is found behind those who are at their limit.
func TestDamageBehindTenantsAtTheirLimit(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	claimed := k.progressed("b", 3)
	pod := k.join(time.Hour)
	k.exec("update {schema}.ready_queue set handler = handler + 1000") // not now
	k.start(storetest.Single(), "a", 3)
	require.Len(t, k.claim(pod, 3), 3)
	k.start(storetest.Single(), "a", 50)
	var runs uuids
	for _, g := range claimed {
		runs = append(runs, g.Task.Run)
	}
	k.exec("update {schema}.ready_queue set handler = handler - 1000, fair_id = fair_id + 2097152 * 1000 where run_id = any($1)", runs)
	k.lose("task_progress")
	granted := 0
	for range 2 {
		request := k.request(pod, 10)
		request.TenantLimit = 3
		out, err := k.store.ClaimTasks(k.ctx, request)
		require.NoError(t, err)
		granted += len(out.Grants)
	}
	require.Equal(t, 2, granted)
}

// What all claims need cannot be written: that is no run's fault, and is told.
func TestClaimsThatNeedADamagedIndex(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	k.start(storetest.Single(), "a", 20)
	k.exec(`create function {schema}.lose() returns trigger language plpgsql as
		$$ begin raise exception 'page lost' using errcode = 'XX001'; end $$`)
	k.exec(`create trigger lose before insert on {schema}.claims for each row execute function {schema}.lose()`)
	for _, limit := range []int{0, 100} {
		request := k.request(pod, 10)
		request.TenantLimit = limit
		_, err := k.store.ClaimTasks(k.ctx, request)
		require.ErrorContains(t, err, "page lost")
		require.Empty(t, k.store.quarantine.excluded().runs)
	}
	k.exec(`drop trigger lose on {schema}.claims`)
	require.Len(t, k.claim(pod, 20), 20)
}
