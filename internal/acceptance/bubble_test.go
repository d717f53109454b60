package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// virtual runs a test in a bubble of testing/synctest, where a day passes as soon
// as nothing else can happen.
func virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// calm is a configuration with long intervals, so that a virtual day is cheap. No
// test waits for one of them.
func calm() troupe.Config {
	return troupe.Config{
		Pulse: time.Hour, Lease: 3 * time.Hour, Sweep: time.Hour, SweepDegraded: time.Hour,
		LeaderPing: time.Hour, LeaderSilence: 2 * time.Hour, LeaderTry: time.Hour,
		StopGrace: 24 * time.Hour, // a bubble must not end before its goroutines
	}
}

// start runs a workflow on an engine in memory until the test ends.
func start[I, O any](t *testing.T, w troupe.Definition[I, O], tune ...func(*troupe.Config)) (*troupe.Engine, *troupe.Handle[I, O]) {
	t.Helper()
	config := calm()
	for _, change := range tune {
		change(&config)
	}
	engine, err := troupe.NewInMemory(config)
	require.NoError(t, err)
	return engine, join(t, engine, w)
}

// join registers a workflow with an engine and runs it until the test ends.
func join[I, O any](t *testing.T, engine *troupe.Engine, w troupe.Definition[I, O]) *troupe.Handle[I, O] {
	t.Helper()
	handle, err := troupe.Register(engine, w)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	return handle
}

func slots(n int) func(*troupe.Config) { return func(c *troupe.Config) { c.Slots = n } }

// begin triggers a run and lets everything happen that can without time
// moving on.
func begin[I, O any](t *testing.T, handle *troupe.Handle[I, O], in I, options ...troupe.TriggerOption) *troupe.Run[O] {
	t.Helper()
	run, err := handle.RunNoWait(t.Context(), in, options...)
	require.NoError(t, err)
	synctest.Wait()
	return run
}

// states returns the state of the run and of each step as one text:
// "running a=completed b=sleeping".
func states[O any](t *testing.T, run *troupe.Run[O]) string {
	t.Helper()
	status, err := run.Status(t.Context())
	require.NoError(t, err)
	text := status.State.String()
	for _, step := range status.Steps {
		text += fmt.Sprintf(" %s=%v", step.Name, step.State)
	}
	return text
}

// stepOf returns one step of a run.
func stepOf[O any](t *testing.T, run *troupe.Run[O], name string) troupe.StepStatus {
	t.Helper()
	status, err := run.Status(t.Context())
	require.NoError(t, err)
	at := slices.IndexFunc(status.Steps, func(s troupe.StepStatus) bool { return s.Name == name })
	require.GreaterOrEqual(t, at, 0, "step %q", name)
	return status.Steps[at]
}

// trail returns the kinds of the events of one step, or of the run itself: "".
func trail[O any](t *testing.T, run *troupe.Run[O], step string) string {
	t.Helper()
	var kinds []string
	for event, err := range run.Events(t.Context()) {
		require.NoError(t, err)
		if event.Step != step {
			continue
		}
		kinds = append(kinds, event.Kind)
		require.EqualValues(t, len(kinds), event.N, "events of %q have no gaps", step)
	}
	return strings.Join(kinds, " ")
}

// diary is what step functions, each on a goroutine of its own, note.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// gives returns a step function without parents that notes its call.
func gives[I, O any](d *diary, name string, out O) func(context.Context, I) (O, error) {
	return func(context.Context, I) (O, error) {
		d.note("%s", name)
		return out, nil
	}
}

// passes returns a step function with one parent whose output it returns, with
// its own name behind it.
func passes[I any](d *diary, name string) func(context.Context, I, string) (string, error) {
	return func(_ context.Context, _ I, got string) (string, error) {
		d.note("%s", name)
		return got + "→" + name, nil
	}
}
