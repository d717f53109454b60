package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// annals is a database with a clock of its own and a leader.
type annals struct {
	*fixture
	clock time.Time
	epoch int64
}

func newAnnals(t *testing.T) (*annals, *workflow.Graph) {
	t.Helper()
	g := storetest.Diamond()
	a := &annals{fixture: newFixture(newSimulatedDatabase(schemas(t)(t)).database, g)}
	a.at(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var err error
	a.epoch, err = a.store.BumpEpoch(a.ctx, 1)
	require.NoError(t, err)
	return a, g
}

func (a *annals) at(now time.Time) {
	a.t.Helper()
	a.clock = now
	a.exec("update {schema}.simulated_clock set now = $1", now)
}

func (a *annals) pass(d time.Duration) { a.at(a.clock.Add(d)) }

// rotate does what is to be done about events, an hour of which is a span.
func (a *annals) rotate() (sum persistence.Rotated) {
	a.t.Helper()
	for {
		out, err := a.store.RotateEvents(a.ctx, a.epoch, time.Hour)
		require.NoError(a.t, err)
		sum.Spans, sum.Kept = sum.Spans+out.Spans, sum.Kept+out.Kept
		if !out.More {
			return sum
		}
	}
}

func (a *annals) archive() int {
	a.t.Helper()
	out := a.archived(a.epoch, persistence.Archive{})
	return out.Count
}

func (a *annals) tables() snapshot.Tables {
	a.t.Helper()
	tables, err := a.store.Snapshot(a.ctx)
	require.NoError(a.t, err)
	tables.Claims, tables.Pods = nil, nil
	return tables
}

// Events of open runs outlive their span; once the others are archived, the span is dropped
// as a whole.
func TestASpanOfEventsIsDroppedWhenUnused(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	require.Zero(t, a.rotate())
	a.pass(3 * time.Second)
	pod := a.join(100 * time.Hour)
	a.start(g, "a", 3)
	a.finish(pod)
	require.Equal(t, 3, value[int](a.database, `select count(*) from {schema}.workflow_runs where state = 10`))
	a.start(g, "a", 2)
	a.complete(pod, a.claim(pod, 2)...)
	require.Equal(t, 3, a.archive())
	before := a.tables()

	a.pass(50 * time.Minute)
	require.Zero(t, a.rotate(), "the next span is made ahead")
	require.Equal(t, 2, value[int](a.database, `select count(*) from {schema}.spans where class is null`))
	a.pass(15 * time.Minute)
	living := value[int](a.database, `select count(*) from {schema}.task_events e join {schema}.workflow_runs r on r.id = e.run_id`)
	require.Positive(t, living)
	require.Equal(t, persistence.Rotated{Spans: 1, Kept: living}, a.rotate())
	require.Zero(t, value[int](a.database, `select count(*) from {schema}.task_events`))
	require.Equal(t, before, a.tables())

	a.finish(pod)
	a.requireSound()
	require.Equal(t, 2, a.archive())
	a.requireSound()
	require.Zero(t, value[int](a.database, `select count(*) from {schema}.task_events_kept`))
	require.Zero(t, a.archive())
}

// A copy by logical replication has the rows and not the sequence, which gives out
// numbers that are taken.
func TestSpansAreMadeThoughTheSequenceIsBehind(t *testing.T) {
	t.Parallel()
	a, _ := newAnnals(t)
	a.exec(`insert into {schema}.spans (class, since, until, kept_from)
		select 0, at, at, at from generate_series(1, 60), (select now() - interval '1 year') as long_ago (at)`)
	a.exec(`select setval(pg_get_serial_sequence($1, 'span'), 1)`, a.schema+".spans")
	require.Zero(t, a.rotate())
	require.Equal(t, 1, value[int](a.database, `select count(*) from {schema}.spans where class is null`))
}

// A transaction that wrote into a span keeps it; nothing fails, and nothing is
// lost.
func TestASpanOfEventsWaitsForItsWriters(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	a.rotate()
	a.pass(3 * time.Second)
	tx, err := a.user.Begin(a.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(a.ctx) }()
	_, err = a.store.TriggerInTx(a.ctx, tx, a.draft(g, "a", 1)[0])
	require.NoError(t, err)
	a.pass(50 * time.Minute)
	a.rotate()
	a.pass(15 * time.Minute)
	require.Zero(t, a.rotate())
	require.NoError(t, tx.Commit(a.ctx))
	require.Equal(t, persistence.Rotated{Spans: 1, Kept: 1}, a.rotate())
	a.drain(10)
	a.requireSound()
}

// A clock that is set back into a closed span delays no run: events of that time are stored
// outside of the span.
func TestTheClockIsSetBackIntoAClosedSpan(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	a.rotate()
	a.pass(3 * time.Second)
	pod := a.join(100 * time.Hour)
	a.start(g, "a", 2)
	a.complete(pod, a.claim(pod, 1)...)
	a.pass(50 * time.Minute)
	a.rotate()
	a.pass(15 * time.Minute)
	out, err := a.store.RotateEvents(a.ctx, a.epoch, time.Hour)
	require.NoError(t, err)
	require.Equal(t, persistence.Rotated{More: true}, out)
	require.Equal(t, 1, value[int](a.database, `select count(*) from {schema}.spans where closed`))

	a.pass(-30 * time.Minute)
	a.start(g, "b", 2)
	a.finish(pod)
	a.requireSound()
	late := value[int](a.database, `select count(*) from {schema}.task_events_kept`)
	require.Positive(t, late)
	a.pass(time.Hour)
	require.Equal(t, 1, a.rotate().Spans)
	require.Greater(t, value[int](a.database, `select count(*) from {schema}.task_events_kept`), late)
	a.requireSound()
	require.Equal(t, 4, a.archive())
	a.requireSound()
	require.Zero(t, value[int](a.database, `select count(*) from {schema}.task_events_kept`))
}

// Events of a clock that was ahead move into the span of their time when it is
// made.
func TestEventsOfAClockThatWasAheadMoveIntoTheirSpan(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	a.rotate()
	a.pass(3 * time.Second)
	pod := a.join(100 * time.Hour)
	a.pass(70 * time.Minute) // into a time that no span holds
	a.start(g, "a", 2)
	a.complete(pod, a.claim(pod, 1)...)
	early := value[int](a.database, `select count(*) from {schema}.task_events_default`)
	require.Positive(t, early)
	a.pass(-70 * time.Minute)
	a.pass(50 * time.Minute)
	a.rotate() // makes the next span
	require.Zero(t, value[int](a.database, `select count(*) from {schema}.task_events_default`))
	require.Equal(t, early, value[int](a.database, `select count(*) from {schema}.task_events`))
	a.finish(pod)
	a.requireSound()
}

// A run with much output becomes several rows, none of which is too large.
func TestLargeRunsAreArchivedInSlices(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(100 * time.Hour)
	id := a.start(g, "a", 1)[0]
	for grants := a.claim(pod, 10); len(grants) > 0; grants = a.claim(pod, 10) {
		record := a.completion(pod, grants...)
		for i := range record.Transitions {
			record.Transitions[i].Output = bytes.Repeat([]byte{byte('0' + record.Transitions[i].Task.Step)}, 10<<20)
		}
		out := a.record(record)
		require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
	}
	require.Equal(t, 1, a.archive())
	require.Equal(t, 2, value[int](a.database, `select count(*) from {schema}.run_history`))
	row, err := a.store.Run(a.ctx, "a", id)
	require.NoError(t, err)
	require.Len(t, row.Output, 10<<20)
	for step := range int32(4) {
		payload, err := persistence.Payload(a.ctx, a.store, workflow.TaskID{Run: id, Step: step})
		require.NoError(t, err)
		require.Len(t, payload, 10<<20)
		require.Equal(t, byte('0')+byte(step), payload[0])
	}
	list, err := a.store.ListRuns(a.ctx, persistence.RunFilter{Tenant: "a"})
	require.NoError(t, err)
	require.Len(t, list.Rows, 1)
}

// A run that may be in history, or on its way there, is looked up in both places; one
// statement sees only one of them.
func TestOnlyYoungRunsAreStoredInOneStatement(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Chain(1))
	k.start(storetest.Chain(1), "a", 1) // whose tenant is known by now
	k.store.recentRunAge = recentRunAge
	now := value[time.Time](k.database, "select clock_timestamp()")
	for after, want := range map[time.Duration]bool{
		0: true, -recentRunAge / 2: true, -recentRunAge - time.Second: false, 5 * time.Second: false,
	} {
		list := k.draft(storetest.Chain(1), "a", 1)
		for i, ms := 5, now.Add(after).UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
			list[0].Run[i] = byte(ms)
		}
		known, err := k.store.knowNames(k.ctx, list)
		require.NoError(t, err)
		out := persistence.Triggers{Answers: make([]persistence.TriggerAnswer, 1)}
		done, err := k.store.triggerFast(k.ctx, &out, list, known, persistence.GrantRequest{})
		require.NoError(t, err)
		require.Equal(t, want, done, "%v", after)
		k.store.Catalog.KeepTenants(map[string]int32{"a": 1}) // it was forgotten, to be on the safe side
	}
}

// A span that a view reads is kept until the view is dropped; others are dropped.
func TestASpanThatAViewReads(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	pod := a.join(1000 * time.Hour)
	for day := range 3 {
		if day > 0 {
			a.pass(24 * time.Hour)
		}
		a.start(g, "a", 1)
		a.finish(pod)
		a.archived(a.epoch, persistence.Archive{Retention: long})
	}
	const tables = `select count(*)::int from {schema}.spans where class is not null`
	require.Equal(t, 3, value[int](a.database, tables))
	first := value[string](a.database, `select 'run_history_'||class||'_'||span from {schema}.spans where class is not null order by since limit 1`)
	a.exec("create view public.report as select id from {schema}." + first)
	a.pass(1000 * time.Hour)
	drop := func() error {
		for {
			out, err := a.store.DropHistory(a.ctx, a.epoch, persistence.Retention{time.Hour, time.Hour, time.Hour, time.Hour}, time.Time{})
			if err != nil || !out.More {
				return err
			}
		}
	}
	err := drop()
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.True(t, persistence.Answered(err))
	require.ErrorContains(t, err, "view public.report depends on table")
	require.Equal(t, 1, value[int](a.database, tables))
	a.exec("drop view public.report")
	require.NoError(t, drop())
	require.Zero(t, value[int](a.database, tables))
}
