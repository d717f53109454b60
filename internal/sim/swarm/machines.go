package swarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// rules are what a machine of the load does. What its activations decide follows from the state
// and the entries alone.
type rules struct {
	version int32
	budget  int  // how many activities, timers and child runs it starts at most, but for those after a cancel
	stalls  bool // it does not end by itself
}

// machineShapes is how many of the workflows, the last ones, are machines.
const machineShapes = 4

// machines returns the machines of the load, of one version. The second version of shop has a state
// of another version, and declares more.
func machines(version int) []*shape {
	return []*shape{shop(version), ticker(), patient(), stalling()}
}

func machineStep(version int32, cancel time.Duration) workflow.Step {
	return workflow.Step{Name: "machine", Kind: workflow.Machine, Version: version, Sleep: cancel}
}

func activity(name string, options workflow.Options) workflow.Step {
	return workflow.Step{Name: name, Spawned: true, Options: options}
}

func spawnedTimer() workflow.Step {
	return workflow.Step{Name: "window", Kind: workflow.SleepUntil, WakeFrom: workflow.Input, Spawned: true}
}

func spawnedSignal(name string) workflow.Step {
	return workflow.Step{Name: name, Kind: workflow.Wait, Signal: name, Spawned: true}
}

func spawnedChild(name string, of *shape) workflow.Step {
	g := of.graph
	return workflow.Step{
		Name: name, Kind: workflow.ChildRun, Spawned: true,
		Child: workflow.ChildSpec{Workflow: g.Name, Output: g.Nodes[g.Output].OutputOf(g.Name)},
	}
}

// machine compiles a machine.
func machine(name string, r rules, steps ...workflow.Step) *shape {
	s := compile(workflow.Definition{Name: name, Steps: steps})
	s.rules, s.tasks = &r, 1+r.budget
	return s
}

// shop starts all that there is, also several at once: activities that succeed, that fail for good
// ("bad"), that take the queue "gpu" or a transaction of their own, timers and child runs. It
// hears signals.
func shop(version int) *shape {
	steps := []workflow.Step{
		machineStep(int32(version), 0),
		activity("charge", workflow.Options{}),
		activity("bad", workflow.Options{Retry: workflow.RetryPolicy{Attempts: 2, First: 100 * time.Millisecond}}),
		activity("ship", workflow.Options{Queue: "gpu"}),
		activity("book", workflow.Options{InTx: true}),
		spawnedTimer(),
		spawnedChild("sub", doomed()), spawnedChild("nap", nap()),
		spawnedSignal("paid"), spawnedSignal("noted"),
	}
	if version > 1 { // what it may start has other places in the definition
		steps = slices.Insert(steps, 1, activity("survey", workflow.Options{}))
	}
	return machine("shop", rules{version: int32(version), budget: 12}, steps...)
}

// ticker starts timers and activities for long, and hears of nothing else.
func ticker() *shape {
	return machine("ticker", rules{version: 1, budget: 20}, machineStep(1, 0), activity("charge", workflow.Options{}), spawnedTimer())
}

// patient hears of a cancel, and may go on for a while.
func patient() *shape {
	return machine("patient", rules{version: 1, budget: 10},
		machineStep(1, 20*time.Second), activity("charge", workflow.Options{}), activity("bad", workflow.Options{Retry: workflow.RetryPolicy{Attempts: 1}}),
		spawnedTimer(), spawnedChild("nap", nap()), spawnedSignal("paid"))
}

// stalling does not end by itself: once it has nothing open it fails.
func stalling() *shape {
	return machine("stalling", rules{version: 1, budget: 4, stalls: true}, machineStep(1, 0), activity("charge", workflow.Options{}), spawnedTimer())
}

// memo is the state of a machine of the load.
type memo struct {
	Version  int32
	Handled  int64    // entries
	Hash     uint64   // of the input and of all entries
	Started  int32    // things
	Budget   int      // that are left to start
	Open     []string // that it waits for
	Ended    []string // that it has heard of: once each
	Stopping bool     // it has heard of a cancel
}

// turn is one activation of a machine of the load.
type turn struct {
	memo

	graph    *workflow.Graph
	rules    *rules
	now      time.Time
	drawn    int // since the last entry
	starts   []persistence.Spawn
	cancels  []int32
	complete bool
	fails    bool
}

var errMachine = errors.New("the machine of the simulation gives up")

// play executes an activation. done: the machine has completed with output.
func (w *shape) play(input []byte, begunAt time.Time, g *persistence.MachineGrant) (a *persistence.Activation, output []byte, done bool, err error) {
	t, err := w.turn(input, begunAt, g)
	if err != nil {
		return nil, nil, false, err
	}
	if t.fails {
		return nil, nil, false, errMachine
	}
	state, err := json.Marshal(&t.memo)
	if err != nil {
		return nil, nil, false, err
	}
	a = &persistence.Activation{
		Taken: g.Arrived, Heard: int32(len(g.Entries)), Version: w.rules.version, State: state, Definition: w.graph.Hash, Start: t.starts, Cancel: t.cancels,
	}
	if t.complete {
		a.Start, a.Cancel = nil, nil
		return a, fmt.Appendf(nil, "%q", fmt.Sprint(t.Hash)), true, nil
	}
	return a, nil, false, nil
}

// turn handles the entries of an activation.
func (w *shape) turn(input []byte, begunAt time.Time, g *persistence.MachineGrant) (*turn, error) {
	t := &turn{graph: w.graph, rules: w.rules}
	switch {
	case g.Version > w.rules.version:
		return nil, fmt.Errorf("the state has version %d, the program %d", g.Version, w.rules.version)
	case g.Version == 0:
		t.Budget = w.rules.budget
		t.mix(0, begunAt, string(input))
		t.begin(1 + int(t.Hash%3))
	default:
		if err := json.Unmarshal(g.State, &t.memo); err != nil {
			return nil, err
		}
	}
	t.Version = w.rules.version
	for i := range g.Entries {
		if !t.complete && !t.fails {
			t.handle(&g.Entries[i])
		}
		t.end()
	}
	if len(g.Entries) == 0 {
		t.end()
	}
	return t, nil
}

// replayed returns the state to which entries lead.
func (w *shape) replayed(input []byte, begunAt time.Time, g *persistence.MachineGrant) []byte {
	t, err := w.turn(input, begunAt, g)
	if err != nil {
		return []byte(err.Error())
	}
	state, err := json.Marshal(&t.memo)
	if err != nil {
		return []byte(err.Error())
	}
	return state
}

// mix adds to the hash.
func (t *turn) mix(n int64, at time.Time, text string) {
	t.now, t.drawn = at, 0
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%d/%d/%s", t.Hash, n, at.UnixMicro(), text)
	t.Hash = h.Sum64()
}

// draw returns a number below n that follows from the hash, a text, and how many were drawn since
// the last entry.
func (t *turn) draw(n uint64, text string) uint64 {
	t.drawn++
	return t.toss(n, fmt.Sprint(text, t.drawn))
}

// toss is draw that returns the same each time.
func (t *turn) toss(n uint64, text string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%d/%s", t.Hash, t.Handled, text)
	return h.Sum64() >> 8 % n
}

// node returns what the machine has declared under a name.
func (t *turn) node(name string) *workflow.Node {
	return &t.graph.Nodes[slices.IndexFunc(t.graph.Nodes, func(n workflow.Node) bool { return n.Name == name })]
}

// choice lists what begin chooses from: what all versions declare.
func (t *turn) choice() (list []*workflow.Node) {
	for i := range t.graph.Nodes {
		if n := &t.graph.Nodes[i]; n.Kind != workflow.Machine && n.Kind != workflow.Wait && n.Name != "survey" {
			list = append(list, n)
		}
	}
	return list
}

// begin starts some of what there is to start.
func (t *turn) begin(count int) {
	for range min(count, t.Budget) {
		t.Budget--
		list := t.choice()
		t.start(list[t.draw(uint64(len(list)), "which")])
	}
}

func (t *turn) start(node *workflow.Node) {
	t.Started++
	spawn := persistence.Spawn{Step: node.Name}
	if node.Kind == workflow.SleepUntil {
		spawn.WakeAt = t.now.Add(time.Duration(t.draw(6000, "wait")) * time.Millisecond)
	} else {
		spawn.Input = fmt.Appendf(nil, `"%x"`, t.draw(1<<40, "input"))
	}
	t.starts = append(t.starts, spawn)
	t.Open = append(t.Open, lifecycle.SpawnedName(node.Name, t.Started))
}

// cancel cancels something that the machine has started, which may have ended.
func (t *turn) cancel(n int32) {
	if slices.Contains(t.cancels, n) {
		return
	}
	t.cancels = append(t.cancels, n)
	t.Open = slices.DeleteFunc(t.Open, func(id string) bool {
		_, is := lifecycle.SpawnedAs(id)
		return is == n
	})
}

// handle handles an entry.
func (t *turn) handle(e *persistence.MachineEntry) {
	t.Handled++
	if _, n := lifecycle.SpawnedAs(e.Name); (e.Kind == persistence.EntryFired || e.Kind == persistence.EntryFailed) && slices.Contains(t.cancels, n) {
		return // it was canceled in this activation
	}
	t.mix(e.N, e.At, fmt.Sprintf("%d/%s/%s/%s", e.Kind, e.Name, e.Payload, e.Class))
	switch e.Kind {
	case persistence.EntryCompleted, persistence.EntryFailed, persistence.EntryFired:
		t.Ended = append(t.Ended, e.Name)
		t.Open = slices.DeleteFunc(t.Open, func(id string) bool { return id == e.Name })
	case persistence.EntryCancel:
		t.Stopping, t.Budget = true, 0
		for _, id := range slices.Clone(t.Open) {
			_, n := lifecycle.SpawnedAs(id)
			t.cancel(n)
		}
		if t.draw(3, "clean up") > 0 {
			t.start(t.node("charge"))
		}
		return
	case persistence.EntrySignal:
	}
	if t.Started > 0 && t.draw(3, "cancel") == 0 {
		t.cancel(1 + int32(t.draw(uint64(t.Started), "what")))
	}
	if t.Started > 1 && t.draw(6, "cancel more") == 0 {
		t.cancel(t.Started)
	}
	t.begin(int(t.draw(3, "begin")))
}

// end ends the machine if it has nothing open, or now and then before.
func (t *turn) end() {
	if t.complete || t.fails {
		return
	}
	if t.rules.stalls {
		return
	}
	if len(t.Open) == 0 || t.Handled > 2 && t.toss(40, "early") == 0 {
		t.fails = t.toss(8, "fail") == 0
		t.complete = !t.fails
	}
}
