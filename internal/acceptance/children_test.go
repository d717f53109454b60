package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
)

// bill is the workflow of child runs: write fails for "broken", hold sleeps for an hour for "slow",
// and send, which gives the output, is skipped for "free".
func bill(d *diary) *troupe.Workflow[string, string] {
	return troupe.Define("bill", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		write := troupe.Step0(b, "write", func(ctx context.Context, in string) (string, error) {
			d.note("write %s", troupe.Task(ctx).IdempotencyKey)
			if in == "broken" {
				return "", troupe.Class("declined", errBusy)
			}
			return "bill of " + in, nil
		})
		slow, _ := troupe.If(b.Input(), func(in string) bool { return in == "slow" })
		hold := troupe.Sleep(b, "hold", time.Hour, troupe.After(write), slow)
		return troupe.Step1(b, "send", func(_ context.Context, _, written string) (string, error) { return written + ", sent", nil },
			write, troupe.After(troupe.Maybe(hold)), troupe.SkipIf(b.Input(), func(in string) bool { return in == "free" }))
	})
}

// shipping is read → bill (a child run) → ship.
func shipping(child troupe.Definition[string, string], options ...troupe.ChildOption) *troupe.Workflow[string, string] {
	return troupe.Define("shipping", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		read := troupe.Step0(b, "read", func(_ context.Context, in string) (string, error) { return in, nil })
		billed := troupe.Child(b, "bill", child, read, options...)
		return troupe.Step1(b, "ship", func(_ context.Context, _, billed string) (string, error) { return billed + ", shipped", nil }, billed)
	})
}

// parent runs a workflow on an engine in memory that has the workflow of its child runs.
func parent[CI, CO, I, O any](t *testing.T, child *troupe.Workflow[CI, CO], w *troupe.Workflow[I, O], tune ...func(*troupe.Config)) (*troupe.Engine, *troupe.Handle[I, O]) {
	t.Helper()
	config := calm()
	for _, change := range tune {
		change(&config)
	}
	engine, err := troupe.NewInMemory(config)
	require.NoError(t, err)
	_, err = troupe.Register(engine, child)
	require.NoError(t, err)
	return engine, join(t, engine, w)
}

// childOf returns the status of the child run that a step has begun.
func childOf[O any](t *testing.T, engine *troupe.Engine, run *troupe.Run[O], step string) troupe.RunStatus {
	t.Helper()
	status, err := engine.Status(t.Context(), "", stepOf(t, run, step).Child)
	require.NoError(t, err)
	return status
}

// Each of the two tells of the other, in Go and in JSON.
func TestAParentAndItsChildRunTellOfEachOther(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := parent(t, bill(&diary{}), shipping(bill(&diary{})))
		run := begin(t, handle, "slow", troupe.Labels(map[string]string{"team": "a"}))
		require.Equal(t, "running read=completed bill=waiting ship=pending", states(t, run))
		step := stepOf(t, run, "bill")
		child := childOf(t, engine, run, "bill")
		require.Equal(t, child.ID, step.Child)
		require.Equal(t, []any{run.ID(), "bill", "child", "bill", map[string]string{"team": "a"}, ""},
			[]any{child.Parent, child.ParentStep, child.Origin, child.Workflow, child.Labels, child.Key})
		time.Sleep(time.Minute)

		reasons, err := engine.Explain(t.Context(), "", run.ID())
		require.NoError(t, err)
		id := child.ID.String()
		require.Equal(t, explain.Reason{
			Step: "bill", Cause: explain.CauseChild, Text: "waits for run " + id + " of workflow bill, running for 1 m", Run: id, Since: reasons[0].Since,
			Remedy: "troupe explain " + id + " says how that run stands",
		}, reasons[0])
		require.Equal(t, "waits for run "+id+" of workflow bill, running for 1 m ("+reasons[0].Remedy+")", stepOf(t, run, "bill").Waiting)
		for event, err := range run.Events(t.Context()) {
			require.NoError(t, err)
			if event.Kind == "waiting" {
				require.Equal(t, id, event.By)
			}
		}

		page, err := engine.Runs(t.Context(), troupe.Filter{Parent: run.ID()})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.Equal(t, []any{child.ID, run.ID(), ""}, []any{page.Runs[0].ID, page.Runs[0].Parent, page.Runs[0].ParentStep})
		page, err = engine.Runs(t.Context(), troupe.Filter{Origin: "child"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		page, err = engine.Runs(t.Context(), troupe.Filter{Parent: child.ID})
		require.NoError(t, err)
		require.Empty(t, page.Runs)

		text, err := json.Marshal(child)
		require.NoError(t, err)
		require.Contains(t, string(text), `"parent":"`+run.ID().String()+`","parent_step":"bill"`)
		var again troupe.RunStatus
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, child, again)
		text, err = json.Marshal(step)
		require.NoError(t, err)
		require.Contains(t, string(text), `"child":"`+id+`"`)

		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "bill of slow, sent, shipped", out)
		require.Equal(t, "queued started waiting completed", trail(t, run, "bill"))
		require.Equal(t, child.ID, stepOf(t, run, "bill").Child)
		require.Equal(t, `"bill of slow, sent"`, string(stepOf(t, run, "bill").Output))
	})
}

// The steps of a stored definition name the workflow whose runs they begin.
func TestTheStepsOfAParentNameItsChild(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, _ := parent(t, bill(&diary{}), shipping(bill(&diary{})))
		versions, err := engine.Reader().Workflows(t.Context())
		require.NoError(t, err)
		require.Equal(t, "shipping", versions[1].Workflow)
		steps, err := engine.Reader().Steps(t.Context(), versions[1].Definition)
		require.NoError(t, err)
		require.Equal(t, []string{"", "bill", ""}, []string{steps[0].Child, steps[1].Child, steps[2].Child})
	})
}

// A failure of the child run is one of its step: the run fails with it, or a step that holds it by
// Settled handles it.
func TestAChildRunThatFails(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := parent(t, bill(&diary{}), shipping(bill(&diary{})))
		run := begin(t, handle, "broken")
		_, err := run.Await(t.Context())
		child := childOf(t, engine, run, "bill")
		require.Equal(t, []any{troupe.StateFailed, "declined"}, []any{child.State, child.Class})
		var failed *troupe.RunError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, troupe.ErrChildFailed)
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.NotErrorIs(t, err, troupe.ErrChildCanceled)
		text := fmt.Sprintf("child run %v failed: step %q: busy", child.ID, "write")
		require.Equal(t, []any{"bill", "child_failed", text}, []any{failed.Step, failed.Class, failed.Text})
		page, err := engine.Runs(t.Context(), troupe.Filter{Class: "child_failed"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.Equal(t, run.ID(), page.Runs[0].ID)
		reasons, err := engine.Explain(t.Context(), "", run.ID())
		require.NoError(t, err)
		require.Contains(t, reasons[0].Text, "with class child_failed: "+text)

		settled := troupe.Define("settled", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			read := troupe.Step0(b, "read", func(_ context.Context, in string) (string, error) { return in, nil })
			billed := troupe.Child(b, "bill", bill(&diary{}), read)
			return troupe.Step1(b, "end", func(_ context.Context, _ string, got troupe.Outcome[string]) (string, error) {
				_, err := got.Value()
				var failed *troupe.StepError
				require.ErrorAs(t, err, &failed)
				require.ErrorIs(t, err, troupe.ErrChildFailed)
				require.Equal(t, "bill", failed.Step)
				require.Regexp(t, `^child run [0-9a-f-]{36} failed: step "write": busy$`, failed.Text)
				return "handled", nil
			}, troupe.Settled(billed))
		})
		_, other := parent(t, bill(&diary{}), settled)
		out, err := other.Run(t.Context(), "broken")
		require.NoError(t, err)
		require.Equal(t, "handled", out)
	})
}

func TestChildRunsThatAreCanceled(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		engine, handle := parent(t, bill(d), shipping(bill(d)))
		run := begin(t, handle, "slow")
		child := childOf(t, engine, run, "bill")
		require.NoError(t, engine.Cancel(t.Context(), "", child.ID, "too dear"))
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrChildCanceled)
		require.ErrorContains(t, err, "child run "+child.ID.String()+" was canceled: too dear")

		run = begin(t, handle, "slow")
		require.NoError(t, run.Cancel(t.Context(), "not wanted"))
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)
		require.NotErrorIs(t, err, troupe.ErrChildCanceled)
		synctest.Wait()
		child = childOf(t, engine, run, "bill")
		require.Equal(t, []any{troupe.StateCanceled, "the step that waits for this run was canceled"}, []any{child.State, child.CancelReason})
		reasons, err := engine.Explain(t.Context(), "", child.ID)
		require.NoError(t, err)
		require.Equal(t, []any{explain.CauseCanceled, "parent", run.ID().String()}, []any{reasons[0].Cause, reasons[0].By, reasons[0].Run})

		engine, handle = parent(t, bill(d), shipping(bill(d), troupe.AbandonChild()))
		run = begin(t, handle, "slow")
		require.NoError(t, run.Cancel(t.Context(), "not wanted"))
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)
		require.Equal(t, troupe.StateRunning, childOf(t, engine, run, "bill").State)
		time.Sleep(2 * time.Hour)
		require.Equal(t, troupe.StateCompleted, childOf(t, engine, run, "bill").State)
	})
}

// A child run that completes without an output skips its step.
func TestAChildRunWithoutAnOutput(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		maybe := troupe.Define("maybe", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			read := troupe.Step0(b, "read", func(_ context.Context, in string) (string, error) { return in, nil })
			billed := troupe.Child(b, "bill", bill(d), read)
			return troupe.Step1(b, "end", func(_ context.Context, _ string, got troupe.Opt[string]) (string, error) {
				return got.Or("nothing to pay"), nil
			}, troupe.Maybe(billed), troupe.RunIfAllSkipped())
		})
		_, handle := parent(t, bill(d), maybe)
		for in, want := range map[string]string{"free": "nothing to pay", "b": "bill of b, sent"} {
			out, err := handle.Run(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, want, out)
		}
		_, plain := parent(t, bill(d), shipping(bill(d)))
		_, err := plain.Run(t.Context(), "free")
		require.ErrorIs(t, err, troupe.ErrNoOutput)
	})
}

// Conditions look at the output of a child run, and decide whether one begins.
func TestConditionsAroundAChildRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		w := troupe.Define("judged", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			read := troupe.Step0(b, "read", func(_ context.Context, in string) (string, error) { return in, nil })
			billed := troupe.Child(b, "bill", bill(d), read, troupe.SkipIf(read, func(in string) bool { return in == "gift" }))
			long, short := troupe.If(billed, func(text string) bool { return len(text) > 20 })
			say := func(what string) func(context.Context, string, string) (string, error) {
				return func(_ context.Context, _, text string) (string, error) { return what + " " + text, nil }
			}
			one := troupe.Step1(b, "long", say("long"), billed, long)
			other := troupe.Step1(b, "short", say("short"), billed, short)
			return troupe.Step2(b, "end", func(_ context.Context, _ string, one, other troupe.Opt[string]) (string, error) {
				return one.Or(other.Or("no bill")), nil
			}, troupe.Maybe(one), troupe.Maybe(other), troupe.RunIfAllSkipped())
		})
		engine, handle := parent(t, bill(d), w)
		for in, want := range map[string]string{
			"a": "short bill of a, sent", "a long order": "long bill of a long order, sent", "gift": "no bill",
		} {
			run := begin(t, handle, in)
			out, err := run.Await(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, out)
			page, err := engine.Runs(t.Context(), troupe.Filter{Parent: run.ID()})
			require.NoError(t, err)
			require.Len(t, page.Runs, map[bool]int{true: 0, false: 1}[in == "gift"])
		}
	})
}

// A run that continues the parent begins another child run, whose steps have the same keys.
func TestARequeuedParentBeginsAnotherChildRun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		engine, handle := parent(t, bill(d), shipping(bill(d)))
		run := begin(t, handle, "broken")
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrChildFailed)
		requeued, err := engine.DeadLetters().RequeueRun(t.Context(), "", run.ID(), troupe.RequeueOptions{})
		require.NoError(t, err)
		again := handle.Get("", requeued.Run)
		_, err = again.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrChildFailed)
		require.NotEqual(t, stepOf(t, run, "bill").Child, stepOf(t, again, "bill").Child)
		keys := d.all()
		require.Len(t, keys, 2)
		require.Equal(t, keys[0], keys[1])
	})
}

// At most 32 runs are above a run.
func TestChildRunsThatAreNestedTooDeep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, err := troupe.NewInMemory(calm())
		require.NoError(t, err)
		last := troupe.Define("depth-0", func(b *troupe.Builder[int]) troupe.StepRef[int] {
			return troupe.Step0(b, "next", func(_ context.Context, n int) (int, error) { return n, nil })
		})
		const runs = 34
		var handles []*troupe.Handle[int, int]
		for depth := range runs {
			if depth > 0 {
				child := last
				last = troupe.Define(fmt.Sprintf("depth-%d", depth), func(b *troupe.Builder[int]) troupe.StepRef[int] {
					next := troupe.Step0(b, "next", func(_ context.Context, n int) (int, error) { return n + 1, nil })
					return troupe.Child(b, "child", child, next)
				})
			}
			handle, err := troupe.Register(engine, last)
			require.NoError(t, err)
			handles = append(handles, handle)
		}
		require.NoError(t, engine.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
		out, err := handles[runs-2].Run(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, runs-2, out)
		_, err = handles[runs-1].Run(t.Context(), 0)
		require.ErrorIs(t, err, troupe.ErrChildFailed)
		require.Equal(t, runs-2, strings.Count(err.Error(), "child run "), "each names the next one")
		page, err := engine.Runs(t.Context(), troupe.Filter{Class: "too_deep"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.Equal(t, "depth-1", page.Runs[0].Workflow)
		require.Contains(t, page.Runs[0].Error, "32 runs are above this one")
	})
}

// More child runs than one transaction tells are told without a pause.
func TestACancelReachesManyChildRunsAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		child := bill(&diary{})
		many := troupe.Define("many", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			read := troupe.Step0(b, "read", func(_ context.Context, in string) (string, error) { return in, nil })
			for i := range 450 {
				troupe.Child(b, fmt.Sprintf("bill-%d", i), child, read)
			}
			return read
		})
		engine, handle := parent(t, child, many)
		run := begin(t, handle, "slow")
		require.NoError(t, run.Cancel(t.Context(), "not wanted"))
		synctest.Wait()
		page, err := engine.Runs(t.Context(), troupe.Filter{Parent: run.ID(), States: []troupe.State{troupe.StateRunning}})
		require.NoError(t, err)
		require.Empty(t, page.Runs)
	})
}
