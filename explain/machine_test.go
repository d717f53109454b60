package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// A machine that waits says for what, and when it was active last.
func TestExplainAMachine(t *testing.T) {
	t.Parallel()
	machine := explain.Task{Name: "machine", State: lifecycle.Waiting, Machine: true, Hears: []string{"noted", "paid"}, Since: in(-4 * time.Second)}
	child := workflow.RunID{15: 9}
	running := explain.Task{Step: 1001, Name: "charge#1", State: lifecycle.Running, Pod: 1, StartedAt: in(-time.Second), Spawned: true}
	timer := explain.Task{Step: 1002, Name: "window#2", State: lifecycle.Sleeping, Timer: in(12 * time.Minute), Spawned: true}
	sub := explain.Task{Step: 1003, Name: "sub#3", State: lifecycle.Waiting, Child: explain.ChildRun{Run: child, Workflow: "w", State: lifecycle.Running}, Spawned: true}
	later := explain.Task{Step: 1004, Name: "charge#4", State: lifecycle.Backoff, Timer: in(time.Second), Spawned: true}

	reasons := explain.Explain(usual(machine, running, timer))
	require.Len(t, reasons, 1, "what runs and what sleeps is told with the machine")
	require.Equal(t, explain.Reason{
		Step: "machine", Cause: explain.CauseMachine, Since: in(-4 * time.Second), On: []string{"charge#1", "window#2"},
		Text: "waits: charge#1 runs on pod (1), window#2 fires in 12 m, it hears noted and paid; its last activation was 4 s ago",
	}, reasons[0])

	reasons = explain.Explain(usual(machine, timer, sub, later, running, timer))
	require.Len(t, reasons, 3)
	require.Contains(t, reasons[0].Text, fmt.Sprintf("waits: window#2 fires in 12 m, sub#3 waits for run %v, charge#4 is tried again in 1 s, 2 more are open, it hears", child))
	require.Equal(t, explain.CauseChild, reasons[1].Cause)
	require.Equal(t, explain.CauseBackoff, reasons[2].Cause)

	s := usual(machine)
	s.Fenced = in(time.Minute)
	r := explain.Explain(s)[0]
	require.Equal(t, "waits: it hears noted and paid; its last activation was 4 s ago; it was asked to stop and may go on, and is canceled in 1 m unless it ends", r.Text)
	require.Equal(t, in(time.Minute), r.Until)
	require.Contains(t, r.Remedy, "noted JSON sends it one")

	many := []explain.Task{machine}
	for i := range 5000 {
		many = append(many, explain.Task{Step: int32(1001 + i), Name: fmt.Sprintf("charge#%d", i+1), State: lifecycle.Backoff, Timer: in(time.Second), Spawned: true})
	}
	reasons = explain.Explain(usual(many...))
	require.Len(t, reasons, 11)
	require.Contains(t, reasons[0].Text, "4,997 more are open")

	machine.Hears = nil
	require.Equal(t, explain.CauseNone, explain.Explain(usual(machine))[0].Cause)
}

// An activation that fails again and again because another program is needed says which one.
func TestExplainAMachineOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for class, remedy := range map[string]string{
		lifecycle.ClassStateVersion: "deploy the program that knows this version of the state",
		lifecycle.ClassUnknownEntry: "deploy a program that declares it",
		"panic":                     "",
	} {
		r := explain.Explain(usual(explain.Task{
			Name: "machine", State: lifecycle.Backoff, Machine: true, Attempt: 3, Timer: in(time.Second), Class: class, Error: "it does not fit",
		}))[0]
		require.Equal(t, "tried 3 times, again in 1 s: it does not fit", r.Text)
		require.Contains(t, r.Remedy, remedy)
		require.Equal(t, remedy == "", r.Remedy == "")
	}
}
