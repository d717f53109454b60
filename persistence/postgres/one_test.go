package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// twins are two stores to which the same happens: in the first by the statements
// for one run and for first tasks, in the second by those for everything.
type twins struct {
	t        *testing.T
	one, all *kit
	pod      int64
}

func newTwins(t *testing.T, graphs ...*workflow.Graph) *twins {
	t.Helper()
	w := &twins{t: t, one: newKit(schemas(t)(t), graphs...), all: newKit(schemas(t)(t), graphs...)}
	first := w.one.draft(graphs[0], "known", 1) // a tenant that is not known yet takes another way
	for _, k := range []*kit{w.one, w.all} {
		w.pod = k.join(time.Hour)
		k.ask(first...)
		k.finish(w.pod)
	}
	for queue := range int16(10) {
		w.all.store.firsts.queues[queue] = shortcutRest{left: 1 << 30}
		w.all.store.takes.queues[queue] = shortcutRest{left: 1 << 30}
		w.all.store.fews.queues[queue] = shortcutRest{left: 1 << 30}
	}
	return w
}

// trigger stores runs one by one in the first store, and all in one batch in the
// second.
func (w *twins) trigger(list []persistence.Trigger) {
	w.t.Helper()
	for i := range list {
		require.Equal(w.t, persistence.Triggered, w.one.ask(list[i])[0].Result)
	}
	for _, answer := range w.all.ask(list...) {
		require.Equal(w.t, persistence.Triggered, answer.Result)
	}
}

// requireSame compares all rows of both, of instants only whether they are set.
func (w *twins) requireSame() {
	w.t.Helper()
	for _, table := range []string{
		"workflow_runs", "tasks", "ready_queue", "claims", "task_events", "tenant_groups", "frontiers", "durable_timers",
	} {
		require.Equal(w.t, w.all.rowsOf(table), w.one.rowsOf(table), "%s", table)
	}
	w.one.requireSound()
}

// rowsOf returns a table as text.
func (k *kit) rowsOf(table string) []string {
	k.t.Helper()
	rows, err := k.user.Query(k.ctx, `select column_name || '', data_type || '' from information_schema.columns
		where table_schema = $1 and table_name = $2`, strings.Trim(k.schema, "\""), table)
	require.NoError(k.t, err)
	var columns []string
	var name, kind string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		if strings.HasPrefix(kind, "timestamp") {
			name = fmt.Sprintf("%s is not null as %s", name, name)
		}
		columns = append(columns, name)
		return nil
	})
	require.NoError(k.t, err)
	require.NotEmpty(k.t, columns, table)
	rows, err = k.user.Query(k.ctx, fmt.Sprintf("select to_jsonb(r)::text from (select %s from %s.%s) r order by 1",
		strings.Join(columns, ", "), k.schema, table))
	require.NoError(k.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(k.t, err)
	return list
}

// claim claims in both.
func (w *twins) claim(limit int) []persistence.Grant {
	w.t.Helper()
	request := w.one.request(w.pod, limit)
	w.one.store.firsts.hit(1) // tried again
	var grants [][]persistence.Grant
	for _, k := range []*kit{w.one, w.all} {
		out, err := k.store.ClaimTasks(k.ctx, request)
		require.NoError(w.t, err)
		grants = append(grants, out.Grants)
	}
	w.requireSame()
	return w.same(grants[0], grants[1])
}

// record completes tasks in both, and returns what was granted by that.
func (w *twins) record(change func(*persistence.Record), grants ...persistence.Grant) []persistence.Grant {
	w.t.Helper()
	record := w.one.completion(w.pod, grants...)
	record.Limit, record.Spare = 10, 10
	record.Handlers, record.Queues = w.one.handlers, []string{defaultQueue}
	change(&record)
	w.one.store.fews.hit(1) // tried again
	var got []persistence.Recorded
	for _, k := range []*kit{w.one, w.all} {
		out, err := k.store.RecordTransitions(k.ctx, record)
		require.NoError(w.t, err)
		out.Now, out.Wake.NextTimer = time.Time{}, time.Time{}
		got = append(got, out)
	}
	granted := w.same(got[0].Grants, got[1].Grants)
	got[0].Grants, got[1].Grants = nil, nil
	require.Equal(w.t, got[1], got[0])
	w.requireSame()
	return granted
}

// same requires what the two stores granted to be the same but for when, and
// returns it.
func (w *twins) same(one, all []persistence.Grant) []persistence.Grant {
	w.t.Helper()
	for _, list := range [][]persistence.Grant{one, all} {
		for i := range list {
			require.False(w.t, list[i].TriggeredAt.IsZero() || list[i].QueuedAt.IsZero() || list[i].StartedAt.IsZero())
			list[i].TriggeredAt, list[i].QueuedAt, list[i].StartedAt = time.Time{}, time.Time{}, time.Time{}
		}
	}
	require.Equal(w.t, all, one)
	return one
}

// The statements for one run and for first tasks do what those for everything do.
func TestOneIsAsMany(t *testing.T) {
	t.Parallel()
	for _, g := range storetest.Graphs() {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, storetest.Single(), g)
			list := w.one.draft(g, "known", 3)
			list[0].Labels = map[string]string{"a": "b"}
			list[1].TraceContext, list[1].Input = "00-1-2-3", nil
			list[2].Origin = "schedule"
			w.trigger(list)
			w.requireSame()
			for {
				grants := w.claim(2)
				if len(grants) == 0 {
					break
				}
				w.one.complete(w.pod, grants...)
				w.all.complete(w.pod, grants...)
				w.requireSame()
			}
		})
	}
}

// A first task that is granted with its run is so by either statement.
func TestOneIsTakenAsMany(t *testing.T) {
	t.Parallel()
	for _, g := range storetest.Graphs() {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, storetest.Single(), g)
			for _, trigger := range w.one.draft(g, "known", 2) {
				take := w.one.taking()
				take.Queues = append(take.Queues, "elsewhere")
				var grants [][]persistence.Grant
				for _, k := range []*kit{w.one, w.all} {
					out, err := k.store.TriggerRuns(k.ctx, []persistence.Trigger{trigger}, take)
					require.NoError(t, err)
					require.Equal(t, persistence.Triggered, out.Answers[0].Result)
					grants = append(grants, out.Grants)
				}
				w.same(grants[0], grants[1])
				w.requireSame()
			}
		})
	}
}

// What stands in the way of a grant at once sends the first task into the queue.
func TestOneIsNotTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(k *kit, pod int64, take *persistence.GrantRequest)
	}{
		{"somebody waits", func(k *kit, _ int64, _ *persistence.GrantRequest) { k.start(storetest.Single(), "known", 1) }},
		{"the pod is dead", func(k *kit, pod int64, _ *persistence.GrantRequest) {
			k.exec("update {schema}.pods set dead = true where id = $1", pod)
		}},
		{"the pod's lease has run out", func(k *kit, pod int64, _ *persistence.GrantRequest) {
			k.exec("update {schema}.pods set expires_at = clock_timestamp() where id = $1", pod)
		}},
		{"the claim exists", func(k *kit, pod int64, take *persistence.GrantRequest) {
			k.exec("insert into {schema}.claims (pod, claim, runs, steps, epochs) values ($1, $2, '{}', '{}', '{}')", pod, [16]byte(take.Claim))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, storetest.Single())
			k := w.one
			take := k.taking()
			c.set(k, w.pod, &take)
			before := value[int](k.database, "select count(*)::int from {schema}.ready_queue")
			out, err := k.store.TriggerRuns(k.ctx, k.draft(storetest.Single(), "known", 1), take)
			require.NoError(t, err)
			require.Equal(t, persistence.Triggered, out.Answers[0].Result)
			require.Empty(t, out.Grants)
			require.Equal(t, before+1, value[int](k.database, "select count(*)::int from {schema}.ready_queue"))
			require.False(t, k.store.takes.worthTrying(1), "not tried again at once")
		})
	}
}

// What is no first start is left to the statement for everything: suspects, tasks
// that somebody holds or that are no longer queued.
func TestFirstTasksOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		set     func(k *kit, id workflow.RunID)
		granted int
	}{
		{"a suspect", func(k *kit, id workflow.RunID) {
			k.exec("update {schema}.ready_queue set suspect = true where run_id = $1", id)
		}, 3},
		{"two suspects", func(k *kit, _ workflow.RunID) {
			k.exec("update {schema}.ready_queue set suspect = true where fair_id < (select max(fair_id) from {schema}.ready_queue)")
		}, 2},
		{"a task that is gone", func(k *kit, id workflow.RunID) {
			k.exec("delete from {schema}.tasks where run_id = $1", id)
		}, 2},
		{"a task that ended", func(k *kit, id workflow.RunID) {
			k.exec("update {schema}.tasks set state = 13, finished_at = clock_timestamp() where run_id = $1", id)
		}, 2},
		{"a task that somebody holds", func(k *kit, id workflow.RunID) {
			k.hold("select 1 from {schema}.tasks where run_id = $1 for update", id)
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(schemas(t)(t), storetest.Single())
			pod := k.join(time.Hour)
			ids := k.start(storetest.Single(), "known", 3)
			c.set(k, ids[1])
			require.Len(t, k.claim(pod, 10), c.granted)
			require.False(t, k.store.firsts.worthTrying(1), "not tried again at once")
		})
	}
	t.Run("a suspect that may not be had", func(t *testing.T) {
		t.Parallel()
		k := newKit(schemas(t)(t), storetest.Single())
		pod := k.join(time.Hour)
		ids := k.start(storetest.Single(), "known", 3)
		k.exec("update {schema}.ready_queue set suspect = true where run_id = $1", ids[1])
		request := k.request(pod, 10)
		request.Suspects = false
		out, err := k.store.ClaimTasks(k.ctx, request)
		require.NoError(t, err)
		require.Len(t, out.Grants, 2)
		require.True(t, k.store.firsts.worthTrying(1), "it is not in the way")
	})
	t.Run("one that was lost", func(t *testing.T) {
		t.Parallel()
		k := newKit(schemas(t)(t), storetest.Single())
		pod := k.join(time.Hour)
		k.start(storetest.Single(), "known", 1)
		grants := k.claim(pod, 1)
		record := k.completion(pod, grants...)
		record.Transitions[0].Report, record.Transitions[0].Output = lifecycle.Released, nil
		k.send(record)
		again := k.claim(pod, 1)
		require.Len(t, again, 1)
		require.Greater(t, again[0].Epoch, grants[0].Epoch)
	})
}

// The place of one run is that of the first of many, whatever the tenant's counter
// and the frontier say.
func TestOneStandsWhereManyDo(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"no counter":         "delete from {schema}.tenant_groups",
		"the frontier ahead": "update {schema}.frontiers set block = 1000",
		"the counter ahead":  "update {schema}.tenant_groups set block = 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, storetest.Single())
			for _, k := range []*kit{w.one, w.all} {
				k.exec(sql)
			}
			w.trigger(w.one.draft(storetest.Single(), "known", 2))
			w.requireSame()
			w.claim(2)
		})
	}
}

// A failure handler gets to see what failed, though it has no parents and starts
// for the first time.
func TestAFailureHandlerIsNoFirstTask(t *testing.T) {
	t.Parallel()
	g := storetest.Graph(workflow.Definition{
		Name: "rescued", Steps: []workflow.Step{{Name: "bad"}}, OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
	})
	k := newKit(schemas(t)(t), g)
	pod := k.join(time.Hour)
	k.start(g, "known", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	failed := &record.Transitions[0]
	failed.Report, failed.Class, failed.Error, failed.Output = lifecycle.Errored, "test", "it broke", nil
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	grants := k.claim(pod, 1)
	require.Len(t, grants, 1)
	require.Equal(t, "rescue", grants[0].Step)
	require.Len(t, grants[0].Failed, 1)
	require.Equal(t, "it broke", grants[0].Failed[0].Error)
}
