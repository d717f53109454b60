package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The statements that doctor gives attach a detached table of events again, with the events
// written meanwhile.
func TestFindingsOfDetachedSpans(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	found := func() (texts, remedies []string) {
		t.Helper()
		for _, f := range c.examine(Options{}).Findings {
			if f.Check == "history" && f.Level == Problem {
				texts, remedies = append(texts, f.Text), append(remedies, f.Remedy)
			}
		}
		return texts, remedies
	}
	texts, _ := found()
	require.Empty(t, texts)
	const event = "insert into troupe.task_events (run_id, step, kind, n, at) values (gen_random_uuid(), 0, 1, 1, now())"
	c.exec(event)
	c.exec("alter table troupe.task_events detach partition troupe.task_events_1")
	c.exec(event)
	texts, remedies := found()
	require.Equal(t, []string{"task_events_1 was taken off task_events: what is in it is not found"}, texts)
	statements, told := strings.CutPrefix(remedies[0], "in one transaction: ")
	require.True(t, strings.HasPrefix(statements, "lock table "), "pods write meanwhile")
	require.True(t, told)
	c.exec(statements)
	texts, _ = found()
	require.Empty(t, texts)
	var events int
	require.NoError(t, c.pool.QueryRow(t.Context(), "select count(*) from troupe.task_events_1").Scan(&events))
	require.Equal(t, 2, events)

	for whole, parts := range map[string][]string{"run_history": {"run_history_0", "run_history_3"}, "task_events": {"task_events_default"}} {
		for _, part := range parts {
			c.exec("alter table troupe." + whole + " detach partition troupe." + part)
			texts, remedies = found()
			require.Equal(t, []string{part + " was taken off " + whole + ": what is in it is not found"}, texts)
			c.exec(remedies[0])
			texts, _ = found()
			require.Empty(t, texts)
			c.exec("drop table troupe." + part)
			texts, remedies = found()
			require.Equal(t, []string{part + " is gone, with all that was in it"}, texts)
			_, statement, told := strings.Cut(remedies[0], ", or ")
			require.True(t, told)
			c.exec(statement)
			texts, _ = found()
			require.Empty(t, texts)
		}
	}

	c.exec("drop table troupe.task_events_1")
	texts, remedies = found()
	require.Equal(t, []string{"task_events_1 is gone, with all that was in it"}, texts)
	_, statement, told := strings.Cut(remedies[0], ", or ")
	require.True(t, told)
	c.exec(statement)
	texts, _ = found()
	require.Empty(t, texts)
}

// What depends on a table of a span is named with it, and nothing of the engine's is.
func TestFindingsOfWhatReadsASpan(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	c.exec("create view public.report as select run_id from troupe.task_events_1")
	c.exec("create view public.sound as select run_id from troupe.task_events")
	c.exec(`create function public.counted() returns bigint language sql begin atomic select count(*) from troupe.task_events_1; end`)
	c.exec("create table public.kept (id int, e troupe.task_events_1, all_of_it troupe.task_events_1[])")
	var found []string
	for _, f := range c.examine(Options{}).Findings {
		if f.Check == "history" && f.Level == Problem {
			found = append(found, f.Text)
		}
	}
	require.Equal(t, []string{
		"column all_of_it of table public.kept depends on task_events_1, which is not dropped when its time is over",
		"column e of table public.kept depends on task_events_1, which is not dropped when its time is over",
		"function public.counted() depends on task_events_1, which is not dropped when its time is over",
		"the view public.report depends on task_events_1, which is not dropped when its time is over",
	}, found)
}
