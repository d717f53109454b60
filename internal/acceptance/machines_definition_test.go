package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

type machineBuilder = *statemachine.Builder[int, tally, []string]

func job(context.Context, int) (string, error) { return "", nil }

// foreignActivity is one of another machine.
func foreignActivity() (foreign statemachine.ActivityRef[int, string]) {
	machineOf(func(m machineBuilder) { foreign = statemachine.Activity(m, "foreign", job) })
	return foreign
}

// Each mistake of a declaration is a problem with a remedy, and all of them are reported at once.
func TestProblemsOfMachines(t *testing.T) {
	t.Parallel()
	started := func(m machineBuilder) { m.OnStart(func(*acting, int) {}) }
	for name, c := range map[string]struct {
		build    func(m machineBuilder)
		problems []string // step and field
	}{
		"no OnStart":  {func(machineBuilder) {}, []string{"machine OnStart"}},
		"two OnStart": {func(m machineBuilder) { started(m); started(m) }, []string{"machine OnStart"}},
		"nil OnStart": {func(m machineBuilder) { m.OnStart(nil) }, []string{"machine OnStart", "machine OnStart"}},
		"nil activity": {func(m machineBuilder) {
			started(m)
			statemachine.Activity[int, tally, []string, int, string](m, "job", nil)
		}, []string{"job function"}},
		"nil option": {func(m machineBuilder) { started(m); statemachine.Activity(m, "job", job, nil) }, []string{"job options[0]"}},
		"a name twice": {func(m machineBuilder) {
			started(m)
			m.OnTimer(m.Timer("job"), func(*acting) {})
			statemachine.Activity(m, "job", job)
		}, []string{"job name"}},
		"the own name":    {func(m machineBuilder) { started(m); statemachine.Activity(m, "machine", job) }, []string{"machine name"}},
		"timer unhandled": {func(m machineBuilder) { started(m); m.Timer("alarm") }, []string{"alarm OnTimer"}},
		"two handlers": {func(m machineBuilder) {
			started(m)
			jobs := statemachine.Activity(m, "job", job)
			for range 2 {
				statemachine.OnCompleted(m, jobs, func(*acting, string) {})
				m.OnFailed(jobs, func(*acting, *troupe.StepError) {})
				statemachine.OnSignal(m, goOn, func(*acting, string) {})
			}
		}, []string{"job OnCompleted", "job OnFailed", "go OnSignal"}},
		"nil handlers": {func(m machineBuilder) {
			started(m)
			jobs := statemachine.Activity(m, "job", job)
			statemachine.OnCompleted(m, jobs, nil)
			m.OnFailed(jobs, nil)
			m.OnCancel(time.Second, nil)
		}, []string{"job OnCompleted", "job OnFailed", "machine OnCancel"}},
		"refs": {func(m machineBuilder) {
			started(m)
			statemachine.OnCompleted(m, foreignActivity(), func(*acting, string) {})
			m.OnFailed(statemachine.ActivityRef[int, string]{}, func(*acting, *troupe.StepError) {})
			m.OnFailed(nil, func(*acting, *troupe.StepError) {})
		}, []string{"foreign OnCompleted", " OnFailed", " OnFailed"}},
		"OnCancel at once": {func(m machineBuilder) { started(m); m.OnCancel(0, func(*acting, string) {}) }, []string{"machine OnCancel"}},
		"Version 2 alone":  {func(m machineBuilder) { started(m); m.Version(2, nil) }, []string{"machine Version"}},
		"a timer fails": {func(m machineBuilder) {
			started(m)
			alarm := m.Timer("alarm")
			m.OnTimer(alarm, func(*acting) {})
			m.OnFailed(alarm, func(*acting, *troupe.StepError) {})
		}, []string{"alarm OnFailed"}},
		"a nil child": {func(m machineBuilder) {
			started(m)
			statemachine.Child[int, tally, []string, int, int](m, "sub", (*troupe.Workflow[int, int])(nil))
		}, []string{"sub workflow"}},
	} {
		requireProblems(t, name, c.build, c.problems)
	}
	require.Error(t, statemachine.Define[int, tally, []string]("none", nil).Validate())
}

// requireProblems checks that a declaration has these problems, each with a remedy.
func requireProblems(t *testing.T, name string, build func(m machineBuilder), problems []string) {
	t.Helper()
	err := machineOf(build).Validate()
	var definition *troupe.DefinitionError
	require.ErrorAs(t, err, &definition, name)
	var got []string
	for _, p := range definition.Problems {
		got = append(got, p.Step+" "+p.Field)
		require.NotEmpty(t, p.Text, name)
		require.NotEmpty(t, p.Remedy, name)
	}
	require.Subset(t, got, problems, name)
	require.GreaterOrEqual(t, len(got), len(problems), name)
	engine, err := troupe.NewInMemory(troupe.Config{})
	require.NoError(t, err)
	_, err = troupe.Register(engine, machineOf(build))
	require.ErrorAs(t, err, &definition, name)
}

// A builder that is used after Define has returned changes nothing.
func TestABuilderOfAMachineIsOver(t *testing.T) {
	t.Parallel()
	var kept machineBuilder
	m := machineOf(func(m machineBuilder) {
		kept = m
		m.OnStart(func(*acting, int) {})
	})
	kept.OnStart(nil)
	kept.Timer("late")
	statemachine.Activity(kept, "later", job)
	require.NoError(t, m.Validate())
}

// What a handler does wrong fails the machine, with a class.
func TestWhatHandlersGetWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle      func(a *acting, m *machineRefs)
		class, text string
	}{
		"another machine's":  {func(a *acting, _ *machineRefs) { foreignActivity().Start(a, 1) }, "panic", `Start of "foreign", which is of machine "tallies"`},
		"an empty ref":       {func(a *acting, _ *machineRefs) { statemachine.TimerRef{}.Start(a, time.Second) }, "panic", "Start of an empty ref"},
		"too long":           {func(a *acting, m *machineRefs) { m.alarm.Start(a, 200*365*24*time.Hour) }, "panic", "is over 100 years"},
		"too far":            {func(a *acting, m *machineRefs) { m.alarm.StartAt(a, a.Now().AddDate(200, 0, 0)) }, "panic", "is over 100 years away"},
		"unknown id":         {func(a *acting, _ *machineRefs) { a.Cancel("job#77") }, "panic", `Cancel("job#77"): the machine has started nothing under this id`},
		"ends twice":         {func(a *acting, _ *machineRefs) { a.Complete(nil); a.Fail(errors.New("x")) }, "panic", "the machine has ended already"},
		"fails of nothing":   {func(a *acting, _ *machineRefs) { a.Fail(nil) }, "panic", "Fail was called without an error"},
		"fails":              {func(a *acting, _ *machineRefs) { a.Fail(errors.New("no stock")) }, "machine", "no stock"},
		"fails with a class": {func(a *acting, _ *machineRefs) { a.Fail(troupe.Class("stock", errors.New("no stock"))) }, "stock", "no stock"},
		"too many actions": {func(a *acting, m *machineRefs) {
			for range 1001 {
				m.jobs.Start(a, 1)
			}
		}, "too_many_actions", "more than 1000"},
		"too large a state": {func(a *acting, _ *machineRefs) { a.State.Asked = string(make([]byte, 5<<20)) }, "too_large", "state of the machine"},
		"no text":           {func(a *acting, _ *machineRefs) { a.State.Asked = "\xff" }, "encoding", "encode the state of type acceptance.tally"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				refs := &machineRefs{}
				_, handle := startMachine(t, machineOf(func(m machineBuilder) {
					refs.jobs, refs.alarm = statemachine.Activity(m, "job", job), m.Timer("alarm")
					m.OnTimer(refs.alarm, func(*acting) {})
					m.OnStart(func(*acting, int) {})
					statemachine.OnSignal(m, goOn, func(a *acting, _ string) { c.handle(a, refs) })
				}))
				run := begin(t, handle, 1)
				require.NoError(t, goOn.Send(t.Context(), run, ""))
				_, err := run.Await(t.Context())
				var failed *troupe.RunError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, c.class, failed.Class, failed.Text)
				require.Equal(t, "machine", failed.Step)
				require.Contains(t, failed.Text, c.text)
			})
		})
	}
}

type machineRefs struct {
	jobs  statemachine.ActivityRef[int, string]
	alarm statemachine.TimerRef
}

// An activation is over when its handler has returned.
func TestAnActivationThatIsKept(t *testing.T) {
	t.Parallel()
	var kept *acting
	var jobs statemachine.ActivityRef[int, string]
	machineOf(func(m machineBuilder) {
		jobs = statemachine.Activity(m, "job", job)
		m.OnStart(func(a *acting, _ int) {
			kept = a
			jobs.Start(a, 1)
		})
	}).Test(1)
	for what, call := range map[string]func(){
		`Start of "job"`: func() { jobs.Start(kept, 1) },
		"Complete":       func() { kept.Complete(nil) },
		"Fail":           func() { kept.Fail(errBusy) },
		"Cancel":         func() { kept.Cancel("job#1") },
	} {
		require.PanicsWithValue(t, "statemachine: "+what+" was called outside a handler of the machine, or after that had returned", call)
	}
}
