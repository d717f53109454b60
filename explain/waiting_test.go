package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// A step behind one that waits for a signal says what that waits for, and until when.
func TestExplainAStepBehindAWait(t *testing.T) {
	t.Parallel()
	s := usual(
		explain.Task{
			Step: 0, Name: "approve", State: lifecycle.Waiting, Signal: "approved", Since: in(-time.Hour), Timer: in(time.Hour),
			Children: []workflow.Child{{Step: 1, Kind: workflow.Plain}},
		},
		explain.Task{Step: 1, Name: "ship", State: lifecycle.Pending, Pending: 1},
	)
	reasons := explain.Explain(s)
	require.Len(t, reasons, 2)
	require.Equal(t, in(time.Hour), reasons[0].Until)
	require.Equal(t, in(-time.Hour), reasons[0].Since)
	require.Equal(t, explain.CauseParents, reasons[1].Cause)
	require.Equal(t, `waits for approve, which waits for the signal "approved" since 1 h, fails in 1 h`, reasons[1].Text)
	require.Equal(t, in(time.Hour), reasons[1].Until)
	require.Equal(t, reasons[0].Remedy, reasons[1].Remedy)
}

// A signal that is stored and not delivered is not asked for again, also after the deadline.
func TestExplainASignalThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	for _, deadline := range []time.Time{{}, in(time.Minute), in(-time.Minute)} {
		s := usual(explain.Task{Name: "approve", State: lifecycle.Waiting, Signal: "approved", Since: in(-time.Hour), Timer: deadline, Sent: true})
		reason := explain.Explain(s)[0]
		require.Equal(t, explain.CauseIntake, reason.Cause)
		require.Equal(t, `waits for the signal "approved", which was sent and is not delivered`, reason.Text)
		require.NotContains(t, reason.Remedy, "runs signal")
		s.Locks = []explain.Lock{{PID: 4}}
		require.Equal(t, explain.CauseLocked, explain.Explain(s)[0].Cause)
		s.Locks, s.Pods = nil, nil
		require.Equal(t, explain.CauseNoPod, explain.Explain(s)[0].Cause)
	}
}

// A step that waits for its child run says how that stands, and where to ask on.
func TestExplainAStepWithAChildRun(t *testing.T) {
	t.Parallel()
	run := workflow.RunID{7}
	task := explain.Task{
		Name: "bill", State: lifecycle.Waiting, Since: in(-2 * time.Hour),
		Child: explain.ChildRun{Run: run, Workflow: "bills", State: lifecycle.Running, Since: in(-time.Hour)},
	}
	reason := explain.Explain(usual(task))[0]
	require.Equal(t, explain.Reason{
		Step: "bill", Cause: explain.CauseChild, Text: "waits for run " + run.String() + " of workflow bills, running for 1 h", Run: run.String(),
		Since: in(-2 * time.Hour), Remedy: "troupe explain " + run.String() + " says how that run stands",
	}, reason)
	task.Child.State = lifecycle.Pending
	require.Equal(t, "waits for run "+run.String()+" of workflow bills, which has not begun for 1 h", explain.Explain(usual(task))[0].Text)
	for _, ended := range []lifecycle.State{0, lifecycle.Completed, lifecycle.Failed, lifecycle.Canceled} {
		task.Child.State, task.Child.Since = ended, time.Time{}
		reason = explain.Explain(usual(task))[0]
		require.Equal(t, explain.CauseIntake, reason.Cause)
		require.Equal(t, "waits for run "+run.String()+" of workflow bills, whose end is not delivered", reason.Text)
	}
	s := usual(task)
	s.Locks = []explain.Lock{{PID: 4}}
	require.Equal(t, explain.CauseLocked, explain.Explain(s)[0].Cause)
}

// A map that waits counts its elements; those that do not run have reasons of their own.
func TestExplainAMap(t *testing.T) {
	t.Parallel()
	wake := in(time.Minute)
	tasks := []explain.Task{
		{Step: 1, Name: "files", State: lifecycle.Waiting, Since: in(-time.Hour), Map: explain.MapState{Items: 12_000, Left: 11_000, Open: 37, Running: 20, Failed: 3}},
		{Step: 7, Name: "files[3]", State: lifecycle.Running, Element: 1, Pod: 1, StartedAt: in(-time.Second)},
	}
	for range 12 {
		tasks = append(tasks, explain.Task{Step: 8, Name: "files[4]", State: lifecycle.Backoff, Element: 1, Timer: wake, Attempt: 2, Error: "busy"})
	}
	reasons := explain.Explain(usual(tasks...))
	require.Equal(t, explain.Reason{
		Step: "files", Cause: explain.CauseElements, Since: in(-time.Hour),
		Text: "waits for its elements: 37 of 12,000 are open, of which 20 run; 11,000 have not begun; 3 have failed",
	}, reasons[0])
	require.Len(t, reasons, 11)
	require.Equal(t, "files[4]: tried twice, again in 1 m: busy", reasons[1].String())
	tasks[0].Map = explain.MapState{Items: 1, Open: 1, Running: 1}
	require.Equal(t, "waits for its elements: 1 of 1 is open, of which 1 runs", explain.Explain(usual(tasks[0]))[0].Text)
	tasks[0].Map = explain.MapState{Items: 123, Open: 2, Left: 1, Failed: 1}
	require.Equal(t, "waits for its elements: 2 of 123 are open; 1 has not begun; 1 has failed", explain.Explain(usual(tasks[0]))[0].Text)
	tasks[0].Map = explain.MapState{Items: 20, Open: 1, Running: 1, Left: 12, Failed: 6}
	tasks[0].Class, tasks[0].Error = lifecycle.ClassElementFailed, "element 0 of 20 failed: no such file"
	require.Equal(t, "waits for its elements: 1 of 20 is open, of which 1 runs; then it fails, and no others begin: element 0 of 20 failed: no such file",
		explain.Explain(usual(tasks[0]))[0].Text)
}

// A child run that was canceled with its parent names it, and one that has not begun, too.
func TestExplainAChildRun(t *testing.T) {
	t.Parallel()
	parent := workflow.RunID{8}
	s := usual()
	s.State, s.Parent, s.End = lifecycle.Canceled, parent, explain.End{At: in(-time.Hour), CanceledBy: "parent", CancelReason: "why"}
	require.Equal(t, []explain.Reason{{
		Cause: explain.CauseCanceled, Text: "the run was canceled 1 h ago, by parent: why", Since: in(-time.Hour), By: "parent", CancelReason: "why",
		Run: parent.String(), Remedy: "troupe explain " + parent.String() + " says how that run stands",
	}}, explain.Explain(s))
	s.End.CanceledBy = "api"
	require.Empty(t, explain.Explain(s)[0].Run)
	s = usual()
	s.State, s.Submitted, s.Parent = lifecycle.Pending, true, parent
	require.Equal(t, "it was begun by a step of run "+parent.String()+" and waits in the intake", explain.Explain(s)[0].Text)
}

// Pods that are older and those that have no slots hold a run back alike; dead ones do not.
func TestExplainNamesAllOlderPods(t *testing.T) {
	t.Parallel()
	s := usual()
	s.State, s.Submitted, s.Protocol = lifecycle.Pending, true, 3
	s.Pods = []explain.Pod{{ID: 1, Name: "b", Protocol: 2}, {ID: 2, Name: "a", Protocol: 0, Expires: in(-time.Hour)}, {ID: 3, Name: "c", Protocol: 2, Dead: true}}
	reasons := explain.Explain(s)
	require.Len(t, reasons, 1)
	require.Equal(t, "it begins when pods of an older version have left, which do not know its workflow: a (2) and b (1)", reasons[0].Text)
	require.Equal(t, "a (2)", reasons[0].Pod)
	s.Pods = s.Pods[2:]
	require.Equal(t, explain.CauseNoPod, explain.Explain(s)[0].Cause)
}
