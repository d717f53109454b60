package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// loseRegistrations is what a standby does that takes over without the last
// transactions. Meanwhile another program registers a workflow of its own.
func (k *fixture) loseRegistrations() {
	k.t.Helper()
	for _, table := range []string{"workflow_definitions", "definition_steps", "pods"} {
		k.exec("delete from {schema}." + table)
	}
	store, err := Open(k.ctx, Options{Pool: k.user})
	require.NoError(k.t, err)
	defer store.Close()
	_, err = store.RegisterDefinitions(k.ctx, []*workflow.Graph{storetest.Mixed(workflow.FailFast)}, nil)
	require.NoError(k.t, err)
}

// A process meets a database that has lost its registrations: it registers again, and
// stores no run without tasks or with tasks of another workflow.
func TestALostRegistrationIsMadeAgain(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprint("the process forgets too, ", forgets), func(t *testing.T) {
			t.Parallel()
			k := newFixture(openDatabase(t, Options{}), storetest.Diamond())
			old := k.join(time.Minute)
			k.start(storetest.Diamond(), "known", 2)
			k.exec("truncate {schema}.workflow_runs, {schema}.tasks, {schema}.ready_queue")
			k.loseRegistrations()
			if forgets {
				k.store.Catalog.Forget()
			}
			run := k.start(storetest.Diamond(), "known", 1)[0]
			_, err := k.store.ClaimTasks(k.ctx, k.request(old, 10))
			require.ErrorIs(t, err, persistence.ErrPodDead, "its row is lost, too")
			k.finish(k.join(time.Minute))
			require.Equal(t, lifecycle.Completed, k.state(run))
		})
	}
}

// A pod that joins again registers what it executes before it takes anything. If
// the database numbers its steps otherwise by now, it does not join: it would
// call its functions for the steps of others.
func TestAPodThatJoinsAgainRegistersAgain(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Diamond())
	k.loseRegistrations()
	k.join(time.Minute)
	require.Equal(t, 2, value[int](k.database, "select count(*)::int from {schema}.workflow_definitions"))

	others := storetest.Mixed(workflow.FinishSiblings)
	for name, first := range map[string][]*workflow.Graph{
		"others took its numbers":         {others},
		"and its steps have got new ones": {others, storetest.Diamond()},
	} {
		k.exec("truncate {schema}.handlers, {schema}.workflow_definitions, {schema}.definition_steps, {schema}.pods")
		other, err := Open(k.ctx, Options{Pool: k.user})
		require.NoError(t, err)
		_, err = other.RegisterDefinitions(k.ctx, first, nil)
		other.Close()
		require.NoError(t, err)
		_, _, err = k.store.JoinPod(k.ctx, persistence.PodInfo{Name: "pod", Queues: []string{registry.DefaultQueue}, Slots: 1, TTL: time.Minute})
		require.ErrorContains(t, err, "restart the process", name)
	}
}

// Registrations that were deleted, all or a part at a time, are made again under the same
// numbers by the call that misses them: open runs complete, and new ones are stored whole.
func TestDeletedRegistrationsAreMadeAgain(t *testing.T) {
	t.Parallel()
	const some = "delete from {schema}.definition_steps where step = 1"
	for i, remove := range [][]string{
		{"handlers"},
		{"definition_steps"},
		{some},
		{"workflow_definitions"},
		{"queues"},
		{"handlers, definition_steps"},
		{"handlers", some},
		{"definition_steps", "workflow_definitions"},
		{"handlers, definition_steps, queues, workflow_definitions"},
		{"handlers", "workflow_definitions", "definition_steps"},
	} {
		for _, by := range []string{"process", []string{"trigger", "claim", "submission"}[i%3]} {
			meet := meets()[by]
			t.Run(strings.Join(remove, " then ")+" by a "+by, func(t *testing.T) {
				t.Parallel()
				g := storetest.Diamond()
				k, pod := withPod(t, g)
				k.start(g, "known", 1)
				k.finish(pod)
				before := k.start(g, "known", 2)
				half := k.claim(pod, 1)
				for _, tables := range remove {
					if tables != some {
						k.exec("truncate {schema}." + strings.ReplaceAll(tables, ", ", ", {schema}."))
					} else {
						k.exec(some)
					}
					if tables != remove[len(remove)-1] {
						_ = k.ask(k.draft(g, "known", 1)...)
					}
				}
				meet(k, pod)
				k.complete(pod, half...)
				after := k.start(g, "known", 2)
				k.finish(k.join(time.Hour))
				for _, id := range append(before, after...) {
					require.Equal(t, lifecycle.Completed, k.state(id))
				}
				require.Equal(t, int64(0), value[int64](k.database, "select count(*) from {schema}.workflow_runs where state < 10"))
				k.requireSound()
			})
		}
	}
}

// lostWhileDown is a store with runs of one program whose pods have stopped and whose
// registrations were deleted; afterwards only another program is started.
func lostWhileDown(t *testing.T) (k *fixture, old []workflow.RunID, epoch int64) {
	t.Helper()
	first, naps := storetest.Diamond(), storetest.Nap(time.Nanosecond)
	k = newFixture(openDatabase(t, Options{}), first, naps)
	pod := k.join(time.Hour)
	slept := k.start(naps, "a", 3)
	k.complete(pod, k.claim(pod, 3)...)
	old = append(slept, k.start(first, "a", 5)...)
	k.complete(pod, k.claim(pod, 2)...)
	k.leave(pod)
	epoch = k.bump(pod)
	k.exec("truncate {schema}.handlers, {schema}.definition_steps, {schema}.workflow_definitions")
	return k, old, epoch
}

// starts is another process with the given workflows.
func (k *fixture) starts(graphs ...*workflow.Graph) *fixture {
	k.t.Helper()
	store, err := Open(k.ctx, Options{Pool: k.user})
	require.NoError(k.t, err)
	k.t.Cleanup(store.Close)
	d := *k.database
	d.store = store
	other := newFixture(&d, graphs...)
	other.claims = k.claims
	return other
}

// All registrations are deleted while no pod runs, and a new version is started first: it
// completes its own runs and does not execute steps of the old version, whose runs complete
// when the old version is started.
func TestANewVersionIsStartedFirst(t *testing.T) {
	t.Parallel()
	k, old, epoch := lostWhileDown(t)
	next := storetest.Graph(workflow.Definition{Name: "diamond", Output: 2, Steps: []workflow.Step{
		{Name: "z"}, {Name: "a", Parents: []workflow.Edge{{Parent: 0, Kind: workflow.Plain}}}, {Name: "b", Parents: []workflow.Edge{{Parent: 1, Kind: workflow.Plain}}},
	}})
	naps := storetest.Nap(2 * time.Nanosecond)
	v2 := k.starts(next, naps)
	pod := v2.join(time.Hour)
	runs := append(v2.start(next, "b", 2), v2.start(naps, "b", 1)...)
	for range 4 { // some find out
		for _, grant := range v2.claim(pod, 100) {
			require.Contains(t, runs, grant.Task.Run)
			v2.complete(pod, grant)
		}
		v2.fire(epoch, 10)
		v2.park(epoch, 100)
	}
	v2.finish(pod)
	for _, id := range runs {
		require.Equal(t, lifecycle.Completed, v2.state(id))
	}
	_, err := v2.store.CancelRun(k.ctx, persistence.Cancel{Run: old[0], Tenant: "a"})
	require.ErrorIs(t, err, persistence.ErrUnavailable)

	v1 := k.starts(storetest.Diamond(), storetest.Nap(time.Nanosecond))
	pod = v1.join(time.Hour)
	for range 4 {
		v1.fire(epoch, 10)
		v1.park(epoch, 100)
		v1.finish(pod)
	}
	for _, id := range old {
		require.Equal(t, lifecycle.Completed, v1.state(id))
	}
	v1.requireSound()
}

// Steps that are there keep their numbers, also if their handlers have got others.
func TestStepsKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Diamond())
	k.exec("update {schema}.handlers set handler = handler + 1000")
	other, err := Open(k.ctx, Options{Pool: k.user})
	require.NoError(t, err)
	defer other.Close()
	numbers, err := other.RegisterDefinitions(k.ctx, []*workflow.Graph{storetest.Diamond()}, []string{registry.DefaultQueue})
	require.NoError(t, err)
	require.Equal(t, k.handlers, numbers[0])
	_, _, err = other.JoinPod(k.ctx, persistence.PodInfo{Name: "pod", Queues: []string{registry.DefaultQueue}, Slots: 1, TTL: time.Minute})
	require.NoError(t, err)
}

// A run whose definition was deleted is listed, and can be read once the definition is
// registered again.
func TestARunOfARemovedDefinitionIsThere(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withPod(t, g)
	run := k.start(g, "a", 1)[0]
	k.finish(pod)
	open := k.start(g, "a", 1)[0]
	k.exec("truncate {schema}.workflow_definitions")
	require.Equal(t, explain.CauseUnregistered, k.why(open).Cause)
	require.Contains(t, k.why(open).Text, "was removed from the database")
	require.Equal(t, explain.CauseEnded, k.why(run).Cause)
	_, err := k.store.Run(k.ctx, "", run)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	list, err := k.store.ListRuns(k.ctx, persistence.RunFilter{Tenant: "a"})
	require.NoError(t, err)
	require.Len(t, list.Rows, 2)
	k.start(g, "a", 1)
	s, err := k.store.Situation(k.ctx, "a", open)
	require.NoError(t, err)
	require.False(t, s.Undefined)
	require.Equal(t, lifecycle.Completed, k.state(run))
}

// meets are the calls that find registrations missing.
func meets() map[string]func(k *fixture, pod int64) {
	return map[string]func(k *fixture, pod int64){
		"trigger": func(k *fixture, _ int64) { k.start(storetest.Diamond(), "known", 1) },
		"claim":   func(k *fixture, pod int64) { k.complete(pod, k.claim(pod, 1)...) },
		"process": func(k *fixture, _ int64) {
			other, err := Open(k.ctx, Options{Pool: k.user})
			require.NoError(k.t, err)
			defer other.Close()
			numbers, err := other.RegisterDefinitions(k.ctx, []*workflow.Graph{storetest.Diamond()}, []string{registry.DefaultQueue})
			require.NoError(k.t, err)
			require.Equal(k.t, k.handlers, numbers[0])
		},
		"submission": func(k *fixture, _ int64) {
			k.submit(storetest.Diamond(), 1)
			k.drain(10)
		},
	}
}

// Numbers that a live pod or a definition has are not given to others, even if the rows that
// assign them were deleted.
func TestNumbersOfHandlersAreNotGivenOutAgain(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"pods", "definition_steps"} {
		k := newFixture(openDatabase(t, Options{}), storetest.Diamond())
		k.join(time.Hour)
		k.exec("truncate {schema}.handlers")
		for _, other := range []string{"pods", "definition_steps"} {
			if other != kept {
				k.exec("truncate {schema}." + other)
			}
		}
		other, err := Open(k.ctx, Options{Pool: k.user})
		require.NoError(t, err)
		numbers, err := other.RegisterDefinitions(k.ctx, []*workflow.Graph{storetest.Mixed(workflow.FinishSiblings)}, nil)
		other.Close()
		require.NoError(t, err)
		for _, number := range numbers[0] {
			require.NotContains(t, k.handlers, number, kept)
		}
	}
}

// A pod that joins a database that was set back does not get the number of a live pod:
// otherwise each would take the other's tasks.
func TestNumbersOfPodsAreNotGivenOutAgain(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	k.store.podID = drawPodID
	old := k.join(time.Hour)
	k.exec("truncate {schema}.pods restart identity")
	require.NotEqual(t, old, k.join(time.Hour))
	_, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: old, TTL: time.Hour})
	require.ErrorIs(t, err, persistence.ErrPodDead)
}

// removing removes steps in the middle of a trigger, once its definition has been matched.
type removing struct {
	counter

	remove func()
}

// TraceBatchQuery implements pgx.BatchTracer.
func (r *removing) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if remove := r.remove; remove != nil && strings.Contains(data.SQL, "match_definitions") {
		r.remove = nil
		remove()
	}
}

// A run gets all of its tasks or is not stored, even if steps are deleted meanwhile.
func TestStepsRemovedInTheMiddleOfATrigger(t *testing.T) {
	t.Parallel()
	g, tracer := storetest.Diamond(), &removing{}
	k := newFixture(openDatabase(t, Options{Tracer: tracer}), g)
	pod := k.join(time.Hour)
	k.start(g, "a", 1)
	removed := false
	tracer.remove = func() {
		k.exec("delete from {schema}.definition_steps where step = 2")
		removed = true
	}
	one := k.draft(g, "a", 1)
	one[0].Key = "key"
	require.Equal(t, persistence.Triggered, k.ask(one...)[0].Result)
	require.True(t, removed)
	require.Equal(t, 4, value[int](k.database, "select count(*) from {schema}.tasks where run_id = $1", [16]byte(one[0].Run)))
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(one[0].Run))
	k.requireSound()
}
