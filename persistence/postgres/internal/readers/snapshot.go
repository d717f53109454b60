package readers

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// Snapshot reads everything the store keeps about runs, at one instant, for
// snapshot.Check. It holds all of it in memory: for tests and for doctors.
func (s *Reader) Snapshot(ctx context.Context) (snapshot.Tables, error) {
	var t snapshot.Tables
	err := pgx.BeginTxFunc(ctx, s.User, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		r := &reader{ctx: ctx, s: s, schema: s.Quoted(), tx: tx}
		r.runs(&t)
		r.queues(&t)
		r.side(&t)
		return r.err
	})
	t.Sort()
	return t, err
}

// reader reads one table after the other in a transaction; after an error it
// reads nothing more.
type reader struct {
	ctx    context.Context //nolint:containedctx // a reader does not outlive the call
	s      *Reader
	schema string // quoted
	tx     pgx.Tx
	err    error
}

// each calls use for every row, scanned into the targets.
func (r *reader) each(sql string, targets []any, use func() error) {
	if r.err != nil {
		return
	}
	rows, err := r.tx.Query(r.ctx, strings.ReplaceAll(sql, "{schema}", r.schema))
	if err == nil {
		_, err = pgx.ForEachRow(rows, targets, use)
	}
	r.err = err
}

func (r *reader) runs(t *snapshot.Tables) {
	byID := map[workflow.RunID]*snapshot.Run{}
	var runs []pgsql.RunRow
	rows, err := r.tx.Query(r.ctx, strings.ReplaceAll(`select r.id, r.definition, r.group_id, r.queue, r.state, r.remaining, r.events,
		r.slow, r.canceling, r.failing, r.unhandled, r.cut, r.handler_made, r.failed_step, r.tenant, coalesce(r.dynamic_count, 0), coalesce(r.signals, 0),
		r.parent_run, coalesce(r.parent_step, 0), coalesce(r.depth, 0), coalesce(r.abandoned, false)
		from {schema}.every_run r`, "{schema}", r.schema))
	if err == nil {
		runs, err = pgx.CollectRows(rows, pgsql.ScanRun)
	}
	if err != nil {
		r.err = err
		return
	}
	for _, row := range runs {
		graph, err := r.s.Graphs.GraphOf(r.ctx, r.tx, row.Number)
		if err != nil {
			r.err = err
			return
		}
		core := row.Core
		core.Policy, core.Steps, core.HasHandler = graph.Policy, graph.Steps(), graph.OnFailure != nil
		byID[row.ID] = &snapshot.Run{ID: row.ID, Tenant: row.Tenant, Family: row.Family, Graph: graph, Expanded: row.Group != 0, Core: core}
	}
	r.tasks(byID)
	r.events(byID)
	r.maps(byID)
	r.machines(byID)
	for _, run := range byID {
		t.Runs = append(t.Runs, *run)
	}
}

func (r *reader) tasks(byID map[workflow.RunID]*snapshot.Run) {
	if r.err != nil {
		return
	}
	rows, err := r.tx.Query(r.ctx, strings.ReplaceAll(`select t.run_id, t.step, t.state, t.traits, t.flags, t.pending, t.parents,
		t.children, t.epoch, t.attempt, t.lost, t.pod, t.sleep, t.start_timeout, t.wake_at, t.class, t.error, t.handler, t.queue,
		t.declared, t.owner, t.name, coalesce(t.entry, 0)
		from {schema}.every_task t order by 1, 2`, "{schema}", r.schema))
	if err == nil {
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			t, err := pgsql.ScanTask(row)
			if graph := byID[t.Run].Graph; int(t.Step) < len(graph.Nodes) {
				t.Signal = graph.Nodes[t.Step].Signal
			}
			byID[t.Run].Tasks = append(byID[t.Run].Tasks, snapshot.Task{Task: t.Task})
			return struct{}{}, err
		})
	}
	r.err = err
	var id [16]byte
	var step int32
	var output, progress []byte
	r.each(`select t.run_id, t.step, t.output, p.progress
		from {schema}.every_task t left join {schema}.task_progress p using (run_id, step)`,
		[]any{&id, &step, &output, &progress}, func() error {
			task := byID[id].Task(step)
			task.Output, task.Progress = append([]byte(nil), output...), append([]byte(nil), progress...)
			return nil
		})
}

func (r *reader) events(byID map[workflow.RunID]*snapshot.Run) {
	if r.err != nil {
		return
	}
	type row struct {
		id    workflow.RunID
		event lifecycle.Event
	}
	rows, err := r.tx.Query(r.ctx, strings.ReplaceAll(`select e.run_id, e.step, e.n, e.kind, e.at, e.pod, e.attempt, e.delay, e.wake_at,
		e."by", e.class, e.text, null from {schema}.every_event e`, "{schema}", r.schema))
	if err != nil {
		r.err = err
		return
	}
	list, err := pgx.CollectRows(rows, func(found pgx.CollectableRow) (row, error) {
		var out row
		var err error
		out.event, err = scanEvent(prefixed{found, (*[16]byte)(&out.id)})
		return out, err
	})
	r.err = err
	for _, e := range list {
		byID[e.id].Events = append(byID[e.id].Events, e.event)
	}
}

// maps reads how far maps have come.
func (r *reader) maps(byID map[workflow.RunID]*snapshot.Run) {
	var id workflow.RunID
	var m lifecycle.Map
	r.each(`select run_id, step, at_once, allowed, items, items_left, next_item, open, failed from {schema}.maps
		union all
		select h.id, h.maps[n.i][1], h.maps[n.i][2], h.maps[n.i][3], h.maps[n.i][4], h.maps[n.i][5], h.maps[n.i][6], h.maps[n.i][7], h.maps[n.i][8]
		from {schema}.run_history h, generate_subscripts(h.maps, 1) as n (i)
		order by 1, 2`,
		[]any{(*[16]byte)(&id), &m.Step, &m.Window, &m.Allowed, &m.Items, &m.Left, &m.From, &m.Open, &m.Failed}, func() error {
			run := byID[id]
			m.Name = run.Graph.Nodes[m.Step].Name
			run.Maps = append(run.Maps, m)
			return nil
		})
}

// machines reads how far machines have come, and the inputs of what they have started.
func (r *reader) machines(byID map[workflow.RunID]*snapshot.Run) {
	var id workflow.RunID
	var m snapshot.Machine
	r.each(`select run_id, taken, version, state, base, base_version, base_state, base_started from {schema}.machines
		union all
		select h.id, h.machine[1], h.machine[2]::int, h.machine_states[1], h.machine[3], h.machine[4]::int, h.machine_states[2], h.machine[5]::int
		from {schema}.run_history h where h.machine is not null`,
		[]any{(*[16]byte)(&id), &m.Taken, &m.Version, &m.State, &m.Base, &m.BaseVersion, &m.BaseState, &m.BaseStarted}, func() error {
			own := m
			own.State, own.BaseState = append([]byte(nil), m.State...), append([]byte(nil), m.BaseState...)
			byID[id].Machine = own
			return nil
		})
	var step int32
	var input []byte
	r.each(`select i.run_id, i.item, i.payload from {schema}.map_items i join {schema}.tasks t on t.run_id = i.run_id and t.step = i.item
		where i.step = 0 and t.traits & 4096 > 0
		union all
		select h.id, h.first + u.nth::int - 1, u.input
		from {schema}.run_history h, unnest(h.inputs) with ordinality as u (input, nth) where u.input is not null`,
		[]any{(*[16]byte)(&id), &step, &input}, func() error {
			byID[id].Task(step).Item = append([]byte(nil), input...)
			return nil
		})
}

// prefixed is a row whose first column goes elsewhere.
type prefixed struct {
	pgx.CollectableRow
	first any
}

func (p prefixed) Scan(targets ...any) error {
	return p.CollectableRow.Scan(append([]any{p.first}, targets...)...)
}

func (r *reader) queues(t *snapshot.Tables) {
	var q snapshot.QueueRow
	r.each(`select n.name, q.fair_id, q.run_id, q.step, q.suspect, q.parked from (
			select queue, fair_id, run_id, step, suspect, false as parked from {schema}.ready_queue
			union all
			select queue, fair_id, run_id, step, suspect, true from {schema}.parked_tasks
		) q join {schema}.queues n using (queue)`,
		[]any{&q.Queue, &q.FairID, (*[16]byte)(&q.Task.Run), &q.Task.Step, &q.Suspect, &q.Parked}, func() error {
			t.Queue = append(t.Queue, q)
			return nil
		})
	var b snapshot.Block
	var lane int16
	r.each(`select n.name, t.tenant, g.lane, g.block from {schema}.tenant_groups g
		join {schema}.queues n using (queue) join {schema}.tenants t using (group_id)`,
		[]any{&b.Queue, &b.Tenant, &lane, &b.Block}, func() error {
			b.Lane = lifecycle.Lane(lane)
			t.Blocks = append(t.Blocks, b)
			return nil
		})
	var f snapshot.Frontier
	r.each(`select n.name, f.block from {schema}.frontiers f join {schema}.queues n using (queue)`,
		[]any{&f.Queue, &f.Block}, func() error {
			t.Frontiers = append(t.Frontiers, f)
			return nil
		})
}

func (r *reader) side(t *snapshot.Tables) {
	var timer snapshot.Timer
	var kind int16
	var at time.Time
	r.each(`select run_id, step, kind, wake_at, epoch from {schema}.durable_timers`,
		[]any{(*[16]byte)(&timer.Run), &timer.Step, &kind, &at, &timer.Epoch}, func() error {
			timer.Kind, timer.At = lifecycle.TimerKind(kind), at
			t.Timers = append(t.Timers, timer)
			return nil
		})
	var c snapshot.Claim
	r.each(`select c.pod, c.claim, g.run_id, g.step, g.epoch
		from {schema}.claims c, unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch)`,
		[]any{&c.Pod, (*[16]byte)(&c.ID), (*[16]byte)(&c.Task.Run), &c.Task.Step, &c.Epoch}, func() error {
			t.Claims = append(t.Claims, c)
			return nil
		})
	var k snapshot.Key
	r.each(`select tenant, workflow, key, run_id from {schema}.run_keys`,
		[]any{&k.Tenant, &k.Workflow, &k.Key, (*[16]byte)(&k.Run)}, func() error {
			t.Keys = append(t.Keys, k)
			return nil
		})
	var id [16]byte
	var signal bool
	r.each(`select run_id, coalesce(signal, false) from {schema}.intake`, []any{&id, &signal}, func() error {
		if signal {
			t.Signaled = append(t.Signaled, id)
		} else {
			t.Intake = append(t.Intake, id)
		}
		return nil
	})
	var e snapshot.Entry
	r.each(`select run_id, id, coalesce(n, 0), name, coalesce(taken_by, -1), payload from {schema}.inbox`,
		[]any{(*[16]byte)(&e.Run), &e.ID, &e.N, &e.Name, &e.Step, &e.Payload}, func() error {
			entry := e
			entry.Payload = append([]byte(nil), e.Payload...)
			t.Inbox = append(t.Inbox, entry)
			return nil
		})
	var p snapshot.Pod
	r.each(`select id, dead from {schema}.pods`, []any{&p.ID, &p.Dead}, func() error {
		t.Pods = append(t.Pods, p)
		return nil
	})
	var l snapshot.DeadLetter
	var reason int16
	var as, class, text *string
	r.each(`select run_id, step, reason, class, error, attempts, lost, requeues, requeued_as::text from {schema}.dead_letters`,
		[]any{(*[16]byte)(&l.Task.Run), &l.Task.Step, &reason, &class, &text, &l.Attempts, &l.Lost, &l.Requeues, &as}, func() error {
			l.Reason, l.Class, l.Error, l.RequeuedAs = lifecycle.DeadReason(reason), pgsql.OrZero(class), pgsql.OrZero(text), workflow.RunID{}
			if as == nil {
				t.Dead = append(t.Dead, l)
				return nil
			}
			var err error
			l.RequeuedAs, err = workflow.ParseRunID(*as)
			t.Dead = append(t.Dead, l)
			return err
		})
	r.each(`select epoch from {schema}.leader_epoch`, []any{&t.Epoch}, func() error { return nil })
}
