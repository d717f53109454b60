package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// definition is a stored graph.
type definition struct {
	graph    *workflow.Graph
	handlers []int32          // by step, the failure handler last
	steps    map[string]int32 // by name
}

// node returns the declaration of a step.
func (d *definition) node(step int32) *workflow.Node {
	if int(step) == len(d.graph.Nodes) {
		return d.graph.OnFailure
	}
	return &d.graph.Nodes[step]
}

// tenant is the unit of isolation and fairness.
type tenant struct {
	group   int32
	running int // tasks
}

// run is one run with its tasks. Until it is expanded it has none.
type run struct {
	trigger      persistence.Trigger
	definition   *definition
	core         lifecycle.Run
	expanded     bool
	tasks        []lifecycle.Task // by step: dynamic ones may leave out a number
	details      []detail         // beside tasks
	events       []lifecycle.Event
	cancelReason string
	createdAt    time.Time
	startedAt    time.Time
	finishedAt   time.Time
	failure      *failure // first unhandled one
	archived     bool
	keptFrom     time.Time // when the time begins for which it is kept
	family       persistence.Family
	children     map[int32]workflow.RunID // by step that has begun them
	maps         map[int32]lifecycle.Map  // that have begun elements, by step, without Next
	items        map[int32][][]byte       // of these, nil: an earlier run has completed the element
	keyRun       workflow.RunID           // whose idempotency keys its tasks have; zero: its own
	takenOver    map[int32][]byte         // outputs of an earlier run, until it is expanded
	machine      machine                  // of a machine
	options      string                   // that hold in place of what the program says
}

// detail is what decisions do not need of a task.
type detail struct {
	output     []byte
	progress   []byte
	item       []byte      // the input of what a machine has started
	of         *definition // with which a machine has started it; nil: that of the run
	queuedAt   time.Time
	startedAt  time.Time
	finishedAt time.Time
}

// failure is what a reader is told about why a run failed.
type failure struct {
	step, class, text string
}

func (r *run) id() workflow.RunID { return r.trigger.Run }

// at returns where the rows of a step are, or belong.
func (r *run) at(step int32) (at int, there bool) {
	if i := int(step); i >= 0 && i < len(r.tasks) && r.tasks[i].Step == step {
		return i, true
	}
	return slices.BinarySearchFunc(r.tasks, step, func(t lifecycle.Task, step int32) int { return int(t.Step) - int(step) })
}

// task returns the task of a step, or nil.
func (r *run) task(step int32) *lifecycle.Task {
	at, there := r.at(step)
	if !there {
		return nil
	}
	return &r.tasks[at]
}

// detail returns what decisions do not need of a task that is there.
func (r *run) detail(step int32) *detail {
	at, _ := r.at(step)
	return &r.details[at]
}

// insert adds a task to a run that is under way.
func (r *run) insert(t lifecycle.Task) *detail {
	at, _ := r.at(t.Step)
	r.tasks, r.details = slices.Insert(r.tasks, at, t), slices.Insert(r.details, at, detail{})
	return &r.details[at]
}

// declared returns the step whose function a task executes.
func (r *run) declared(step int32) int32 {
	if t := r.task(step); t != nil && t.Dynamic != nil {
		return t.Dynamic.Declared
	}
	return step
}

// definitionOf returns the definition that declares a task: a run of a machine may have got
// another one since it started it.
func (r *run) definitionOf(step int32) *definition {
	if at, there := r.at(step); there && r.details[at].of != nil {
		return r.details[at].of
	}
	return r.definition
}

// node returns the declaration of a task: of a dynamic one, that of its step under its
// own name.
func (r *run) node(step int32) *workflow.Node {
	node := r.definitionOf(step).node(r.declared(step))
	if t := r.task(step); t != nil && t.Dynamic != nil {
		own := *node
		own.Name, own.Children, own.Parents = t.Dynamic.Name, nil, nil
		return &own
	}
	return node
}

// handler returns the number of the handler that executes a task.
func (r *run) handler(step int32) int32 { return r.definitionOf(step).handlers[r.declared(step)] }

// queueOf returns the name of the queue that a task waits in.
func (r *run) queueOf(step int32) string {
	return r.definitionOf(step).queueOf(r.declared(step), r.trigger.Queue)
}

// queueOf returns the queue that a step of a run waits in.
func (d *definition) queueOf(step int32, run string) string {
	return cmp.Or(d.node(step).Queue, run, DefaultQueue)
}

// edges resolves the names of children. A child that this version of the
// workflow does not have is dropped.
func (r *run) edges(results []persistence.EdgeResult) []lifecycle.EdgeFlag {
	var flags []lifecycle.EdgeFlag
	for _, e := range results {
		if child, ok := r.definition.steps[e.Child]; ok {
			flags = append(flags, lifecycle.EdgeFlag{
				Child: child, Flags: e.Flags, Error: lifecycle.CleanText(e.Error), WakeAt: e.WakeAt,
			})
		}
	}
	return flags
}

// key is an idempotency key.
type key struct {
	tenant, workflow, text string
}

// claimKey names a claim.
type claimKey struct {
	pod int64
	id  persistence.ClaimID
}

// claim is what one call granted.
type claim struct {
	tasks []claimed
}

type claimed struct {
	task  workflow.TaskID
	epoch int64
}

// pod is a pod that has not left.
type pod struct {
	id      int64
	info    persistence.PodInfo
	started time.Time
	expires time.Time
	dead    bool
	load    persistence.Load
	claims  []persistence.ClaimID // in the order in which they were made
}

// held returns the tasks of a claim that are still its pod's, in the order in
// which they were granted.
func (s *Store) held(c claimKey) []claimed {
	var tasks []claimed
	if row := s.claims[c]; row != nil {
		for _, t := range row.tasks {
			if s.holds(c.pod, t) {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks
}

// holds reports whether a pod may still write a task under an epoch.
func (s *Store) holds(pod int64, c claimed) bool {
	r := s.runs[c.task.Run]
	if r == nil {
		return false
	}
	t := r.task(c.task.Step)
	return t != nil && t.State == lifecycle.Running && t.Pod == pod && t.Epoch == c.epoch
}

// heldBy returns every task that a pod holds, by run and step.
func (s *Store) heldBy(p *pod) []claimed {
	var tasks []claimed
	for _, id := range p.claims {
		tasks = append(tasks, s.held(claimKey{p.id, id})...)
	}
	slices.SortFunc(tasks, func(a, b claimed) int { return compareTasks(a.task, b.task) })
	return tasks
}

// living returns a pod that may claim and record.
func (s *Store) living(id int64, now time.Time) (*pod, error) {
	p := s.pods[id]
	if p == nil || p.dead || !p.expires.After(now) {
		return nil, persistence.ErrPodDead
	}
	return p, nil
}

// forget removes the row of a pod and its claims.
func (s *Store) forget(p *pod) {
	for _, id := range p.claims {
		delete(s.claims, claimKey{p.id, id})
	}
	delete(s.pods, p.id)
}

// podIDs returns the numbers of all pods, ascending.
func (s *Store) podIDs() []int64 {
	return slices.Sorted(maps.Keys(s.pods))
}

// countPods fills in how many pods were not declared dead, and of what use
// wakes are to them.
func (s *Store) countPods(out *persistence.Renewed, own int64) {
	for _, p := range s.pods {
		if p.dead {
			continue
		}
		out.Pods++
		if p.info.Slots > 0 {
			out.Executing++
		}
		if p.load < persistence.LoadBusy {
			out.Waiting++
		}
		if p.load == persistence.LoadIdle {
			out.Idle++
			if p.id < own {
				out.Place++
			}
		}
	}
}

func compareTasks(a, b workflow.TaskID) int {
	if c := bytes.Compare(a.Run[:], b.Run[:]); c != 0 {
		return c
	}
	return int(a.Step) - int(b.Step)
}
