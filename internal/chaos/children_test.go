package chaos

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/migrations"
)

// F01: whichever pod is killed, a step with a child run begins exactly one, continues with its
// output when that has ended, and stops it when it is canceled.
func TestChildRunsUnderKills(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F01", Name: "children-under-kills", Fault: "3 pods under load with child runs, one of them SIGKILLed every 2 s and restarted",
		Must: "I1 I3 I4 I5; each step with a child run has the output of its own",
		Allowed: []figure{
			atLeast("kills", 20, "").inGoTest(3), atLeast("child runs completed", 400, "").inGoTest(20),
			atLeast("child runs canceled", 20, "").inGoTest(1), atLeast("runs whose caller was killed before it canceled them", 1, "").inGoTest(0),
			none("child runs without a parent"), none("steps with several child runs, or none"), none("steps with the output of another run"),
			none("child runs that went on after a cancel"), none("idempotency keys of several runs"),
			within("heard of the end of a child run after", 20*time.Second),
		},
	})
	y := newYard(r, brisk(), 8)
	y.each = func(told *podSpec) { told.Children = true }
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	r.count("kills", y.killOften(spell(8*time.Second, time.Minute)))
	y.quiet(patience)
	r.count("runs whose caller was killed before it canceled them", y.cancelTheRest())
	y.judge()
	y.judgeChildren()
}

// family returns a workflow with child runs that follow each other, are nested, and have an
// output that a condition looks at; one whose child run is to be canceled; and those of the
// child runs.
func (p *podProcess) family() []*troupe.Workflow[string, string] {
	kid := troupe.Define("kid", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step1(b, "b", p.next, troupe.Step0(b, "a", p.keyed))
	})
	middle := troupe.Define("middle", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Child(b, "inner", kid, troupe.Step0(b, "a", p.keyed))
	})
	parent := troupe.Define("parent", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", p.first)
		two := troupe.Child(b, "two", kid, troupe.Child(b, "one", kid, a))
		deep := troupe.Child(b, "deep", middle, a)
		return troupe.Step2(b, "d", func(ctx context.Context, _, l, r string) (string, error) {
			if l != r {
				return "", errors.New("the outputs of child runs differ")
			}
			return p.effect(ctx, l)
		}, two, deep, troupe.SkipIf(deep, func(got string) bool { return got == "" }))
	})
	guardian := troupe.Define("guardian", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Child(b, "long", p.endless(), troupe.Step0(b, "a", p.first))
	})
	return []*troupe.Workflow[string, string]{kid, middle, parent, guardian}
}

// keyed is the first step of a child run: it notes the idempotency key.
func (p *podProcess) keyed(ctx context.Context, in string) (string, error) {
	task := troupe.Task(ctx)
	p.ledger.note("keyed", task.Run.String(), task.IdempotencyKey)
	return p.effect(ctx, in)
}

// beget triggers a run with child runs and waits for its end; every third one it cancels.
func (p *podProcess) beget(ctx context.Context, n int64, key string) {
	if n%3 == 0 {
		p.cancelOne(ctx, n, "guardian", key)
		return
	}
	if run := p.store(ctx, "parent", key, troupe.Tenant("tenant-0")); run != nil {
		p.await(ctx, run, key)
	}
}

// cancelTheRest cancels what the callers of killed pods did not, and returns how many runs.
func (y *yard) cancelTheRest() int {
	y.t.Helper()
	ctx := y.t.Context()
	rows, err := y.pool.Query(ctx, "select run from troupe.run_list where workflow = 'guardian' and state in ('pending', 'running')")
	require.NoError(y.t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[troupe.RunID])
	require.NoError(y.t, err)
	operator, err := troupe.OpenOperator(ctx, y.pool, migrations.DefaultSchema, "chaos")
	require.NoError(y.t, err)
	defer func() { require.NoError(y.t, operator.Close()) }()
	for _, run := range left {
		_, err := operator.Cancel(ctx, "", run, troupe.CancelOptions{Reason: "its caller was killed"})
		require.NoError(y.t, err)
	}
	return len(left)
}

// judgeChildren checks the child runs of all runs, which have ended.
func (y *yard) judgeChildren() {
	y.t.Helper()
	const with = `with child as materialized (select run, state, parent, output_json, finished_at from troupe.run_list where parent is not null),
		step as materialized (select run, state, child_run, output_json, finished_at from troupe.step_list where child_run is not null) `
	for name, query := range map[string]string{
		"child runs completed":        `select count(*)::int from child where 'completed' = state`,
		"child runs canceled":         `select count(*)::int from child where 'canceled' = state`,
		"child runs without a parent": `select count(*)::int from child c where not exists (select from troupe.run_list r where r.run = c.parent)`,
		"steps with several child runs, or none": `select count(*)::int from child c
			full join step s on s.child_run = c.run and s.run = c.parent where c.run is null or s.run is null`,
		"steps with the output of another run": `select count(*)::int from child c join step s on s.child_run = c.run
			where 'completed' in (s.state, c.state) and (s.state, s.output_json) is distinct from (c.state, c.output_json)`,
		"child runs that went on after a cancel": `select count(*)::int from child c join step s on s.child_run = c.run
			where 'canceled' = s.state and 'canceled' <> c.state`,
	} {
		y.t.count(name, y.number(with+query))
	}
	y.t.took("heard of the end of a child run after", time.Duration(y.number(with+`select coalesce(max(extract(epoch from s.finished_at - c.finished_at) * 1000), 0)::int
		from child c join step s on s.child_run = c.run where 'completed' = c.state`))*time.Millisecond) // the leader looks each minute
	keys, several := map[string]string{}, 0
	for _, e := range readLedgers(y.t, y.dir) {
		if e.what != "keyed" {
			continue
		}
		if run, known := keys[e.detail]; known && run != e.run {
			several++
		}
		keys[e.detail] = e.run
	}
	require.NotEmpty(y.t, keys)
	y.t.count("idempotency keys of several runs", several)
}
