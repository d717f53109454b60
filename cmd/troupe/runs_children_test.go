package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A run names its parent, and each step the child run that it has begun.
func TestPrintAFamily(t *testing.T) {
	t.Parallel()
	id := func(digit string) troupe.RunID {
		run, err := troupe.ParseRunID("0190c2f3-7a1b-7c3d-8e4f-00000000000" + digit)
		require.NoError(t, err)
		return run
	}
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	r := troupe.RunStatus{
		ID: id("2"), Workflow: "bills", Tenant: "acme", State: troupe.StateRunning, Origin: "child", Parent: id("1"), ParentStep: "bill",
		CreatedAt: at, StartedAt: at,
		Steps: []troupe.StepStatus{
			{Name: "read", State: troupe.StateCompleted, Attempt: 1, OutputSize: 2},
			{
				Name: "pay", State: troupe.StateWaiting, Attempt: 1, OutputSize: -1, Child: id("3"),
				Waiting: "waits for run " + id("3").String() + " of workflow payments, running for 3 h (troupe explain " + id("3").String() + " says how that run stands)",
			},
			{Name: "post", State: troupe.StateFailed, OutputSize: -1, Child: id("4"), Class: "child_failed", Error: "child run " + id("4").String() + ` failed: step "print": no paper`},
		},
	}
	var out strings.Builder
	require.NoError(t, printRun(&out, &r))
	require.Regexp(t, `parent +`+id("1").String()+`, step bill\n`, out.String())
	require.Regexp(t, `triggered +\S+, by child\n`, out.String())
	require.Regexp(t, `STEP +STATE +ATTEMPT +POD +STARTED +TOOK +OUTPUT +CHILD +WHY\n`, out.String())
	require.Regexp(t, `read +completed +1 +- +- +- +2 B +- +-\n`, out.String())
	require.Regexp(t, `pay +waiting +1 +- +- +- +- +`+id("3").String()+` +waits for a run of workflow payments, running for 3 h\n`, out.String())
	require.Regexp(t, `post +failed +- +- +- +- +- +`+id("4").String()+` +child_failed: child run failed: step "print": no paper\n`, out.String())

	r.Parent, r.Steps = troupe.RunID{}, r.Steps[:1]
	out.Reset()
	require.NoError(t, printRun(&out, &r))
	require.NotContains(t, out.String(), "parent")
	require.NotContains(t, out.String(), "CHILD")
}

// The child runs of a run are listed with the steps that began them. A failure has its cause there,
// and the id of the child run where that run is shown alone.
func TestPrintChildRuns(t *testing.T) {
	t.Parallel()
	const parent, one, two = "0190c2f3-7a1b-7c3d-8e4f-000000000001", "0190c2f3-7a1b-7c3d-8e4f-000000000002", "0190c2f3-7a1b-7c3d-8e4f-000000000003"
	id := func(text string) troupe.RunID {
		run, err := troupe.ParseRunID(text)
		require.NoError(t, err)
		return run
	}
	failed := troupe.RunStatus{
		ID: id(one), State: troupe.StateFailed, Workflow: "bills", Parent: id(parent), FailedStep: "pay", Class: "child_failed",
		Error: "child run " + two + ` failed: step "charge": ` + strings.Repeat("x", 100),
	}
	page := &troupe.RunPage{Runs: []troupe.RunStatus{failed, {ID: id(two), State: troupe.StateRunning, Workflow: "bills", Parent: id(parent)}}}
	l := &listFlags{}
	l.name(page, &troupe.RunStatus{Steps: []troupe.StepStatus{{Name: "read"}, {Name: "bill", Child: id(one)}}})
	var out strings.Builder
	require.NoError(t, l.print(&out, page))
	require.Regexp(t, `RUN +STEP +STATE `, out.String())
	require.Regexp(t, one+` +bill +failed +.* pay: child_failed: child run failed: step "charge": x+…\n`, out.String())
	require.Regexp(t, two+` +- +running `, out.String())

	out.Reset()
	require.NoError(t, printRun(&out, &failed))
	require.Regexp(t, `why +pay: child_failed: child run `+two+` failed: step "charge": x{100}\n`, out.String())
}

// An event of a step that waits names the signal, or the run.
func TestTheEventOfAStepThatWaits(t *testing.T) {
	t.Parallel()
	const run = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	require.Equal(t, "run "+run, eventText(&troupe.Event{Kind: "waiting", By: run}))
	require.Equal(t, "signal approved", eventText(&troupe.Event{Kind: "waiting", By: "approved"}))
	require.Equal(t, "by child", eventText(&troupe.Event{Kind: "skipped", By: "child"}))
	require.Empty(t, eventText(&troupe.Event{Kind: "waiting"}))
}

// A step of a stored workflow names the workflow whose runs it begins.
func TestAStepWithAChildRunOfAStoredWorkflow(t *testing.T) {
	t.Parallel()
	step := stepsOf([]troupe.WorkflowStep{{Name: "bill", Child: "bills"}})[0]
	require.Equal(t, "bills", *step.Child)
	require.Equal(t, "run of bills", kindText(step))
}

// Both ways to list child runs say what is wrong with a call.
func TestCallsForChildRunsThatAreWrong(t *testing.T) {
	t.Parallel()
	const id = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	for want, args := range map[string][]string{
		"troupe runs children takes the id of one run, got 0 arguments": {"runs", "children"},
		`"bills" is not the id of a run`:                                {"runs", "children", "bills"},
		`--state is "done": use one of`:                                 {"runs", "children", id, "--state", "done"},
		"--limit is 0: use 1 to":                                        {"runs", "children", id, "--limit", "0"},
		"--before is empty":                                             {"runs", "children", id, "--before", ""},
		`--parent is "bills", which is not the id of a run`:             {"runs", "list", "--parent", "bills"},
		"--parent is empty":                                             {"runs", "list", "--parent", ""},
		"unknown flag: --workflow":                                      {"runs", "children", id, "--workflow", "w"},
	} {
		code, out, problem := call([]string{"TROUPE_DATABASE_URL=postgres://127.0.0.1:1/none"}, args...)
		require.Equal(t, exitUsage, code, "%v: %s", args, problem)
		require.Empty(t, out)
		require.Contains(t, problem, want)
	}
}
