package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// A foreign trigger that returns null suppresses a row, and one that returns the old row
// undoes an update. The server reports neither. A call of the store must fail then and
// change nothing. The test suppresses all rows, or every second one, by table and kind of
// change: three variants a table in `make test`, all twelve in `make test-full`.
func TestACallWritesAllOfItsRows(t *testing.T) {
	t.Parallel()
	for _, table := range []string{
		"workflow_runs", "tasks", "ready_queue", "durable_timers", "claims", "intake", "run_keys", "dead_letters", "parked_tasks",
		"task_progress", "run_history", "tenant_groups", "tenants",
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			b := newBusy(t)
			for i, c := range [][2]string{{"insert", "null"}, {"update", "old"}, {"delete", "null"}, {"update", "null"}} {
				for j, which := range []string{"true", "nth % 2 = 0", "nth % 2 = 1"} {
					if i != j && !pgtest.Full() {
						continue
					}
					b.exec(fmt.Sprintf(`create sequence {schema}.nth;
						create function {schema}.skip() returns trigger language plpgsql as 'declare nth bigint := nextval(''{schema}.nth''); begin
							if %s then return %s; elsif tg_op = ''DELETE'' then return old; else return new; end if; end';
						create trigger mine before %s on {schema}.%s for each row execute function {schema}.skip()`, which, c[1], c[0], table))
					b.work()
					b.exec("drop function {schema}.skip() cascade; drop sequence {schema}.nth")
					b.settle()
				}
			}
			require.Positive(t, b.refused)
		})
	}
}

// skip adds a foreign trigger that returns result for each row which change writes to table.
// Dropping the function skip ends it.
func (k *fixture) skip(table, change, result string) {
	k.t.Helper()
	k.exec(fmt.Sprintf(`create function {schema}.skip() returns trigger language plpgsql as 'begin return %s; end';
		create trigger mine before %s on {schema}.%s for each row execute function {schema}.skip()`, result, change, table))
}

// busy makes calls of every kind.
type busy struct {
	*fixture
	chain, nap, rescued, foreign *workflow.Graph

	pod, epoch   int64
	acknowledged []workflow.RunID
	nobodys      []workflow.RunID     // of them, those that no pod registers
	open         []persistence.Record // to be recorded again
	refused      int
}

func newBusy(t *testing.T) *busy {
	b := &busy{chain: storetest.Chain(3), nap: storetest.Nap(time.Nanosecond), rescued: storetest.Graph(workflow.Definition{
		Name: "rescued", Steps: []workflow.Step{{Name: "a"}, {Name: "b"}}, OnFailure: &workflow.Step{Name: "rescue", Kind: workflow.Func},
	})}
	b.fixture = newFixture(schemas(t)(t), b.chain, b.nap, b.rescued)
	b.foreign = storetest.Single()
	b.pod = b.join(time.Hour)
	_, err := b.store.RegisterDefinitions(b.ctx, []*workflow.Graph{b.foreign}, nil)
	require.NoError(t, err)
	b.epoch, err = b.store.BumpEpoch(b.ctx, b.pod)
	require.NoError(t, err)
	return b
}

// made reports whether a call was made; those that were not say why.
func (b *busy) made(err error) bool {
	b.t.Helper()
	if err == nil {
		return true
	}
	b.refused++
	require.ErrorIs(b.t, err, persistence.ErrUnavailable)
	require.Regexp(b.t, "take off the rule or the trigger|by a constraint or a trigger .* take it off", err.Error())
	return false
}

func (b *busy) work() {
	b.t.Helper()
	for _, list := range [][]persistence.Trigger{
		b.draft(b.chain, "a", 1), b.draft(b.chain, "a", 3), b.draft(b.nap, "b", 2), b.draft(b.rescued, "b", 2), b.keyed(2),
	} {
		for _, taking := range []persistence.GrantRequest{{}, b.taking()} {
			b.trigger(list, taking)
			list = b.draft(b.chain, "c", 1)
		}
	}
	for _, one := range b.draft(b.foreign, "f", 2) {
		before := len(b.acknowledged)
		b.trigger([]persistence.Trigger{one}, persistence.GrantRequest{})
		b.nobodys = append(b.nobodys, b.acknowledged[before:]...)
	}
	b.submit(b.draft(b.chain, "d", 1)[0])
	_, err := b.store.DrainIntake(b.ctx, 10)
	b.made(err)
	for range 3 {
		b.claimAndRecord()
		_, err = b.store.FireTimers(b.ctx, b.epoch, 10)
		b.made(err)
	}
	_, err = b.store.ParkTasks(b.ctx, b.epoch, 10)
	b.made(err)
	b.cancel(b.acknowledged[max(len(b.acknowledged)-2, 0):])
	b.archive()
}

func (b *busy) cancel(runs []workflow.RunID) {
	b.t.Helper()
	for _, run := range runs {
		_, err := b.store.CancelRun(b.ctx, persistence.Cancel{Run: run, By: "test", Grace: time.Minute})
		b.made(err)
	}
}

func (b *busy) archive() {
	b.t.Helper()
	_, err := b.store.ArchiveRuns(b.ctx, b.epoch, persistence.Archive{Limit: 3})
	b.made(err)
}

func (b *busy) trigger(list []persistence.Trigger, taking persistence.GrantRequest) {
	b.t.Helper()
	out, err := b.store.TriggerRuns(b.ctx, list, taking)
	if !b.made(err) {
		return
	}
	for i, answer := range out.Answers {
		if b.made(answer.Err) {
			b.acknowledged = append(b.acknowledged, list[i].Run)
		}
	}
	b.record(out.Grants)
}

func (b *busy) keyed(n int) []persistence.Trigger {
	list := b.draft(b.chain, "k", n)
	for i := range list {
		list[i].Key = list[i].Run.String()
	}
	return list
}

func (b *busy) submit(one persistence.Trigger) {
	b.t.Helper()
	tx, err := b.user.Begin(b.ctx)
	require.NoError(b.t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.ctx)) }()
	if _, err := b.store.TriggerInTx(b.ctx, tx, one); !b.made(err) {
		return
	}
	require.NoError(b.t, tx.Commit(b.ctx))
	b.acknowledged = append(b.acknowledged, one.Run)
}

func (b *busy) claimAndRecord() {
	b.t.Helper()
	for _, limit := range []int{1, 10} {
		out, err := b.store.ClaimTasks(b.ctx, b.request(b.pod, limit))
		if b.made(err) {
			b.record(out.Grants)
		}
	}
}

// record reports tasks, one of each kind of report in turn. What is refused stays to be
// recorded.
func (b *busy) record(grants []persistence.Grant) {
	b.t.Helper()
	for i, g := range grants {
		record := b.completion(b.pod, g)
		record.Limit, record.Handlers, record.Queues = 2, b.handlers, []string{registry.DefaultQueue}
		report := &record.Transitions[0]
		switch i % 6 {
		case 0:
			report.Progress = []byte("half")
		case 1:
			report.Report, report.Retry, report.Class, report.Error = lifecycle.Errored, true, "error", "again"
		case 2:
			report.Report, report.Class, report.Error = lifecycle.Errored, "error", "for good"
		case 3:
			report.Report = lifecycle.Released
		case 4:
			out, err := b.inTx(record, "select 1")
			if !b.made(err) {
				b.open = append(b.open, record)
			}
			b.open = append(b.open, b.held(out)...)
			continue
		}
		b.say(record)
	}
}

func (b *busy) say(record persistence.Record) {
	b.t.Helper()
	out, err := b.store.RecordTransitions(b.ctx, record)
	if !b.made(err) || len(out.Answers) > 0 && out.Answers[0].Result == lifecycle.Busy {
		b.open = append(b.open, record)
		return
	}
	b.open = append(b.open, b.held(out)...)
}

// held are the completions of what was granted with a record.
func (b *busy) held(out persistence.Recorded) (records []persistence.Record) {
	for _, g := range out.Grants {
		records = append(records, b.completion(b.pod, g))
	}
	return records
}

// settle has everything end, and looks for whatever was left half done.
func (b *busy) settle() {
	b.t.Helper()
	b.drain(100)
	b.requireSound()
	b.cancel(b.nobodys)
	for round := 0; ; round++ {
		require.Less(b.t, round, 100)
		open := b.open
		b.open = nil
		for _, record := range open {
			b.say(record)
		}
		fired := b.fire(b.epoch, 100)
		grants := b.claim(b.pod, 500)
		for _, g := range grants {
			b.say(b.completion(b.pod, g))
		}
		if len(open)+len(grants) == 0 && fired.Count == 0 {
			break
		}
	}
	b.requireSound()
	for _, run := range b.acknowledged {
		require.True(b.t, b.state(run).Terminal(), "%s", run)
	}
	b.acknowledged, b.nobodys = nil, nil
}
