package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// body is a step function without its types.
type body func(ctx context.Context, in Inputs) (Output, error)

// world is a database and the pods on it, in a bubble of synctest: time is
// virtual, and moves only when every goroutine waits.
type world struct {
	t         *testing.T
	store     *memory.Store
	bus       *local.Bus
	functions map[int32]StepFunction
	graphs    map[string]*workflow.Graph
	pods      []*Pod

	look   Evaluate // of the pods to come; nil: evaluate
	faults faulty   // in front of the store
	pooling
	ahead  atomic.Int64   // of time, the clock of the database
	stream cluster.Stream // of the pods to come
	sent   sent           // what was sent to actors, in order
	system *System        // of the pods to come; nil: one each
	hosting
	done chan struct{} // closed at the end: unresponsive functions return then
}

// inBubble runs a test in a world of its own, in parallel with others.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	serially(t, f)
}

// bubble is inBubble for a case of a table.
func bubble(f func(t *testing.T, w *world)) func(t *testing.T) {
	return func(t *testing.T) { inBubble(t, f) }
}

// serially runs a test in a world of its own.
func serially(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, functions: map[int32]StepFunction{},
			graphs: map[string]*workflow.Graph{}, done: make(chan struct{}),
		}
		store := memory.New(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }})
		w.store, w.bus, w.faults.Store = store, local.NewBus(store), store
		defer func() {
			close(w.done)
			for _, p := range w.pods {
				p.Kill()
			}
			require.Empty(t, snapshot.Check(store.Snapshot()))
		}()
		f(t, w)
	})
}

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }

// register makes a workflow known, all of whose steps do the same.
func (w *world) register(g *workflow.Graph, do body, change ...func(*StepFunction)) {
	w.t.Helper()
	numbers, err := w.store.RegisterDefinitions(w.t.Context(), []*workflow.Graph{g}, []string{DefaultQueue})
	require.NoError(w.t, err)
	w.graphs[g.Name] = g
	for i, number := range numbers[0] {
		if i >= len(g.Nodes) {
			break
		}
		f := StepFunction{Workflow: g.Name, Step: g.Nodes[i].Name, Fingerprint: g.Nodes[i].Fingerprint, First: g.Nodes[i].Pending == 0, Call: do}
		for _, c := range change {
			c(&f)
		}
		w.functions[number] = f
	}
}

func (w *world) evaluate(trigger *persistence.Trigger) error {
	g := w.graphs[trigger.Workflow]
	switch {
	case g == nil:
		return ErrUnknownWorkflow
	case string(trigger.Input) == "bad":
		return errors.New("the input is bad")
	}
	trigger.Definition = g.Hash
	return nil
}

func (w *world) start(config Config) *Pod {
	w.t.Helper()
	number := &atomic.Int64{}
	look := w.evaluate
	if w.look != nil {
		look = w.look
	}
	p, err := Start(w.t.Context(), Options{
		System: w.system, Executor: w.executor, Metrics: w.metrics, Log: w.log,
		Ports: Ports{
			Store: cmp.Or[persistence.Store](w.pool, &w.faults), Listener: cmp.Or[cluster.Listener](w.listener, w.bus), Stream: w.stream, Notifier: cmp.Or[cluster.Notifier](w.notifier, w.bus), Elector: w.bus.Elector(number.Load),
		},
		Functions: w.functions, Evaluate: look, Config: config, Joined: number.Store,
		Mailbox: func() actor.Mailbox { return &tapped{Mailbox: newMailbox(), sent: &w.sent} },
	})
	require.NoError(w.t, err)
	w.pods = append(w.pods, p)
	return p
}

// untilEnded is a step that waits for the end of its context, and tells the cause.
func untilEnded(causes chan<- error) body {
	return func(ctx context.Context, _ Inputs) (Output, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return Output{}, ctx.Err()
	}
}

// untilClosed is a step that ignores the end of its context.
func untilClosed(gate <-chan struct{}) body {
	return func(context.Context, Inputs) (Output, error) {
		<-gate
		return Output{}, nil
	}
}

// single starts a pod that knows one workflow, of a single step.
func (w *world) single(do body, config Config) *Pod {
	w.t.Helper()
	w.register(storetest.Single(), do)
	return w.start(config)
}

// trigger stores a run of a workflow.
func (w *world) trigger(p *Pod, name string) workflow.RunID {
	w.t.Helper()
	return w.stores(p, []persistence.Trigger{w.order(name)})[0].Run
}

// many stores runs, one after the other.
func (w *world) many(p *Pod, name string, n int) (runs []workflow.RunID) {
	w.t.Helper()
	for range n {
		runs = append(runs, w.trigger(p, name))
	}
	return runs
}

// stores stores triggers at once.
func (w *world) stores(p *Pod, triggers []persistence.Trigger) []persistence.TriggerAnswer {
	w.t.Helper()
	answers, refused, err := p.Trigger(w.t.Context(), triggers)
	require.NoError(w.t, err)
	require.Nil(w.t, refused)
	return answers
}

func (w *world) cancel(p *Pod, c persistence.Cancel) {
	w.t.Helper()
	_, err := p.Cancel(w.t.Context(), c)
	require.NoError(w.t, err)
}

func (w *world) tasks(run workflow.RunID) []persistence.TaskRow {
	w.t.Helper()
	tasks, err := w.store.Tasks(w.t.Context(), "", run)
	require.NoError(w.t, err)
	return tasks
}

func (w *world) order(name string) persistence.Trigger {
	return persistence.Trigger{Workflow: name, Definition: w.graphs[name].Hash, Tenant: "default", Input: []byte("{}")}
}

// ended waits for the end of a run, for at most an hour.
func (w *world) ended(run workflow.RunID) persistence.RunRow {
	w.t.Helper()
	for range 3600 * 10 {
		row, err := w.store.Run(w.t.Context(), "", run)
		require.NoError(w.t, err)
		if row.State.Terminal() {
			return row
		}
		pass(100 * time.Millisecond)
	}
	require.FailNow(w.t, "the run does not end")
	return persistence.RunRow{}
}

func (w *world) completed(runs ...workflow.RunID) {
	w.t.Helper()
	for _, run := range runs {
		row := w.ended(run)
		require.Equal(w.t, lifecycle.Completed, row.State, "%v: %s", run, row.Error)
	}
}

// sent is the messages that were put into mailboxes, by type, in order.
type sent struct {
	mu    sync.Mutex
	names []string
	hooks
}

func (s *sent) note(message any) {
	if e, ok := message.(*actor.MessageEnvelope); ok {
		message = e.Message
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", message), "*messages."), "*actors."))
}

// list returns those of the given names, in order, repetitions left out.
func (s *sent) list(names ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, seen := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var list []string
	for _, name := range s.names {
		if wanted[name] && !seen[name] {
			seen[name] = true
			list = append(list, name)
		}
	}
	return list
}

// tapped is a mailbox that notes its messages.
type tapped struct {
	actor.Mailbox

	sent *sent
}

func (m *tapped) PostUserMessage(message any) {
	if m.sent.note(message); !m.sent.loses(message) {
		m.Mailbox.PostUserMessage(message)
	}
}

// children asks a supervisor for the names of its children.
func (w *world) children(p *Pod, of *PID) []string {
	names := make(chan []string, 1)
	p.rt.send(of, &listChildren{to: names})
	return <-names
}

// kill makes an actor panic: every Receive fails on a message that is a nil
// pointer.
func kill(p *Pod, name string) {
	team := &p.rt.addresses
	victim := map[string]struct {
		pid     *PID
		message any
	}{
		podName:       {team.pod, (*happened)(nil)},
		"journal":     {team.journal, (*cancelCall)(nil)},
		"runs":        {team.runs, (*listChildren)(nil)},
		"pulse":       {team.pulse, (*happened)(nil)},
		"claimer":     {team.claimer, (*happened)(nil)},
		"intake":      {team.intake, (*happened)(nil)},
		"leader":      {team.leader, (*happened)(nil)},
		"timekeeper":  {team.timekeeper, (*happened)(nil)},
		"housekeeper": {team.housekeeper, (*happened)(nil)},
		"feed":        {team.feed, (*streamWoke)(nil)},
	}[name]
	p.rt.send(victim.pid, victim.message)
}

// gauge counts the attempts under way whose context has not ended.
type gauge struct {
	mu   sync.Mutex
	live map[context.Context]bool
	peak int
	runs map[string]int // executions by run and step
}

func newGauge() *gauge { return &gauge{live: map[context.Context]bool{}, runs: map[string]int{}} }

// work is a step that takes a while, unless its context ends.
func (g *gauge) work(d time.Duration) body {
	return func(ctx context.Context, _ Inputs) (Output, error) {
		g.mu.Lock()
		g.live[ctx] = true
		g.runs[AttemptFrom(ctx).Info().IdempotencyKey]++
		n := 0
		for c := range g.live {
			if c.Err() == nil {
				n++
			}
		}
		g.peak = max(g.peak, n)
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			delete(g.live, ctx)
			g.mu.Unlock()
		}()
		select {
		case <-ctx.Done():
			return Output{}, context.Cause(ctx)
		case <-time.After(d):
			return Output{Payload: []byte("1")}, nil
		}
	}
}

// executions returns how often each task was executed.
func (g *gauge) executions() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.runs)
}

// once requires that each task was executed once.
func (g *gauge) once(t *testing.T) {
	t.Helper()
	for key, n := range g.executions() {
		require.Equal(t, 1, n, "executions of %s", key)
	}
}

// most returns how many attempts were under way at once.
func (g *gauge) most() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.peak
}
