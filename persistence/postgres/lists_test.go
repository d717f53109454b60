package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// listed is a row of a view, by column.
type listed map[string]any

// list returns rows of a view, all columns of them.
func (d *database) list(sql string, args ...any) []listed {
	d.t.Helper()
	rows, err := d.user.Query(d.t.Context(), strings.ReplaceAll(sql, "{schema}", d.schema), args...)
	require.NoError(d.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowToMap)
	require.NoError(d.t, err)
	list := make([]listed, len(found))
	for i := range found {
		list[i] = found[i]
	}
	return list
}

// orZero is a value of a row, or the zero value for null.
func orZero[T any](row listed, column string) T {
	v, _ := row[column].(T)
	return v
}

// records are runs of all kinds: one that completed, one with a step that failed while
// another waited for its next attempt, one that was canceled, one at work, and one that has not begun.
type records struct {
	*annals
	runs []workflow.RunID
}

func newRecords(t *testing.T) *records {
	t.Helper()
	g, nap := storetest.Diamond(), storetest.Nap(time.Hour)
	a := &annals{fixture: newFixture(newSimulatedDatabase(schemas(t)(t)).database, g, nap)}
	a.at(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var err error
	a.epoch, err = a.store.BumpEpoch(a.ctx, 1)
	require.NoError(t, err)
	r := &records{annals: a}
	pod := a.join(100 * time.Hour)
	begin := func(g *workflow.Graph, change func(*persistence.Trigger)) workflow.RunID {
		draft := a.draft(g, "a", 1)
		change(&draft[0])
		require.Equal(t, persistence.Triggered, a.ask(draft...)[0].Result)
		a.pass(time.Second)
		r.runs = append(r.runs, draft[0].Run)
		return draft[0].Run
	}
	begin(g, func(d *persistence.Trigger) {
		d.Labels, d.Key, d.Queue = map[string]string{"region": "eu"}, "key", "default"
	})
	a.finish(pod)
	begin(g, func(d *persistence.Trigger) { d.Input = []byte("\x00\xff") })
	r.fail(pod)
	canceled := begin(g, func(d *persistence.Trigger) { d.Labels = map[string]string{"region": "us"} })
	a.cancel(persistence.Cancel{Run: canceled, Tenant: "a", Reason: "by hand", By: "api"})
	begin(nap, func(*persistence.Trigger) {})
	a.finish(pod)
	begin(g, func(*persistence.Trigger) {})
	a.claim(pod, 1)
	begin(g, func(d *persistence.Trigger) { d.At = a.clock.Add(time.Hour) })
	return r
}

// fail has the first step of the run at work complete, and the next ones fail.
func (r *records) fail(pod int64) {
	r.t.Helper()
	r.complete(pod, r.claim(pod, 1)...)
	grants := r.claim(pod, 2)
	record := r.completion(pod, grants...)
	record.Transitions[0].Report, record.Transitions[0].Retry, record.Transitions[0].RetryIn = lifecycle.Errored, true, time.Second
	record.Transitions[1].Report = lifecycle.Errored
	for i := range record.Transitions {
		record.Transitions[i].Output, record.Transitions[i].Class, record.Transitions[i].Error = nil, "test", "it broke"
	}
	r.send(record)
}

// What the views show is what readers of the engine see, of runs at work and in history,
// whether or not the pods are there.
func TestListsShowWhatReadersSee(t *testing.T) {
	t.Parallel()
	r := newRecords(t)
	r.requireLists()
	states := r.states()
	require.Subset(t, states, []string{"completed", "failed", "canceled", "running", "pending"})
	r.archive()
	require.Positive(t, value[int](r.database, `select count(*) from {schema}.run_history`))
	r.requireLists()
	require.Equal(t, states, r.states())
	for _, pod := range value[[]int64](r.database, `select array_agg(id) from {schema}.pods`) {
		_, err := r.store.LeavePod(r.ctx, pod)
		require.NoError(t, err)
	}
	r.requireLists()
	require.Equal(t, []string{"pod"}, value[[]string](r.database, `select array_agg(distinct pod) from {schema}.event_list where kind = 'started'`))
	r.requireNothingLeftOut()
}

func (r *records) states() []string {
	return value[[]string](r.database, `select array_agg(state order by run) from {schema}.run_list`)
}

// requireNothingLeftOut requires that a list has each row once.
func (r *records) requireNothingLeftOut() {
	r.t.Helper()
	for view, of := range map[string]string{"run_list": "every_run", "step_list": "every_task", "event_list": "every_event", "dead_letter_list": "dead_letters"} {
		require.Equal(r.t, value[int](r.database, "select count(*) from {schema}."+of), value[int](r.database, "select count(*) from {schema}."+view), view)
	}
}

func (r *records) requireLists() {
	r.t.Helper()
	for _, id := range r.runs {
		r.requireRun(id)
		r.requireSteps(id)
		r.requireEvents(id)
	}
	r.requireLetters()
}

func (r *records) requireRun(id workflow.RunID) {
	r.t.Helper()
	want, err := r.store.Run(r.ctx, "", id)
	require.NoError(r.t, err)
	rows := r.list(`select * from {schema}.run_list where run = $1`, id)
	require.Len(r.t, rows, 1)
	row := rows[0]
	got := persistence.RunRow{
		ID: orZero[[16]byte](row, "run"), Workflow: orZero[string](row, "workflow"), Definition: want.Definition, Tenant: orZero[string](row, "tenant"),
		Key: orZero[string](row, "key"), Canceling: orZero[bool](row, "canceling"), CancelReason: orZero[string](row, "cancel_reason"),
		Origin: orZero[string](row, "origin"), CreatedAt: orZero[time.Time](row, "created_at"), StartedAt: orZero[time.Time](row, "started_at"),
		FinishedAt: orZero[time.Time](row, "finished_at"), Output: want.Output, HasOutput: want.HasOutput,
		FailedStep: orZero[string](row, "failed_step"), Class: orZero[string](row, "class"), Error: orZero[string](row, "error"),
	}
	require.NoError(r.t, got.State.Scan(row["state"]))
	for name, text := range orZero[map[string]any](row, "labels") {
		if got.Labels == nil {
			got.Labels = map[string]string{}
		}
		got.Labels[name] = fmt.Sprint(text)
	}
	require.Equal(r.t, want, got)
	require.Equal(r.t, decoded(want.Output), row["output_json"])
	input, err := persistence.Payload(r.ctx, r.store, workflow.TaskID{Run: id, Step: lifecycle.RunStep})
	require.NoError(r.t, err)
	require.Equal(r.t, decoded(input), row["input_json"])
	require.EqualValues(r.t, len(input), row["input_bytes"])
	require.Equal(r.t, "default", row["queue"])
}

// decoded is a payload as pgx decodes jsonb; nil: it is no JSON.
func decoded(payload []byte) any {
	var v any
	if json.Unmarshal(payload, &v) != nil {
		return nil
	}
	return v
}

func (r *records) requireSteps(id workflow.RunID) {
	r.t.Helper()
	tasks, err := r.store.Tasks(r.ctx, "", id)
	require.NoError(r.t, err)
	rows := r.list(`select * from {schema}.step_list where run = $1`, id)
	require.Len(r.t, rows, len(tasks))
	byName := map[string]listed{}
	for _, row := range rows {
		byName[orZero[string](row, "step")] = row
	}
	for _, want := range tasks {
		row := byName[want.Name]
		got := persistence.TaskRow{
			Step: want.Step, Name: orZero[string](row, "step"), Epoch: want.Epoch, Attempt: orZero[int32](row, "attempt"), Lost: orZero[int32](row, "losses"),
			Pod: want.Pod, PodName: orZero[string](row, "pod"), Output: want.Output, OutputSize: want.OutputSize, Class: orZero[string](row, "class"), Error: orZero[string](row, "error"),
			WakeAt: orZero[time.Time](row, "wake_at"), StartedAt: orZero[time.Time](row, "started_at"), FinishedAt: orZero[time.Time](row, "finished_at"),
			Parked: want.Parked,
		}
		require.NoError(r.t, got.State.Scan(row["state"]))
		require.Equal(r.t, want, got)
		require.Equal(r.t, decoded(want.Output), row["output_json"])
		require.Equal(r.t, "a", row["tenant"])
		require.NotEmpty(r.t, row["workflow"])
	}
}

func (r *records) requireEvents(id workflow.RunID) {
	r.t.Helper()
	events, err := r.store.Events(r.ctx, "", id, persistence.EventPosition{}, 0)
	require.NoError(r.t, err)
	names, err := r.store.StepNames(r.ctx, "", id)
	require.NoError(r.t, err)
	type key struct {
		step string
		n    int64
	}
	rows := map[key]listed{}
	for _, row := range r.list(`select * from {schema}.event_list where run = $1`, id) {
		rows[key{orZero[string](row, "step"), orZero[int64](row, "n")}] = row
	}
	require.Len(r.t, rows, len(events))
	for _, want := range events {
		name := ""
		if want.Step >= 0 {
			name = names[want.Step]
		}
		row := rows[key{name, want.N}]
		delay, err := time.ParseDuration(value[string](r.database, `select extract(epoch from coalesce($1::interval, '0')) || 's'`, row["delay"]))
		require.NoError(r.t, err)
		got := lifecycle.Event{
			Step: want.Step, N: want.N, At: orZero[time.Time](row, "at"), Pod: orZero[int64](row, "pod_number"), PodName: orZero[string](row, "pod"),
			Attempt: orZero[int32](row, "attempt"), Delay: delay, WakeAt: orZero[time.Time](row, "wake_at"), By: orZero[string](row, "by"),
			Class: orZero[string](row, "class"), Text: orZero[string](row, "text"),
		}
		require.NoError(r.t, got.Kind.Scan(row["kind"]))
		require.Equal(r.t, want, got)
	}
}

func (r *records) requireLetters() {
	r.t.Helper()
	letters, err := r.store.ListDeadLetters(r.ctx, persistence.DeadFilter{})
	require.NoError(r.t, err)
	require.NotEmpty(r.t, letters)
	rows := r.list(`select * from {schema}.dead_letter_list order by id`)
	require.Len(r.t, rows, len(letters))
	for i := range letters {
		want, row := letters[i], rows[i]
		got := persistence.DeadLetter{
			Task: want.Task, Definition: want.Definition, Handler: want.Handler, Queue: want.Queue, Workflow: orZero[string](row, "workflow"), Step: orZero[string](row, "step"),
			Tenant: orZero[string](row, "tenant"), Class: orZero[string](row, "class"), Error: orZero[string](row, "error"),
			Attempts: orZero[int32](row, "attempts"), Lost: orZero[int32](row, "losses"), CreatedAt: orZero[time.Time](row, "created_at"),
			StartedAt: orZero[time.Time](row, "started_at"), DiedAt: orZero[time.Time](row, "died_at"), Requeues: orZero[int32](row, "requeues"),
			RequeuedAt: orZero[time.Time](row, "requeued_at"), RequeuedAs: orZero[[16]byte](row, "requeued_as"),
		}
		require.NoError(r.t, got.Reason.Scan(row["reason"]))
		require.Equal(r.t, want, got)
		require.Equal(r.t, fmt.Sprintf("%v/%d", want.Task.Run, want.Task.Step), row["id"])
	}
}

// The input of a dead letter is there as long as the letter, and what is no JSON is null.
func TestListsDecodeWhatIsJSON(t *testing.T) {
	t.Parallel()
	d := schemas(t)(t)
	for payload, want := range map[string]any{
		`{"a": [1, "ü"]}`: map[string]any{"a": []any{1.0, "ü"}}, `7`: 7.0, `"x"`: "x", `null`: nil,
		``: nil, `{"a":`: nil, "\"\xff\"": nil, `"\u0000"`: nil, "\x00": nil, strings.Repeat("[", 100_000): nil,
		`"` + strings.Repeat("x", 1<<20-2) + `"`: strings.Repeat("x", 1<<20-2), `"` + strings.Repeat("x", 1<<20-1) + `"`: nil,
	} {
		require.Equal(t, want, value[any](d, `select {schema}.json_of($1)`, []byte(payload)), "%.20s", payload)
	}
	require.True(t, value[bool](d, `select {schema}.json_of(null) is null`))
	require.True(t, value[bool](d, `select {schema}.json_of('null') is not null`), "null is JSON")
}

// A name of a state, a kind or a reason is the same in SQL as in Go, for every code.
func TestNamesInSQLAreThoseOfGo(t *testing.T) {
	t.Parallel()
	d := schemas(t)(t)
	for code := range 256 {
		require.Equal(t, lifecycle.State(code).String(), value[string](d, `select {schema}.state_name($1)`, code))
		require.Equal(t, lifecycle.EventKind(code).String(), value[string](d, `select {schema}.event_name($1)`, code))
		require.Equal(t, lifecycle.DeadReason(code).String(), value[string](d, `select {schema}.reason_name($1)`, code))
	}
}

// Ids are uuids and states are text for pgx and for database/sql, both ways.
func TestRunIDsAndStatesAreArgumentsAndResults(t *testing.T) {
	t.Parallel()
	r := newRecords(t)
	db := stdlib.OpenDBFromPool(r.user)
	defer func() { require.NoError(t, db.Close()) }()
	const sql = `select run, state, origin_run from {schema}.run_list where run = $1::uuid and state = $2`
	query := strings.ReplaceAll(sql, "{schema}", r.schema)
	for name, ask := range map[string]func(into []any, args ...any) error{
		"pgx":          func(into []any, args ...any) error { return r.user.QueryRow(r.ctx, query, args...).Scan(into...) },
		"database/sql": func(into []any, args ...any) error { return db.QueryRowContext(r.ctx, query, args...).Scan(into...) },
		"pgx, simple protocol": func(into []any, args ...any) error {
			return r.user.QueryRow(r.ctx, query, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(into...)
		},
	} {
		run, origin := workflow.RunID{}, workflow.RunID{1}
		var state lifecycle.State
		require.NoError(t, ask([]any{&run, &state, &origin}, r.runs[0], lifecycle.Completed), name)
		require.Equal(t, r.runs[0], run, name)
		require.Equal(t, lifecycle.Completed, state, name)
		require.Zero(t, origin, "%s: null is no run", name)
	}
	var null bool
	require.NoError(t, r.user.QueryRow(r.ctx, `select $1::uuid is null`, workflow.RunID{}).Scan(&null))
	require.True(t, null)
	require.NoError(t, db.QueryRowContext(r.ctx, `select $1::uuid is null`, workflow.RunID{}).Scan(&null))
	require.True(t, null)
	many := value[[]workflow.RunID](r.database, `select array_agg(run order by run) from {schema}.run_list where run = any($1)`, r.runs)
	want := slices.SortedFunc(slices.Values(r.runs), compareRuns)
	require.Equal(t, want, many)
	kinds := value[[]lifecycle.EventKind](r.database, `select array_agg(distinct kind) from {schema}.event_list where kind = any($1)`,
		[]lifecycle.EventKind{lifecycle.EventRunCompleted, lifecycle.EventRunFailed})
	require.Len(t, kinds, 2)
}

// Names of the latest starts of pods are kept, and no more.
func TestNamesOfPodsAreKeptUpToABound(t *testing.T) {
	t.Parallel()
	d := schemas(t)(t)
	k := newFixture(d, storetest.Single())
	d.exec(`insert into {schema}.pod_names (pod, name, since)
		select 1000000 + i, 'old', now() - interval '1 year' + i * interval '1 second' from generate_series(1, $1::integer) i`, persistence.PodNamesMax)
	pod := k.join(time.Hour)
	require.Equal(t, persistence.PodNamesMax, value[int](d, `select count(*) from {schema}.pod_names`))
	require.Equal(t, "pod", value[string](d, `select name from {schema}.pod_names where pod = $1`, pod))
	require.Equal(t, 1_000_002, value[int](d, `select min(pod) from {schema}.pod_names where name = 'old'`))
}

// A span is dropped though the views show it, as soon as no transaction reads it.
func TestListsKeepNoSpan(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(100 * time.Hour)
	a.start(g, "a", 2)
	a.finish(pod)
	short := persistence.Retention{time.Minute, time.Minute, time.Minute, time.Minute}
	require.Equal(t, 2, a.archived(a.epoch, persistence.Archive{Retention: short}).Count)
	a.pass(48 * time.Hour)
	reader, err := a.user.Begin(a.ctx)
	require.NoError(t, err)
	var count int
	require.NoError(t, reader.QueryRow(a.ctx, "select count(*) from "+a.schema+".run_list").Scan(&count))
	require.Equal(t, 2, count)
	out, err := a.store.DropHistory(a.ctx, a.epoch, short, a.clock)
	require.NoError(t, err)
	require.Zero(t, out.Spans, "a transaction reads it")
	require.NoError(t, reader.Rollback(context.WithoutCancel(a.ctx)))
	out, err = a.store.DropHistory(a.ctx, a.epoch, short, a.clock)
	require.NoError(t, err)
	require.Equal(t, 1, out.Spans)
	require.Zero(t, value[int](a.database, `select count(*) from {schema}.run_list`))
}
