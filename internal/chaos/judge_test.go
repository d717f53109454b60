package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres"
	"github.com/troupe-dev/troupe/persistence/snapshot"
)

// verdict is what the ledgers, the history and the tables say together.
type verdict struct {
	acked, ended int // runs that callers were told about, and that they saw end
	runs         int // in the tables
	executions   int // of step functions
	again        int // executions of tasks that had been begun before
	repeated     int // executions that came to an end more than once for one task
	losses       int // tasks taken from a pod that had died
	released     int // tasks that a pod handed back
}

// String implements fmt.Stringer. A judged row has lost no run and completed none
// twice; counts of 0 are left out.
func (v verdict) String() string {
	text := fmt.Sprintf("%d runs, %d executions", v.acked, v.executions)
	for _, c := range []struct {
		n    int
		what string
	}{{v.repeated, "repeated"}, {v.losses, "lost with a pod"}, {v.released, "handed back"}} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return text
}

// taskKey names one task in ledgers and history.
type taskKey struct{ run, step string }

// story is what the history says about one task.
type story struct{ started, completed, failed, lost, released, retried, timedOut int }

// settle ends the load, waits until every run has ended, and checks that
// nothing was lost, done twice or told wrongly.
func (y *yard) settle() verdict {
	y.t.Helper()
	y.quiet(patience)
	return y.judge()
}

// quiet ends the load: callers have heard of what they wait for.
func (y *yard) quiet(limit time.Duration) {
	y.t.Helper()
	for _, p := range y.alive() {
		y.awaitReady(p)
		p.tell("quiet")
	}
	for _, p := range y.alive() {
		y.hearWithin(p, "quiet", limit)
	}
}

const openSQL = `select count(*)::int from troupe.every_run where state < 'completed'`

// judge waits until every run has ended, and checks all that every row checks:
// tasks, runs and transactions against the ledgers, the tables, and that pods
// give back what they took. The pods have stopped afterwards.
func (y *yard) judge() verdict {
	y.t.Helper()
	y.until("every run has ended", patience, func() bool { return y.number(openSQL) == 0 })
	entries := readLedgers(y.t, y.dir)
	stories := y.stories()
	v := y.judgeTasks(entries, stories)
	y.judgeRuns(entries, &v, wrongShape)
	y.judgeTransactions()
	y.judgeTables()
	y.judgeResources()
	y.t.judged = true
	y.t.note("%v", v)
	return v
}

const storiesSQL = `select e.run_id::text, case when e.step = d.steps then 'handler' else coalesce(s.name, e.name) end,
	count(*) filter (where e.kind = 'started')::int, count(*) filter (where e.kind = 'completed')::int, count(*) filter (where e.kind = 'failed')::int,
	count(*) filter (where e.kind = 'lost')::int, count(*) filter (where e.kind = 'released')::int,
	count(*) filter (where e.kind = 'retrying')::int, count(*) filter (where e.kind = 'timed_out')::int
from troupe.every_event e
join troupe.every_run r on r.id = e.run_id
join troupe.workflow_definitions d on d.definition = r.definition
left join troupe.definition_steps s on s.definition = r.definition and s.step = e.step
where e.step >= 0
group by 1, 2`

// stories reads the history of every task.
func (y *yard) stories() map[taskKey]story {
	y.t.Helper()
	rows, err := y.pool.Query(y.t.Context(), coded(storiesSQL))
	require.NoError(y.t, err)
	stories := map[taskKey]story{}
	var key taskKey
	var s story
	_, err = pgx.ForEachRow(rows, []any{
		&key.run, &key.step, &s.started, &s.completed, &s.failed, &s.lost, &s.released, &s.retried, &s.timedOut,
	}, func() error {
		stories[key] = s
		return nil
	})
	require.NoError(y.t, err)
	return stories
}

// waits are the steps without a function.
var waits = []string{"nap", "first-gate", "second-gate", "one", "two", "deep", "inner", "long", mapStep, "machine", "tick", "watch"}

// judgeTasks compares what step functions did with what the history says: no
// task completes twice (I3), none was executed without a grant, none completed
// without its effect (I11), and effects are repeated only where the task was
// lost or handed back.
func (y *yard) judgeTasks(entries []entry, stories map[taskKey]story) verdict {
	y.t.Helper()
	begun, done := map[taskKey]int{}, map[taskKey]int{}
	var v verdict
	for _, e := range entries {
		switch e.what {
		case "begun":
			begun[taskKey{e.run, e.detail}]++
			v.executions++
		case "done":
			done[taskKey{e.run, e.detail}]++
		}
	}
	for key, times := range begun {
		s := stories[key]
		v.again += times - 1
		require.LessOrEqual(y.t, times, s.started, "%v was executed %d times; the history says %+v", key, times, s)
		require.LessOrEqual(y.t, done[key], 1+s.lost+s.released+s.retried+s.timedOut, "%v had its effect %d times; the history says %+v", key, done[key], s)
		v.repeated += max(done[key]-1, 0)
	}
	for key, s := range stories {
		require.LessOrEqual(y.t, s.completed, 1, "%v completed %d times", key, s.completed)
		declared, _, _ := strings.Cut(key.step, "#") // of what a machine has started
		if s.completed == 1 && !slices.Contains(waits, declared) {
			require.Positive(y.t, done[key], "%v completed without its effect", key)
		}
		v.losses += s.lost
		v.released += s.released
	}
	return v
}

// leasesKept is what a row allows whose fault may cost time, but no lease.
func leasesKept(more ...figure) []figure {
	return append([]figure{none("tasks lost"), none("pods fenced"), none("pods that rejoined")}, more...)
}

// countLeases enters the figures of leasesKept.
func (y *yard) countLeases(v verdict) {
	y.t.Helper()
	y.t.count("tasks lost", v.losses)
	y.t.count("pods fenced", y.logged("to=lost"))
	y.t.count("pods that rejoined", y.logged("joining again"))
	y.t.note("%d late renewals", y.logged("to=late"))
}

// judgeRuns checks that every run that a caller was told about exists and has
// ended as it had to, and that every answer was right (I1). wrong describes what is
// wrong with a run's end, judged by the ledger; "": nothing.
func (y *yard) judgeRuns(entries []entry, v *verdict, wrong func(detail string, end lifecycle.State) string) {
	y.t.Helper()
	rows, err := y.pool.Query(y.t.Context(), `select id::text, state::int from troupe.every_run`)
	require.NoError(y.t, err)
	states := map[string]lifecycle.State{}
	var id string
	var state int
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		states[id] = lifecycle.State(state)
		return nil
	})
	require.NoError(y.t, err)
	v.runs = len(states)
	for _, e := range entries {
		switch e.what {
		case "acked":
			v.acked++
			if problem := wrong(e.detail, states[e.run]); problem != "" {
				require.Fail(y.t, "an acknowledged run has not ended as it had to", "%s: %s: %s", e.ledger, problem, y.history(e.run))
			}
		case "ended":
			v.ended++
		case "stuck", "wrong":
			require.Fail(y.t, "a caller was told wrongly", "%+v", e)
		}
	}
}

// wrongShape is what is wrong with the end of a run of the load.
func wrongShape(shape string, end lifecycle.State) string {
	if s := mapShapeOf(shape); s != nil {
		return wrongMap(s, end)
	}
	want := lifecycle.Completed
	if shape == "endless" || shape == "guardian" {
		want = lifecycle.Canceled
	}
	if hopeless(shape) || end == want {
		return ""
	}
	return fmt.Sprintf("a run of %s, meant to be %v, is %v", shape, want, end)
}

// hopeless tells whether a shape fails however often it is tried.
func hopeless(shape string) bool {
	return slices.Contains([]string{"poison", "racy", "glutton", "deaf"}, shape)
}

// history returns the events of a run, for a message.
func (y *yard) history(run string) string {
	y.t.Helper()
	var text string
	const query = `select coalesce(string_agg(concat_ws(' ', at::time(3), 'step', step, 'n', n, 'kind', kind, 'pod', pod, class, left(text, 300)), E'\n' order by at, step, n), '')
		from troupe.every_event where run_id::text = $1`
	require.NoError(y.t, y.pool.QueryRow(y.t.Context(), query, run).Scan(&text))
	return run + "\n" + text
}

// judgeTransactions checks that what embedders wrote and what the engine wrote
// in one transaction exist together (I2, I11).
func (y *yard) judgeTransactions() {
	y.t.Helper()
	const orphans = `select count(*)::int from public.orders o
		full join (select r.id::text as run from troupe.every_run r
			join troupe.workflow_definitions d using (definition) where d.name = 'tx') r on r.run = o.run
		where o.run is null or r.run is null`
	require.Zero(y.t, y.number(orphans), "rows of callers without their run, or the reverse")
	const effects = `select count(*)::int from public.effects e
		full join (select r.id::text as run
			from (select r.id from troupe.every_run r join troupe.workflow_definitions d using (definition) where d.name = 'intx' offset 0) r,
				lateral (select t.state from troupe.every_task t where t.run_id = r.id and t.step = 0 offset 0) t
			where t.state = 'completed') t on t.run = e.run
		where e.run is null or t.run is null`
	require.Zero(y.t, y.number(effects), "effects of steps with InTx without their completion, or the reverse")
}

// leader returns the name of the pod that leads, "" while none does.
func (y *yard) leader() string {
	var name string
	err := y.pool.QueryRow(y.t.Context(), `select p.name from troupe.leader_epoch l join troupe.pods p on p.id = l.holder
		where exists (select from pg_locks k join pg_database d on d.oid = k.database
			where k.locktype = 'advisory' and k.granted and d.datname = current_database())`).Scan(&name)
	if err != nil {
		return ""
	}
	return name
}

// epoch returns the leader's epoch.
func (y *yard) epoch() int { return y.number(`select epoch::int from troupe.leader_epoch`) }

// warm waits for a leader and for some of the load, so that a fault meets pods
// that are busy.
func (y *yard) warm() {
	y.t.Helper()
	y.until("a pod leads", patience, func() bool { return y.leader() != "" })
	y.until("runs of the load have ended", patience, func() bool {
		return y.number(`select count(*)::int from troupe.every_run where state = 'completed'`) >= 50
	})
}

// databaseNow is the database's time. A database that is away for a moment is
// waited for.
func (y *yard) databaseNow() (at time.Time) {
	y.t.Helper()
	y.eventually("the database tells its time", func() bool {
		return y.pool.QueryRow(y.t.Context(), `select clock_timestamp()`).Scan(&at) == nil
	})
	return at
}

// holders returns which pods have begun which of the runs.
func (y *yard) holders(ids []string) map[string][]string {
	y.t.Helper()
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	held := map[string][]string{}
	for _, e := range readLedgers(y.t, y.dir) {
		if e.what == "begun" && wanted[e.run] {
			name := strings.TrimSuffix(e.ledger[strings.Index(e.ledger, "-")+1:], ".ledger")
			held[name] = append(held[name], e.run)
		}
	}
	return held
}

// judgeTables checks every invariant that the tables alone can show, and that
// nothing is left behind on the server.
func (y *yard) judgeTables() {
	y.t.Helper()
	store, err := postgres.Open(y.t.Context(), postgres.Options{Pool: y.pool})
	require.NoError(y.t, err)
	defer store.Close()
	tables, err := store.Snapshot(y.t.Context())
	require.NoError(y.t, err)
	require.Empty(y.t, snapshot.Check(tables))
	require.Empty(y.t, snapshot.CheckTimersNeverEarly(tables))
	const deadlocks = `select deadlocks::int from pg_stat_database where datname = current_database()`
	require.Zero(y.t, y.number(deadlocks), "F32: deadlocks")
	const slots = `select count(*)::int from pg_replication_slots where database = current_database() and not active`
	require.Zero(y.t, y.number(slots), "F33: replication slots without a reader")
}
