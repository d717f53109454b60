package postgres

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/family"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// newFamily returns a fixture with a run of Parent whose child run has begun, and with its pod.
func newFamily(t *testing.T) (k *fixture, pod int64, parent, child workflow.RunID) {
	t.Helper()
	k, pod = withPod(t, storetest.Parent(), storetest.Single())
	parent = k.start(storetest.Parent(), "a", 1)[0]
	child = k.begin(pod, storetest.Single(), 1)[0]
	require.Equal(t, 1, k.drain(10).Count)
	return k, pod, parent, child
}

// begin executes first tasks, and begins the child runs of so many steps behind them.
func (k *fixture) begin(pod int64, child *workflow.Graph, n int) (begun []workflow.RunID) {
	k.t.Helper()
	k.complete(pod, k.claim(pod, 1)...)
	for len(begun) < n {
		var record persistence.Record
		for _, g := range k.claim(pod, 200) {
			if !isChild(g) {
				k.complete(pod, g)
				continue
			}
			var random [10]byte
			_, _ = rand.Read(random[:])
			id := workflow.NewRunID(time.Now(), random)
			begun = append(begun, id)
			record.Pod, record.Transitions = pod, append(record.Transitions, persistence.Transition{
				Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Yielded,
				Child: &persistence.Child{
					Run: id, Definition: child.Hash, Workflow: child.Name, KeyRun: persistence.ChildKeys(g.Task.Run, g.Step), Input: []byte(`1`),
				},
			})
		}
		for _, answer := range k.send(record) {
			require.Equal(k.t, lifecycle.Moved, answer)
		}
	}
	return begun
}

// isChild reports whether a step of Parent or Many begins a child run.
func isChild(g persistence.Grant) bool { return g.Step[0] == 'c' }

// lockers returns the transactions that wrote the row of a run, or locked it last.
func (k *fixture) lockers(run workflow.RunID) (xids map[string]bool) {
	k.t.Helper()
	xids = map[string]bool{}
	for _, xid := range value[[]string](k.database, `select array[xmin::text, xmax::text] from {schema}.workflow_runs where id = $1`, [16]byte(run)) {
		xids[xid] = xid != "0"
	}
	return xids
}

// apart fails if a transaction of what do does writes or locks two runs. At least one of the runs
// is written.
func (k *fixture) apart(what string, runs []workflow.RunID, do func()) {
	k.t.Helper()
	before := map[string]bool{}
	for _, run := range runs {
		for xid := range k.lockers(run) {
			before[xid] = true
		}
	}
	do()
	locks := map[string]workflow.RunID{}
	for _, run := range runs {
		for xid, is := range k.lockers(run) {
			if !is || before[xid] {
				continue
			}
			require.NotContains(k.t, locks, xid, "%s: a transaction has locked two runs", what)
			locks[xid] = run
		}
	}
	require.NotEmpty(k.t, locks, "%s: no run was written", what)
}

// No transaction locks a run and its child run, whichever ends first.
func TestAParentAndAChildRunAreNotLockedTogether(t *testing.T) {
	t.Parallel()
	k, pod, parent, child := newFamily(t)
	both := []workflow.RunID{parent, child}
	k.apart("the child run ends", both, func() { k.complete(pod, k.claim(pod, 1)...) })
	require.Equal(t, lifecycle.Completed, k.state(child))
	k.apart("the parent hears of it", both, func() { k.drain(10) })
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.step_list where step = 'child' and state = 'completed'"))
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(parent))

	parent = k.start(storetest.Parent(), "a", 1)[0]
	child = k.begin(pod, storetest.Single(), 1)[0]
	both = []workflow.RunID{parent, child}
	k.apart("the child run begins", both, func() { k.drain(10) })
	k.apart("the parent is canceled", both, func() { k.cancel(persistence.Cancel{Run: parent, Tenant: "a"}) })
	require.Equal(t, lifecycle.Canceled, k.state(parent))
	k.apart("the child run hears of it", both, func() { k.drain(10) })
	require.Equal(t, lifecycle.Canceled, k.state(child))
	k.requireSound()
}

// A leader finds the parents that nothing tells of the ends of their child runs.
func TestALeaderWakesParentsThatNothingTells(t *testing.T) {
	t.Parallel()
	k, pod, parent, child := newFamily(t)
	epoch := k.bump(pod)
	wake := func() persistence.Woken {
		out, err := k.store.WakeParents(k.ctx, epoch, workflow.TaskID{}, 10)
		require.NoError(t, err)
		return out
	}
	require.Equal(t, persistence.Woken{}, wake(), "the child run has not ended")
	k.complete(pod, k.claim(pod, 1)...)
	require.Equal(t, lifecycle.Completed, k.state(child))
	require.Equal(t, persistence.Woken{}, wake(), "it is asked for")
	k.exec("delete from {schema}.intake")
	k.drain(10)
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.step_list where state = 'waiting'"))
	out := wake()
	require.Equal(t, 1, out.Count)
	require.True(t, out.Wake.Submitted)
	require.Equal(t, persistence.Woken{}, wake())
	k.drain(10)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(parent))
	k.requireSound()
}

// Ends of more child runs than one transaction tells are told by several.
func TestEndsOfManyChildRunsAreToldInTurn(t *testing.T) {
	t.Parallel()
	const limit, most = 10, 10 * family.HearMax
	const n = most + 30
	g, child := storetest.Many(n), storetest.Single()
	k, pod := withPod(t, g, child)
	parent := k.start(g, "a", 1)[0]
	require.Len(t, k.begin(pod, child, n), n)
	for k.drain(200).More {
	}
	k.exec("update {schema}.tasks set state = 10, output = '1', finished_at = now() where state = 2")
	k.exec("update {schema}.workflow_runs set state = 10, remaining = 0, finished_at = now() where id <> $1", [16]byte(parent))
	k.exec("insert into {schema}.intake (run_id, signal) values ($1, true)", [16]byte(parent))
	for drained := k.drain(limit); drained.More; drained = k.drain(limit) {
		require.Equal(t, 1, drained.Requests)
	}
	told := value[[]int](k.database, `select array_agg(steps order by steps desc) from (
		select count(*)::int as steps from {schema}.tasks where run_id = $1 and child is not null and output = '1' group by xmin::text) x`, [16]byte(parent))
	require.Equal(t, []int{most, n - most}, told, "by transaction")
	require.Equal(t, lifecycle.Completed, k.state(parent))
}

// A child run of which the definition was removed by hand says nothing of its output: the parent
// waits, and others are told.
func TestAChildRunWithoutItsDefinitionIsLeft(t *testing.T) {
	t.Parallel()
	k, pod, parent, _ := newFamily(t)
	k.complete(pod, k.claim(pod, 1)...)
	number := registry.DefinitionNumber(storetest.Single().Hash)
	k.exec("update {schema}.workflow_definitions set definition = -definition where definition = $1", number)
	out := k.drain(10)
	require.GreaterOrEqual(t, out.Again, quarantine.AgainMin)
	require.Equal(t, lifecycle.Running, k.state(parent))
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.intake"))
	k.exec("update {schema}.workflow_definitions set definition = -definition where definition = $1", -number)
	k.drain(10)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(parent))
}

// A pod that does not know the workflow of a parent, because it is of an older version, leaves what
// the parent is to be told. It executes and ends child runs that it does know.
func TestAPodThatDoesNotKnowAParentLeavesIt(t *testing.T) {
	t.Parallel()
	k, pod, parent, child := newFamily(t)
	number := registry.DefinitionNumber(storetest.Parent().Hash)
	k.exec("update {schema}.definition_steps set kind = 9 where kind = $1 and definition = $2", int(workflow.ChildRun), number)
	old := k.starts(storetest.Single())
	second := old.join(time.Hour)
	old.complete(second, old.claim(second, 10)...)
	require.Equal(t, lifecycle.Completed, old.state(child))
	before := k.stands([]workflow.RunID{parent})
	require.GreaterOrEqual(t, old.drain(10).Again, quarantine.AgainMin)
	require.Equal(t, before, k.stands([]workflow.RunID{parent}))
	k.exec("update {schema}.definition_steps set kind = $1 where kind = 9 and definition = $2", int(workflow.ChildRun), number)
	k.drain(10)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(parent))
	k.requireSound()
}

// A parent whose child run has an output that the disk has lost rests; others are told.
func TestADamagedChildRunKeepsNoOtherFromBeingTold(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Parent(), storetest.Single())
	parents := k.start(storetest.Parent(), "a", 1)
	k.begin(pod, storetest.Single(), 1)
	parents = append(parents, k.start(storetest.Parent(), "a", 1)...)
	k.begin(pod, storetest.Single(), 1)
	require.Equal(t, 2, k.drain(10).Count)
	for range parents {
		record := k.completion(pod, k.claim(pod, 1)...)
		record.Transitions[0].Output = []byte(noise())
		require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	}
	k.lose("tasks", 1)
	require.NotZero(t, k.drain(10).Again)
	require.Equal(t, 1, k.store.quarantine.Met(quarantine.Unreadable))
	require.Len(t, k.claim(pod, 10), 1, "of the other parent")
	require.Equal(t, 1, value[int](k.database, "select count(*)::int from {schema}.tasks where state = 6"))
	k.exec("delete from {schema}.tasks; delete from {schema}.workflow_runs") // nothing reads what is lost
}

// What a step says about its child run is stored.
func TestChildRunsOfDefinitionsAreStored(t *testing.T) {
	t.Parallel()
	spec := workflow.ChildSpec{Workflow: "other", Abandons: true, Output: workflow.OutputOf{Workflow: `a "b", {c}`, Step: "go", Signal: true}}
	g := storetest.Graph(workflow.Definition{Name: "spec", Output: 1, Steps: []workflow.Step{
		{Name: "make"}, {Name: "child", Kind: workflow.ChildRun, Child: spec, Parents: []workflow.Edge{{Kind: workflow.Plain}}},
	}})
	k := newFixture(openDatabase(t, Options{}), g)
	other := k.open(k.user)
	found, err := other.Definition(k.ctx, g.Hash)
	require.NoError(t, err)
	require.Equal(t, g, found)
	require.Equal(t, spec, found.Nodes[1].Child)
}

// The child runs of a run are found by the tasks of that run, at work and in history, however
// many other runs there are.
func TestChildRunsAreListedByAnIndex(t *testing.T) {
	t.Parallel()
	a, live, old := newArchives(t)
	a.exec(`update {schema}.tasks set child = gen_random_uuid() where run_id = $1`, [16]byte(live))
	a.exec(`update {schema}.run_history set child_runs = array[gen_random_uuid(), null] where id = $1`, [16]byte(old))
	for run, count := range map[workflow.RunID]int{live: 2, old: 1} {
		text, args := a.store.Bind("list_child_runs", map[string]any{
			"run": [16]byte(run), "from": [16]byte{}, "before": uuidMax, "limit": 10,
		})
		rows, err := a.store.Conns.Query(a.ctx, text, args...)
		require.NoError(t, err)
		found := 0
		for rows.Next() {
			found++
		}
		require.NoError(t, rows.Err())
		require.Equal(t, count, found)
		var plan string
		require.NoError(t, a.store.Conns.QueryRow(a.ctx, "explain (analyze, timing off, format json) "+text, args...).Scan(&plan))
		read, scanned := reads(t, plan)
		require.LessOrEqual(t, read, 10.)
		require.Empty(t, scanned)
	}
}

// A page of all steps that wait is read by an index; of the intake all requests to tell runs of
// something are.
func TestTheLookAtParentsReadsAPage(t *testing.T) {
	t.Parallel()
	d := schemas(t)(t)
	require.NoError(t, d.analyze(t.Context()))
	require.Equal(t, []string{"full index scan of intake"}, scans(t, d.plan(d.store.Statements["wake_parents"])))
}
