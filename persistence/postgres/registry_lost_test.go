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

// loseRegistrations is what a standby does that takes over without the last
// transactions. Meanwhile another program registers a workflow of its own.
func (k *kit) loseRegistrations() {
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

// A database that lost what was registered is told again by whoever meets it: no
// run is stored without its tasks, or with those of another workflow.
func TestALostRegistrationIsMadeAgain(t *testing.T) {
	t.Parallel()
	triggers := map[string]func(k *kit) persistence.TriggerAnswer{
		"by one statement": func(k *kit) persistence.TriggerAnswer {
			return k.ask(k.draft(storetest.Diamond(), "known", 1)...)[0]
		},
		"by what it forgot": func(k *kit) persistence.TriggerAnswer {
			return k.ask(k.draft(storetest.Diamond(), "known", 1)...)[0]
		},
		"by decisions": func(k *kit) persistence.TriggerAnswer {
			one := k.draft(storetest.Diamond(), "known", 1)
			one[0].Key = "key"
			return k.ask(one...)[0]
		},
		"in a transaction": func(k *kit) (answer persistence.TriggerAnswer) {
			require.NoError(k.t, pgx.BeginFunc(k.ctx, k.user, func(tx pgx.Tx) (err error) {
				answer, err = k.store.TriggerInTx(k.ctx, tx, k.draft(storetest.Diamond(), "known", 1)[0])
				return err
			}))
			_, err := k.store.DrainIntake(k.ctx, 10)
			require.NoError(k.t, err)
			return answer
		},
	}
	for name, trigger := range triggers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(openDatabase(t, Options{}), storetest.Diamond())
			old := k.join(time.Minute)
			k.complete(old, k.claim(old, 1)...)
			k.start(storetest.Diamond(), "known", 2) // the second by one statement
			k.exec("truncate {schema}.workflow_runs, {schema}.tasks, {schema}.ready_queue")
			k.loseRegistrations()

			if name == "by what it forgot" {
				k.store.catalog.forget()
			}
			answer := trigger(k)
			require.Equal(t, persistence.Triggered, answer.Result)
			_, err := k.store.ClaimTasks(k.ctx, k.request(old, 10))
			require.ErrorIs(t, err, persistence.ErrPodDead, "its row went with what it registered")
			pod := k.join(time.Minute)
			for range 4 {
				k.complete(pod, k.claim(pod, 10)...)
			}
			row, err := k.store.Run(k.ctx, "", answer.Run)
			require.NoError(t, err)
			require.Equal(t, lifecycle.Completed, row.State)
		})
	}
}

// A pod that joins again registers what it executes before it takes anything. If
// the database numbers its steps otherwise by now, it does not join: it would
// call its functions for the steps of others.
func TestAPodThatJoinsAgainRegistersAgain(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Diamond())
	k.loseRegistrations()
	k.join(time.Minute)
	require.Equal(t, 2, value[int](k.database, "select count(*)::int from {schema}.workflow_definitions"))

	others := storetest.Mixed(workflow.FinishSiblings)
	for name, first := range map[string][]*workflow.Graph{
		"others took its numbers":         {others},
		"and its steps have got new ones": {others, storetest.Diamond()},
	} {
		k.exec("truncate {schema}.handlers, {schema}.workflow_definitions, {schema}.definition_steps")
		other, err := Open(k.ctx, Options{Pool: k.user})
		require.NoError(t, err)
		_, err = other.RegisterDefinitions(k.ctx, first, nil)
		other.Close()
		require.NoError(t, err)
		_, _, err = k.store.JoinPod(k.ctx, persistence.PodInfo{Name: "pod", Queues: []string{defaultQueue}, Slots: 1, TTL: time.Minute})
		require.ErrorContains(t, err, "restart the process", name)
	}
}

// Steps and queues that somebody removed are registered again with the next
// trigger, or by the next process.
func TestRemovedStepsAndQueuesAreRegisteredAgain(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]string{
		"steps": "truncate {schema}.definition_steps", "queues": "truncate {schema}.queues",
		"all": "truncate {schema}.definition_steps, {schema}.queues, {schema}.workflow_definitions",
	} {
		for _, by := range []string{"trigger", "process"} {
			k := newKit(openDatabase(t, Options{}), storetest.Diamond())
			k.start(storetest.Diamond(), "known", 1)
			k.finish(k.join(time.Hour))
			k.exec(remove)
			if by == "process" {
				other, err := Open(k.ctx, Options{Pool: k.user})
				require.NoError(t, err)
				_, err = other.RegisterDefinitions(k.ctx, []*workflow.Graph{storetest.Diamond()}, []string{defaultQueue})
				other.Close()
				require.NoError(t, err, name)
			}
			ids := k.start(storetest.Diamond(), "known", 2)
			k.finish(k.join(time.Hour))
			require.Equal(t, lifecycle.Completed, k.state(ids[1]), "%s, by a %s", name, by)
		}
	}
}

// Numbers that a living pod or a definition has are not given to others, also if
// somebody removed the rows that say whose they are.
func TestNumbersOfHandlersAreNotGivenOutAgain(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"pods", "definition_steps"} {
		k := newKit(openDatabase(t, Options{}), storetest.Diamond())
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

// A pod that joins a database that was set back gets no number that a living
// pod has from before: each would take the other's tasks from it.
func TestNumbersOfPodsAreNotGivenOutAgain(t *testing.T) {
	t.Parallel()
	k := newKit(openDatabase(t, Options{}), storetest.Single())
	k.store.podID = drawPodID
	old := k.join(time.Hour)
	k.exec("truncate {schema}.pods restart identity")
	require.NotEqual(t, old, k.join(time.Hour))
	_, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: old, TTL: time.Hour})
	require.ErrorIs(t, err, persistence.ErrPodDead)
}
