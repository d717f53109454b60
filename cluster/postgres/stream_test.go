package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/workflow"
)

const enqueue = `insert into {schema}.ready_queue (queue, band, handler, fair_id, run_id, step, suspect)
	select $1, 0, 1, coalesce((select max(fair_id) from {schema}.ready_queue), 0) + g, gen_random_uuid(), 0, false
	from generate_series(1, $2::int) g`

var exceptKey = cmpopts.IgnoreFields(cluster.Wake{}, "Key")

func parseRun(t *testing.T, text string) workflow.RunID {
	t.Helper()
	run, err := workflow.ParseRunID(text)
	require.NoError(t, err)
	return run
}

func TestForeignSQLWakesTheStream(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	s := stream(t, w.adapter(t, 1))
	const one, two = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab", "0190c2f3-7a1b-7c3d-8e4f-0123456789ac"
	event := "insert into {schema}.task_events (run_id, step, kind, n, at) values ($1, -1, $2, $3, now())"
	unseen := 0
	for name, c := range map[string]struct {
		sql  string
		args []any
		want []cluster.Wake
	}{
		"one task":   {enqueue, []any{100, 1}, []cluster.Wake{{Kind: cluster.WakeReady, Queue: "first", Count: 1}}},
		"many tasks": {enqueue, []any{101, 250}, []cluster.Wake{{Kind: cluster.WakeReady, Queue: `mail, "fast" \ ü`, Count: 250}}},
		"a submission": {
			"insert into {schema}.intake (run_id) values ($1)",
			[]any{one},
			[]cluster.Wake{{Kind: cluster.WakeSubmitted}},
		},
		"a timer": {
			"insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch) values ($1, 0, 1, '2031-02-03 04:05:06.789012+02', 1)",
			[]any{one},
			[]cluster.Wake{{Kind: cluster.WakeTimer, At: time.Date(2031, 2, 3, 2, 5, 6, 789012000, time.UTC)}},
		},
		"a cancel":          {event, []any{one, 34, 1}, []cluster.Wake{{Kind: cluster.WakeCanceling, Run: parseRun(t, one)}}},
		"a completed run":   {event, []any{one, 35, 2}, []cluster.Wake{{Kind: cluster.WakeEnded, Run: parseRun(t, one)}}},
		"a failed run":      {event, []any{two, 36, 3}, []cluster.Wake{{Kind: cluster.WakeEnded, Run: parseRun(t, two)}}},
		"a canceled run":    {event, []any{two, 37, 4}, []cluster.Wake{{Kind: cluster.WakeEnded, Run: parseRun(t, two)}}},
		"a logical message": {"select pg_logical_emit_message(true, 'troupe_wake', '1 7 s')", nil, []cluster.Wake{{Kind: cluster.WakeSubmitted}}},
		"one outside a transaction": {
			"select pg_logical_emit_message(false, 'troupe_wake', '1 7 r3,2s,other')",
			nil,
			[]cluster.Wake{{Kind: cluster.WakeReady, Queue: "other", Count: 3}},
		},
	} {
		w.exec(t, event, two, 2, 1000+unseen) // an event that no pod waits for
		unseen++
		w.exec(t, c.sql, c.args...)
		if diff := cmp.Diff(c.want, s.next(t), exceptKey); diff != "" {
			t.Errorf("%s: wakes (-want +got):\n%s", name, diff)
		}
	}
}

// What happens in a time whose events are closed is told all the same.
func TestEventsOfAClosedSpanWakeTheStream(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	s := stream(t, w.adapter(t, 1))
	w.exec(t, "create trigger closed before insert on {schema}.task_events_1 for each row execute function {schema}.keep_event()")
	const one = "0190c2f3-7a1b-fc3d-8e4f-fb23ff6789ab"
	for kind, want := range map[int]cluster.WakeKind{34: cluster.WakeCanceling, 35: cluster.WakeEnded, 36: cluster.WakeEnded, 37: cluster.WakeEnded} {
		w.exec(t, "insert into {schema}.task_events (run_id, step, kind, n, at) values ($1, 0, 2, 1, now()), ($1, -1, $2, 1, now())", one, kind)
		require.Equal(t, []cluster.Wake{{Kind: want, Run: parseRun(t, one)}}, s.next(t))
	}
}

func TestAWakeCarriesTheSameKeyToEveryPod(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	first, second := stream(t, w.adapter(t, 1)), stream(t, w.adapter(t, 2))
	for range 3 {
		w.exec(t, enqueue, 100, 1)
		a, b := first.next(t), second.next(t)
		require.NotZero(t, a[0].Key)
		require.Equal(t, a, b)
	}
}

func TestAQueueRegisteredLaterIsNamed(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	s := stream(t, w.adapter(t, 1))
	w.exec(t, enqueue, 100, 1)
	require.Equal(t, "first", s.next(t)[0].Queue)
	w.exec(t, "insert into {schema}.queues values (107, 'late')")
	w.exec(t, enqueue, 107, 1)
	require.Equal(t, "late", s.next(t)[0].Queue)
	w.exec(t, enqueue, 199, 1)
	require.Equal(t, "", s.next(t)[0].Queue, "a number without a name means any queue")
}

func TestABigTransactionIsHandedOnInPieces(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	s := stream(t, w.adapter(t, 1))
	w.exec(t, enqueue, 100, 20_000)
	total, pieces := 0, 0
	for total < 20_000 {
		for _, wake := range s.next(t) {
			total += wake.Count
			pieces++
		}
	}
	require.Equal(t, 20_000, total)
	require.GreaterOrEqual(t, pieces, 20)
}

func TestAKilledWalsenderIsNoticedAndReplaced(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	a := w.adapter(t, 1)
	s := stream(t, a)
	require.Equal(t, 1, w.slots(t))
	w.terminate(t, "stream")
	err := s.end(t)
	require.ErrorContains(t, err, "57P01")
	require.NotErrorIs(t, err, cluster.ErrStreamUnavailable, "worth an early retry")
	eventually(t, "the slot is gone", func() bool { return w.slots(t) == 0 })
	w.exec(t, enqueue, 100, 1) // no stream is open: not replayed
	again := stream(t, a)
	w.exec(t, enqueue, 101, 2)
	require.Equal(t, `mail, "fast" \ ü`, gather(t, again, 1)[0].Queue)
}

func TestEndingTheStreamDropsItsSlot(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	s := stream(t, w.adapter(t, 1))
	require.Equal(t, 1, w.slots(t))
	s.stop()
	require.ErrorIs(t, s.end(t), context.Canceled)
	eventually(t, "the slot is gone", func() bool { return w.slots(t) == 0 })
}

func TestTheStreamConfirmsWhatItHasRead(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	stream(t, w.adapter(t, 1, func(c *postgres.Config) { c.StatusInterval = 50 * time.Millisecond }))
	w.exec(t, "create table foreign_table as select g, repeat('x', 100) from generate_series(1, 20000) g")
	var written string
	require.NoError(t, w.pool.QueryRow(t.Context(), "select pg_current_wal_lsn()::text").Scan(&written))
	eventually(t, "the log is let go of", func() bool {
		return w.count(t, "select count(*) from pg_replication_slots where database = current_database() and confirmed_flush_lsn >= $1::pg_lsn", written) == 1
	})
}

func TestAnIdleStreamOutlivesTheSendersPatience(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	s := stream(t, w.adapter(t, 1, func(c *postgres.Config) {
		c.WALSenderTimeout, c.StatusInterval = 2*time.Second, 300*time.Millisecond
	}))
	select {
	case err := <-s.done:
		require.NoError(t, err)
	case <-time.After(4500 * time.Millisecond): // more than twice the sender's patience: what is waited for is that nothing happens
	}
	w.exec(t, enqueue, 100, 1)
	require.Len(t, s.next(t), 1)
}

func TestAPublicationDroppedUnderTheStream(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	if w.count(t, "select current_setting('server_version_num')::int / 10000") >= 18 {
		t.Skip("since PostgreSQL 18 the server only warns in its log and sends nothing: the sweep finds the work")
	}
	s := stream(t, w.adapter(t, 1))
	w.exec(t, "drop publication "+pgx.Identifier{postgres.Publication(w.schema)}.Sanitize())
	w.exec(t, enqueue, 100, 1)
	err := s.end(t)
	require.ErrorIs(t, err, cluster.ErrStreamUnavailable)
	require.ErrorContains(t, err, "run the migrations")
}

func TestUnboundedSlotsAreWarnedAboutOnce(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	var l logs
	a := w.adapter(t, 1, func(c *postgres.Config) { c.Logger = l.logger() })
	for range 2 {
		s := stream(t, a)
		s.stop()
		require.Error(t, s.end(t))
	}
	require.Equal(t, 1, l.count("set max_slot_wal_keep_size"))
}

func TestAStreamWhoseNetworkIsGone(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	p := newPath(t, w.url)
	s := stream(t, w.adapter(t, 1, func(c *postgres.Config) {
		c.DirectURL, c.StatusInterval, c.WALSenderTimeout = p.url, 250*time.Millisecond, time.Second
	}))
	w.exec(t, enqueue, 100, 1)
	require.Len(t, s.next(t), 1)
	p.drop()
	require.ErrorContains(t, s.end(t), "does not answer")
	eventually(t, "the slot is gone", func() bool { return w.slots(t) == 0 })
}
