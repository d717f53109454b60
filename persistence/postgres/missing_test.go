package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// beside is a database with open runs of two versions of a workflow, which have a step in
// common. Both programs are down, and their registrations were deleted. The first has many
// due timers, tasks of a dead pod, and tasks ahead of all tasks of the second.
func beside(t *testing.T) (first, second *workflow.Graph, k *fixture, runs [2][]workflow.RunID) {
	t.Helper()
	first, second = storetest.Versioned(2), storetest.Versioned(3)
	naps := storetest.Nap(time.Nanosecond)
	k = newFixture(openDatabase(t, Options{}), first, second, naps)
	pod := k.join(time.Hour)
	runs[0] = k.start(naps, "a", 2*timersMax)
	for grants := k.claim(pod, 1000); len(grants) > 0; grants = k.claim(pod, 1000) {
		k.complete(pod, grants...)
	}
	runs[0] = append(runs[0], k.start(first, "a", 30)...)
	k.claim(pod, 10) // it is killed
	k.exec("update {schema}.pods set expires_at = '-infinity'")
	runs[0] = append(runs[0], k.submit(first, 2*storedAtOnce)...)
	runs[1] = append(k.start(second, "a", 10), k.submit(second, 5)...)
	k.exec("truncate {schema}.handlers, {schema}.definition_steps, {schema}.workflow_definitions")
	return first, second, k, runs
}

// storedAtOnce is how many submissions a call of lead takes.
const storedAtOnce = 50

// submit stores runs in a transaction of the embedder's.
func (k *fixture) submit(g *workflow.Graph, n int) (runs []workflow.RunID) {
	k.t.Helper()
	require.NoError(k.t, pgx.BeginFunc(k.ctx, k.user, func(tx pgx.Tx) error {
		for _, one := range k.draft(g, "a", n) {
			answer, err := k.store.TriggerInTx(k.ctx, tx, one)
			if err != nil {
				return err
			}
			runs = append(runs, answer.Run)
		}
		return nil
	}))
	return runs
}

// lead does what a leader does, and the intake.
func (k *fixture) lead(epoch int64) {
	k.t.Helper()
	for range 3 {
		k.endRests()
		k.drain(storedAtOnce)
		k.expire(epoch, 10)
		k.park(epoch, 100)
		k.fire(epoch, 1000)
	}
}

// A program that is down and whose definitions were deleted delays no other program: not its
// tasks, submissions, timers and takeovers. When it is started again its own runs complete,
// with the tasks that the other program had claimed.
func TestAProgramThatIsDownIsPassedOver(t *testing.T) {
	t.Parallel()
	first, second, k, runs := beside(t)
	naps := storetest.Nap(2 * time.Nanosecond)
	other := k.starts(second, naps)
	pod, killed := other.join(time.Hour), other.join(time.Hour)
	epoch := other.bump(pod)
	runs[1] = append(runs[1], other.start(naps, "a", 2)...)
	runs[1] = append(runs[1], other.start(second, "a", 2)...)
	claim := func(pod int64, limit int) (own []persistence.Grant) {
		for range 2 { // the first may find out
			for _, grant := range other.claim(pod, limit) {
				require.Contains(t, runs[1], grant.Task.Run)
				own = append(own, grant)
			}
		}
		return own
	}
	require.NotEmpty(t, claim(killed, 5))
	other.leave(killed)
	k.exec("update {schema}.pods set expires_at = '-infinity' where id = $1", killed)
	for range 8 {
		other.lead(epoch)
		other.complete(pod, claim(pod, 100)...)
	}
	for _, run := range runs[1] {
		require.Equal(t, lifecycle.Completed, other.state(run))
	}
	require.Len(t, other.store.quarantine.Excluded().Definitions, 2)
	require.Empty(t, other.store.quarantine.Excluded().Runs)
	other.leave(pod)
	require.Equal(t, 2, value[int](k.database, "select count(*) from {schema}.pods"), "they have tasks of the other program")

	again := k.starts(first, storetest.Nap(time.Nanosecond))
	live := again.join(time.Hour)
	for range 2 {
		other.lead(epoch)
	}
	require.Empty(t, other.store.quarantine.Excluded().Definitions)
	for range 6 {
		again.lead(epoch)
		again.finish(live)
	}
	for _, run := range runs[0] {
		require.Equal(t, lifecycle.Completed, again.state(run))
	}
	again.requireSound()
}

// A dead letter whose definition was deleted is listed; a requeue fails with the remedy.
func TestLettersOfARemovedDefinition(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withPod(t, g)
	run := k.start(g, "a", 1)[0]
	record := k.completion(pod, k.claim(pod, 1)...)
	failed := &record.Transitions[0]
	failed.Report, failed.Class, failed.Error = lifecycle.Errored, "error", "broke"
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	k.exec("truncate {schema}.handlers, {schema}.definition_steps, {schema}.workflow_definitions")

	tool := k.starts()
	list, err := tool.store.ListDeadLetters(k.ctx, persistence.DeadFilter{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, [2]string{"single", "a"}, [2]string{list[0].Workflow, list[0].Step})
	letter, err := tool.store.DeadLetter(k.ctx, "", list[0].Task)
	require.NoError(t, err)
	require.Equal(t, "broke", letter.Error)
	order := persistence.RequeueOrder{Letter: list[0].Task, Run: k.draft(g, "a", 1)[0].Run}
	_, err = tool.store.RequeueDeadLetter(k.ctx, order)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.ErrorContains(t, err, "start the program")

	require.Equal(t, lifecycle.Failed, k.starts(g).state(run))
	answer, err := tool.store.RequeueDeadLetter(k.ctx, order)
	require.NoError(t, err)
	require.Equal(t, persistence.RequeueStored, answer.Result)
}
