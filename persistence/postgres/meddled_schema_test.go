package postgres

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// meddling is a change of the schema by hand, and what reverts it.
type meddling struct{ spoil, mend string }

func meddlings() map[string]meddling {
	return map[string]meddling{
		"a check on tasks": {
			"alter table {schema}.tasks add constraint mine check (state <> 10) not valid", "alter table {schema}.tasks drop constraint mine",
		},
		"a publication of updates to tasks": {
			"create publication mine for table {schema}.tasks (state)", "drop publication mine",
		},
		"no partition for events": {
			`create table {schema}.bounds as select i.inhrelid::regclass as part, pg_get_expr(c.relpartbound, c.oid) as bound
				from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = '{schema}.task_events'::regclass;
			do $$ declare b record; begin for b in select * from {schema}.bounds loop
				execute format('alter table {schema}.task_events detach partition %s', b.part); end loop; end $$`,
			`do $$ declare b record; begin for b in select * from {schema}.bounds loop
				execute format('alter table {schema}.task_events attach partition %s %s', b.part, b.bound); end loop; end $$`,
		},
		"a trigger that raises": {
			`create function {schema}.refuse() returns trigger language plpgsql as 'begin raise exception ''boom''; end';
			create trigger mine before insert on {schema}.task_events for each row execute function {schema}.refuse()`,
			"drop trigger mine on {schema}.task_events",
		},
		"a trigger that finds no table": {
			`create function {schema}.refuse() returns trigger language plpgsql as 'begin insert into audit_log values (1); return new; end';
			create trigger mine before insert or update on {schema}.tasks for each row execute function {schema}.refuse()`,
			"drop trigger mine on {schema}.tasks",
		},
		"a rule that keeps events out": {
			"create rule mine as on insert to {schema}.task_events do instead nothing", "drop rule mine on {schema}.task_events",
		},
		"a trigger that fails on runs": {
			`create function {schema}.refuse() returns trigger language plpgsql as 'begin perform 1 / 0; return new; end';
			create trigger mine before insert or update on {schema}.workflow_runs for each row execute function {schema}.refuse()`,
			"drop trigger mine on {schema}.workflow_runs",
		},
	}
}

// A change of the schema by hand is not the fault of the tasks whose rows are refused:
// nothing fails, and everything is stored once the change is reverted.
func TestAMeddledSchemaFailsNoTask(t *testing.T) {
	t.Parallel()
	for name, c := range meddlings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, pod := withPod(t, storetest.Single())
			ids := k.start(storetest.Single(), "a", 3)
			held := k.claim(pod, 3)
			k.exec(c.spoil)
			_, err := k.store.RecordTransitions(k.ctx, k.completion(pod, held[:2]...))
			require.Error(t, err)
			require.NotErrorIs(t, err, persistence.ErrBadRow)
			if strings.Contains(name, "a rule") {
				require.ErrorIs(t, err, persistence.ErrUnavailable)
				require.True(t, persistence.Answered(err))
				require.ErrorContains(t, err, "take it off (drop rule)")
			}
			_, err = k.inTx(k.completion(pod, held[2]), "select 1")
			require.ErrorIs(t, err, persistence.ErrUnavailable)
			if !strings.Contains(name, "check") && !strings.Contains(name, "to tasks") {
				_, err = k.store.TriggerRuns(k.ctx, k.draft(storetest.Single(), "a", 1), persistence.GrantRequest{})
				require.Error(t, err, "it is not the trigger's fault")
			}
			if strings.Contains(name, "a publication") {
				require.ErrorContains(t, err, "have it publish inserts only")
			}
			if strings.Contains(name, "that raises") {
				require.ErrorContains(t, err, ".refuse() line 1 at RAISE")
				require.ErrorContains(t, err, "take it off")
			}
			if strings.Contains(name, "finds no table") {
				require.ErrorContains(t, err, "a trigger that was put on the engine's tables")
			}
			k.exec(c.mend)
			k.complete(pod, held[:2]...)
			out, err := k.inTx(k.completion(pod, held[2]), "select 1")
			require.NoError(t, err)
			require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
			k.ends(pod, ids)
		})
	}
}

// Each statement that writes fails on a table with a rule that suppresses writes: the server
// reports nothing otherwise, and acknowledged rows would be lost.
func TestEachStatementRefusesARule(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, Options{})
	conn, err := d.user.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	writes := regexp.MustCompile(`(insert into|update|delete from) (` + regexp.QuoteMeta(d.schema) + `\.[a-z_]+)`)
	met := 0
	for name, s := range d.store.Statements {
		for _, found := range writes.FindAllStringSubmatch(s.Text, -1) {
			met++
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			event, _, _ := strings.Cut(found[1], " ")
			_, err = tx.Exec(t.Context(), "create rule mine as on "+event+" to "+found[2]+" do instead nothing")
			require.NoError(t, err)
			_, err = tx.Prepare(t.Context(), "", s.Text)
			require.True(t, pgerr.HasCode(err, pgerr.CodeNotSupported), "%s, of %s: %v", name, found[0], err)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
	require.Greater(t, met, 80)
}

// What drops rows that are written is said to be there, and is no conflict that ends.
func TestRowsThatAreNotWritten(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	ids := k.start(storetest.Single(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	record.Transitions[0].Report = lifecycle.Released
	k.exec(`create function {schema}.drop() returns trigger language plpgsql as 'begin return null; end';
		create trigger mine before update on {schema}.tasks for each row execute function {schema}.drop()`)
	_, err := k.store.RecordTransitions(k.ctx, record)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.NotErrorIs(t, err, persistence.ErrConflict)
	require.True(t, persistence.Answered(err))
	require.ErrorContains(t, err, "take off the rule or the trigger")
	_, err = k.inTx(k.completion(pod, persistence.Grant{Task: record.Transitions[0].Task, Epoch: record.Transitions[0].Epoch}), "select 1")
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.NotErrorIs(t, err, persistence.ErrConflict)
	k.exec("drop trigger mine on {schema}.tasks")
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	k.ends(pod, ids)
}
