package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// nameless are the tables whose updates and deletes are refused when they are
// published.
const nameless = `select coalesce(string_agg(c.relname, ' ' order by c.relname), '')
	from pg_class c
	where c.relnamespace = '{schema}'::regnamespace and c.relkind in ('r', 'p') and c.relpersistence = 'p' and c.relreplident <> 'f'
		and not exists (select from pg_index i where i.indrelid = c.oid and i.indisvalid and i.indimmediate
			and case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident else false end)`

// What leaves the live tables does so where all tables are published, as do the
// spans of history: events of a living run are put aside, runs archived with
// them, letters and inputs purged, spans dropped.
func TestHistoryBesideAPublicationOfAllTables(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{"": "", "by the root": " with (publish_via_partition_root = true)"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, g := newAnnals(t)
			a.exec("create publication everything for all tables" + options)
			pod := a.join(1000 * time.Hour)
			a.start(g, "a", 1) // before there is a span
			require.Positive(t, value[int](a.database, "select count(*)::int from {schema}.task_events_default"))
			a.rotate()
			a.pass(3 * time.Second)
			a.start(g, "a", 2)
			a.complete(pod, a.claim(pod, 3)...)
			a.pass(50 * time.Minute)
			a.rotate()
			a.pass(15 * time.Minute)
			require.Positive(t, a.rotate().Kept)
			a.finish(pod)
			require.Equal(t, 3, a.archive())
			require.Zero(t, value[int](a.database, "select count(*)::int from {schema}.task_events_default"))
			require.Zero(t, value[int](a.database, "select count(*)::int from {schema}.task_events_kept"))
			a.buryMany(3, 10)
			count, err := a.store.PurgeDeadLetters(a.ctx, persistence.DeadFilter{})
			require.NoError(t, err)
			require.Equal(t, 3, count)
			require.Empty(t, value[string](a.database, nameless))
			a.pass(1000 * time.Hour)
			for more := true; more; {
				out, err := a.store.DropHistory(a.ctx, a.epoch, persistence.Retention{time.Hour, time.Hour, time.Hour, time.Hour}, time.Time{})
				require.NoError(t, err)
				more = out.More
			}
			require.Zero(t, value[int](a.database, "select count(*)::int from {schema}.run_history"))
		})
	}
}

// A pod of an earlier version makes spans as it knows them.
func TestSpansOfAnEarlierVersionAreRotated(t *testing.T) {
	t.Parallel()
	a, g := newAnnals(t)
	a.exec("create publication everything for all tables")
	a.rotate()
	a.pass(3 * time.Second)
	a.start(g, "a", 2)
	a.pass(50 * time.Minute)
	a.rotate()
	a.exec(`do $$ declare part regclass; begin
		for part in select relid from pg_partition_tree('{schema}.task_events'::regclass) where isleaf and relid::text !~ 'default' loop
			execute format('alter table %s replica identity default', part);
		end loop; end $$`)
	a.pass(15 * time.Minute)
	require.Equal(t, persistence.Rotated{Spans: 1, Kept: 6}, a.rotate())
	a.requireSound()
}

// Every table names its rows, those of spans, too.
func TestEveryTableHasAReplicaIdentity(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, Options{})
	require.Empty(t, value[string](d, nameless), "after the migration")
	a, g := newAnnals(t)
	a.rotate()
	pod := a.join(time.Hour)
	a.start(g, "a", 1)
	a.finish(pod)
	require.Equal(t, 1, a.archive())
	require.Equal(t, 2, value[int](a.database, `select count(*)::int from {schema}.spans s join pg_class c
		on c.relnamespace = '{schema}'::regnamespace and c.relname = coalesce('run_history_' || s.class, 'task_events') || '_' || s.span`))
	require.Empty(t, value[string](a.database, nameless), "after spans were made")
}
