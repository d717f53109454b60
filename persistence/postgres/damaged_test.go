package postgres

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// startNoisy stores runs whose inputs are kept apart from their rows.
func (k *kit) startNoisy(n int) []persistence.Trigger {
	k.t.Helper()
	list := k.draft(storetest.Single(), "a", n)
	for i := range list {
		noise := make([]byte, 8000) // does not shrink
		_, _ = rand.Read(noise)
		list[i].Input = noise
		require.Equal(k.t, persistence.Triggered, k.ask(list[i])[0].Result)
	}
	return list
}

// loseInput takes a part of the input of the first run that was stored from the
// disk.
func (k *kit) loseInput() { k.lose("workflow_runs") }

// lose takes a part of the first value from the disk that a table keeps apart.
func (k *kit) lose(table string) {
	k.t.Helper()
	k.exec(strings.ReplaceAll(`create extension pg_surgery;
		do $$ declare toast regclass; place tid; begin
			select reltoastrelid into toast from pg_class where oid = '{schema}.{table}'::regclass;
			execute format('select ctid from %s order by chunk_id limit 1', toast) into place;
			perform heap_force_kill(toast, array[place]);
		end $$`, "{table}", table))
}

// A payload that the disk has lost is the concern of its run: others are claimed,
// and it is, too, to be read by its attempt.
func TestAPayloadThatCannotBeReadStopsNobodyElse(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	list := k.startNoisy(3)
	k.loseInput()
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
		require.Len(t, input, 8000)
	}
	require.Equal(t, map[bool]int{true: 2, false: 1}, read)
	k.exec(`update {schema}.workflow_runs set input = '{}' where id = $1`, [16]byte(list[0].Run)) // as docs/operations.md says
	input, err := persistence.Payload(k.ctx, k.store, workflow.TaskID{Run: list[0].Run, Step: -1})
	require.NoError(t, err)
	require.Equal(t, "{}", string(input))
	k.complete(pod, claimed...)
	k.requireSound()
}

// A run that the disk has lost a part of stays where it is; others go into history.
func TestARunThatCannotBeReadIsNotArchived(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	list := k.startNoisy(5)
	k.complete(pod, k.claim(pod, 10)...)
	k.loseInput()
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	out, err := k.store.ArchiveRuns(k.ctx, epoch, persistence.Archive{})
	require.NoError(t, err)
	require.Equal(t, 4, out.Count)
	require.Equal(t, []workflow.RunID{list[0].Run}, out.Unreadable)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.workflow_runs"))
	k.exec(`delete from {schema}.tasks; delete from {schema}.workflow_runs`)
}

// noise is a text that is kept apart from its row.
func noise() string {
	bytes := make([]byte, 5000)
	_, _ = rand.Read(bytes)
	return base64.StdEncoding.EncodeToString(bytes)
}

// failNoisily fails the tasks of three runs with long errors, to be tried again.
func (k *kit) failNoisily(pod int64) (runs []workflow.RunID) {
	k.t.Helper()
	for range 3 {
		runs = append(runs, k.start(storetest.Single(), "a", 1)...)
		record := k.completion(pod, k.claim(pod, 1)...)
		t := &record.Transitions[0]
		t.Report, t.Class, t.Error, t.Retry, t.RetryIn = lifecycle.Errored, "error", noise(), true, time.Microsecond
		require.Equal(k.t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	}
	return runs
}

// A task of which something cannot be read that is loaded with its grant is passed
// over; others are granted beside it, at once and from then on.
func TestAProgressThatCannotBeReadStopsNobodyElse(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	before := k.join(time.Hour)
	k.start(storetest.Single(), "a", 3)
	claimed := k.claim(before, 3)
	for _, g := range claimed {
		_, err := k.store.RenewPod(k.ctx, persistence.Renewal{
			Pod: before, TTL: time.Hour, Held: []persistence.Held{{Task: g.Task, Epoch: g.Epoch, Progress: []byte(noise())}},
		})
		require.NoError(t, err)
	}
	_, err := k.store.LeavePod(k.ctx, before)
	require.NoError(t, err)
	k.lose("task_progress")
	pod := k.join(time.Hour)
	granted := k.claim(pod, 10)
	require.Len(t, granted, 2)
	for _, g := range granted {
		require.NotEqual(t, claimed[0].Task, g.Task)
		require.NotEmpty(t, g.LastProgress)
	}
	k.start(storetest.Single(), "b", 2)
	request := k.request(pod, 10)
	for range 2 { // the second time as one whose outcome is not known
		out, err := k.store.ClaimTasks(k.ctx, request)
		require.NoError(t, err)
		require.Len(t, out.Grants, 2)
	}
	require.Equal(t, 1, k.quarantined(reasonUnreadable))

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

// Timers of a run that cannot be read are passed over, and fire nobody else late.
func TestATimerOfARunThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	runs := k.failNoisily(pod)
	k.lose("tasks")
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	fired := 0
	var out persistence.Fired
	for range 3 {
		out, err = k.store.FireTimers(k.ctx, epoch, 100)
		require.NoError(t, err)
		fired += out.Count
	}
	require.Equal(t, 2, fired)
	require.GreaterOrEqual(t, out.Next.Sub(out.Now), againMin, "there is nothing to hurry for")
	k.exec(`update {schema}.tasks set error = 'lost' where run_id = $1 and state < 10`, [16]byte(runs[0])) // as docs/operations.md says
	k.requireSound()
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.durable_timers where run_id = $1", [16]byte(runs[0])))
}

// What dead pods hold is taken over but for what cannot be read, however many
// tasks of it are held, and the pods that hold it stay.
func TestATaskThatCannotBeReadLeavesOthersToBeTakenOver(t *testing.T) {
	t.Parallel()
	fan := storetest.Fan(5)
	k := newKit(openDatabase(t, Options{}), storetest.Single(), fan)
	first, second := k.join(time.Hour), k.join(time.Hour)
	k.start(fan, "a", 1)
	k.complete(first, k.claim(first, 1)...)
	leaves := k.claim(first, 5)
	require.Len(t, leaves, 5)
	record := k.completion(first, leaves...)
	for i := range record.Transitions {
		t := &record.Transitions[i]
		t.Report, t.Class, t.Error, t.Retry, t.RetryIn = lifecycle.Errored, "error", noise(), true, time.Microsecond
	}
	k.send(record)
	epoch, err := k.store.BumpEpoch(k.ctx, first)
	require.NoError(t, err)
	out, err := k.store.FireTimers(k.ctx, epoch, 100)
	require.NoError(t, err)
	require.Equal(t, 5, out.Count)
	require.Len(t, k.claim(first, 10), 5)
	k.start(storetest.Single(), "b", 3)
	require.Len(t, k.claim(first, 10), 3)
	k.start(storetest.Single(), "b", 7)
	require.Len(t, k.claim(second, 10), 7)
	k.lose("tasks")
	k.exec("update {schema}.pods set expires_at = now()")
	tasks := 0
	for range 20 {
		expired, err := k.store.ExpirePods(k.ctx, epoch, 3, 2, time.Time{})
		require.NoError(t, err)
		tasks += expired.Tasks
	}
	require.Equal(t, 3+7, tasks)
	require.Equal(t, []int64{first}, value[[]int64](k.database, "select array_agg(id) from {schema}.pods"))
	require.Equal(t, 5, value[int](k.database, `select count(distinct t.step)::int from {schema}.tasks t join {schema}.claims c on c.pod = t.pod
		where t.state = 3 and t.run_id = $1 and t.run_id = any(c.runs)`, [16]byte(leaves[0].Task.Run)))
}

// Completions of a run that cannot be read wait; others are stored, and if none
// of several can be it is said, since it is not their fault.
func TestACompletionThatCannotBeReadStopsNoOther(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	k.failNoisily(pod)
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	_, err = k.store.FireTimers(k.ctx, epoch, 100)
	require.NoError(t, err)
	k.lose("tasks")
	claimed := k.claim(pod, 10)
	require.Len(t, claimed, 3)
	record := k.completion(pod, claimed...)
	for i := range record.Transitions {
		record.Transitions[i].Report, record.Transitions[i].Class = lifecycle.Errored, "error" // the slow path reads errors
	}
	for range 2 {
		answers := map[lifecycle.Answer]int{}
		for _, answer := range k.send(record) {
			answers[answer]++
		}
		require.Equal(t, 1, answers[lifecycle.Busy])
	}
	require.Equal(t, 1, k.quarantined(reasonUnreadable))
}

// A read without outputs does not touch them on the disk, also in history, where an
// output is a part of an array.
func TestAReadWithoutOutputsReadsNone(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	run := k.start(storetest.Single(), "a", 1)[0]
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Output = []byte(noise())
	require.Equal(k.t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	out, err := k.store.ArchiveRuns(k.ctx, epoch, persistence.Archive{})
	require.NoError(t, err)
	require.Equal(t, 1, out.Count)
	k.lose(value[string](k.database, `select c.relname from {schema}.run_history h join pg_class c on c.oid = h.tableoid`))
	_, err = k.store.Tasks(k.ctx, "a", run)
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
