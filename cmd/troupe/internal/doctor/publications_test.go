package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// With a publication of all tables, deletes from a table without a replica identity fail.
// The remedy is a statement that sets one.
func TestFindingsOfPublications(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	found := c.ofPublications
	const change = `alter table troupe.task_events_kept replica identity default; alter table troupe.task_events_1 replica identity nothing;
		alter table troupe.tasks replica identity nothing; create unique index mine on troupe.queues (name);
		alter table troupe.queues replica identity using index mine; drop index troupe.mine;
		create unlogged table troupe.notes (id int)`
	for publication, want := range map[string][]string{
		"for all tables":              {"queues", "task_events_1", "task_events_kept", "tasks"},
		"for tables in schema troupe": {"queues", "task_events_1", "task_events_kept", "tasks"},
		"for all tables with (publish_via_partition_root = true)":                                                         {"queues", "task_events_1", "task_events_kept", "tasks"},
		"for table troupe.task_events with (publish = 'delete')":                                                          {"task_events_1"},
		"for table troupe.task_events, troupe.tasks with (publish = 'insert, update', publish_via_partition_root = true)": {"task_events_1", "tasks"},
		"for table troupe.queues":                            {"queues"},
		"for all tables with (publish = 'insert, truncate')": nil,
	} {
		c.exec("create publication everything " + publication)
		texts, _ := found()
		require.Empty(t, texts, "as it was made: %s", publication)
		c.exec(change)
		texts, remedies := found()
		require.Len(t, texts, len(want), "%s: %q", publication, texts)
		for i, table := range want {
			require.Contains(t, texts[i], table+" has no replica identity, and the publication everything carries")
			c.exec(remedies[i])
		}
		texts, _ = found()
		require.Empty(t, texts, "mended: %s", publication)
		for _, table := range []string{"task_events_kept", "task_events_1"} {
			c.exec("alter table troupe." + table + " replica identity full")
		}
		c.exec(`drop publication everything; drop table troupe.notes;
			alter table troupe.tasks replica identity default; alter table troupe.queues replica identity default`)
	}
}

// A table without a replica identity is named once, also where a publication carries some
// of its columns.
func TestFindingsOfAPartialPublicationOfRowsKnownByNothing(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	c.exec("create publication mine for table troupe.queues (queue); alter table troupe.queues replica identity nothing")
	texts, remedies := c.ofPublications()
	require.Len(t, texts, 1)
	c.exec(remedies[0])
	texts, _ = c.ofPublications()
	require.Empty(t, texts)
}

// ofPublications returns what the check finds, and how that is mended.
func (c *clinic) ofPublications() (texts, remedies []string) {
	c.t.Helper()
	for _, f := range c.examine(Options{}).Findings {
		if f.Check == "publications" {
			require.Equal(c.t, Problem, f.Level)
			texts, remedies = append(texts, f.Text), append(remedies, f.Remedy)
		}
	}
	return texts, remedies
}

// With a publication of updates that lacks columns of the replica identity, or filters rows
// by other columns, updates fail. So they do after such a change of the engine's own
// publication.
func TestFindingsOfPartialPublications(t *testing.T) {
	t.Parallel()
	c := open(t, migrated(t))
	touch := `insert into troupe.queues values (100, 'a'); update troupe.queues set name = 'b' where queue = 100; delete from troupe.queues where queue = 100`
	c.exec(touch)
	for change, refused := range map[string]int{
		"alter publication troupe_wake set (publish = 'insert, update')":                       3,
		"alter publication troupe_wake set (publish = 'insert, truncate')":                     0,
		"create publication mine for table troupe.queues (name)":                               1,
		"create publication mine for table troupe.queues (name) with (publish = 'insert')":     0,
		"create publication mine for table troupe.queues (queue)":                              0,
		"create publication mine for table troupe.queues where (name <> '')":                   1,
		"create publication mine for table troupe.queues where (queue > 1)":                    0,
		"create publication mine for table troupe.queues (queue, name) where (name <> '')":     1,
		"create publication mine for table troupe.queues (queue, name) where (queue <> 1)":     0,
		"create publication mine for table troupe.queues":                                      0,
		"create publication mine for all tables":                                               0,
		`create publication "My ""own" for table troupe.queues (name) with (publish='delete')`: 1,
	} {
		c.exec(change)
		texts, remedies := c.ofPublications()
		require.Len(t, texts, refused, "%s: %q", change, texts)
		for _, remedy := range remedies {
			c.exec(remedy)
		}
		c.exec(touch)
		texts, _ = c.ofPublications()
		require.Empty(t, texts, change)
		c.exec(`drop publication if exists mine; drop publication if exists "My ""own"; alter publication troupe_wake set (publish = 'insert')`)
	}
}
