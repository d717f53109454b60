package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A failure, or a skip, may reach every task of its run that has not ended, whatever the
// looks asked for at first. Where somebody holds one of these its run waits alone.

// holdStep holds the rows of one step of tenant a's runs.
func (k *kit) holdStep(step int) (release func()) {
	return k.hold("select from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id where r.tenant = 'a' and t.step = $1 for update of t", step)
}

func TestAFailureThatReachesWhatIsHeld(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	failed, other := k.start(g, "a", 1)[0], k.start(g, "b", 2)
	k.complete(pod, k.claim(pod, 10)...)
	granted := k.claim(pod, 10)
	running := slices.DeleteFunc(slices.Clone(granted), func(g persistence.Grant) bool { return g.Step != "b" })
	require.Len(t, running, 3)
	release := k.holdStep(2) // beside what fails
	record := k.completion(pod, running...)
	for i, grant := range running {
		if grant.Tenant == "a" || grant.Task.Run == other[0] {
			record.Transitions[i] = persistence.Transition{Task: grant.Task, Epoch: grant.Epoch, Report: lifecycle.Errored, Class: "fatal", Error: "no"}
		}
	}
	for i, answer := range k.send(record) {
		require.Equal(t, running[i].Tenant == "a", answer == lifecycle.Busy)
	}
	k.askAgain()
	require.Equal(t, lockCalm, k.store.locking(k.ctx))
	noted := k.store.strained.noted
	for i, answer := range k.send(record) {
		require.Equal(t, running[i].Tenant == "a", answer == lifecycle.Busy)
	}
	require.Equal(t, noted, k.store.strained.noted, "nobody is waited for")
	release()
	k.askAgain()
	require.Contains(t, k.send(record), lifecycle.Moved)
	k.send(k.completion(pod, granted...)) // those beside them
	k.finish(pod)
	require.Equal(t, lifecycle.Failed, k.state(failed))
	require.Equal(t, lifecycle.Failed, k.state(other[0]))
	require.Equal(t, lifecycle.Completed, k.state(other[1]))
	k.requireSound()
}

// Hurry is a beside b; a waits in the queue for no time.
func hurry() *workflow.Graph {
	return storetest.Graph(workflow.Definition{Name: "hurry", Output: 0, Steps: []workflow.Step{
		{Name: "a", Options: workflow.Options{ScheduleToStart: time.Nanosecond}}, {Name: "b"},
	}})
}

func TestWaitsThatAreOverBesideWhatIsHeld(t *testing.T) {
	t.Parallel()
	g := hurry()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	held := k.start(g, "a", 20)
	release := k.holdStep(1)
	others := k.start(g, "b", 3)
	fired := 0
	for range 3 {
		out, err := k.store.FireTimers(k.ctx, epoch, 4)
		require.NoError(t, err)
		fired += out.Count
	}
	require.Equal(t, 3, fired, "all of b")
	require.Equal(t, lifecycle.Failed, k.state(others[0]))
	require.Equal(t, lifecycle.Running, k.state(held[0]))
	release()
	k.askAgain()
	for range 12 {
		out, err := k.store.FireTimers(k.ctx, epoch, 4)
		require.NoError(t, err)
		fired += out.Count
	}
	require.Equal(t, 23, fired)
	require.Equal(t, lifecycle.Failed, k.state(held[0]))
	k.requireSound()
}

func TestLossesThatReachWhatIsHeld(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	held, other := k.start(g, "a", 1)[0], k.start(g, "b", 1)[0]
	k.complete(pod, k.claim(pod, 10)...)
	dead := k.join(time.Hour)
	request := k.request(dead, 2)
	out, err := k.store.ClaimTasks(k.ctx, request)
	require.NoError(t, err)
	require.Len(t, out.Grants, 2)
	require.NotEqual(t, out.Grants[0].Tenant, out.Grants[1].Tenant)
	k.exec(`update {schema}.pods set expires_at = now() - interval '1 second' where id = $1`, dead)
	release := k.holdStep(2)
	expired, err := k.store.ExpirePods(k.ctx, epoch, 1, 10, time.Time{}) // one loss is one too many
	require.NoError(t, err)
	require.Equal(t, 1, expired.Tasks, "that of b")
	require.Equal(t, lifecycle.Running, k.state(held))
	require.Equal(t, lifecycle.Failed, k.state(other))
	release()
	k.askAgain()
	expired, err = k.store.ExpirePods(k.ctx, epoch, 1, 10, time.Time{})
	require.NoError(t, err)
	require.Equal(t, 1, expired.Tasks)
	require.Equal(t, lifecycle.Failed, k.state(held))
	k.requireSound()
}

// A step in a transaction that skips what is held is not executed again and again.
func TestAStepThatSkipsWhatIsHeldIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	g := storetest.Branch()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	run := k.start(g, "a", 1)[0]
	grant := k.claim(pod, 1)[0]
	calls := 0
	execute := func() (lifecycle.Answer, error) {
		record := k.completion(pod, grant)
		transition := record.Transitions[0]
		transition.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}}
		record.Transitions, record.Task = nil, grant.Task
		out, err := k.store.RecordInTx(k.ctx, record, func(context.Context, any) (persistence.Transition, error) {
			calls++
			return transition, nil
		})
		if err != nil {
			return 0, err
		}
		return out.Answers[0].Result, nil
	}
	release := k.holdStep(2) // what comes after the step that is skipped
	_, err := execute()
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	for range 3 {
		answer, err := execute()
		require.NoError(t, err)
		require.Equal(t, lifecycle.Busy, answer)
	}
	require.Equal(t, 1, calls)
	release()
	k.askAgain()
	answer, err := execute()
	require.NoError(t, err)
	require.Equal(t, lifecycle.Moved, answer)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(run))
	k.requireSound()
}

// A pod that leaves hands back what nobody holds, and stays for the rest.
func TestAPodLeavesBesideWhatIsHeld(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 2)
	k.start(g, "b", 3)
	require.Len(t, k.claim(pod, 10), 5)
	release := k.holdStep(0)
	_, err := k.store.LeavePod(k.ctx, pod)
	require.NoError(t, err)
	other := k.join(time.Hour)
	require.Len(t, k.claim(other, 10), 3, "those of b")
	release()
	k.askAgain()
	_, err = k.store.LeavePod(k.ctx, pod)
	require.NoError(t, err)
	require.Len(t, k.claim(other, 10), 2)
	k.requireSound()
}
