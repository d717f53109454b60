package swarm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// book is what the oracle has counted for itself: of tasks, from their events;
// of pods and tenants, from what the database answers.
type book struct {
	call     string // the transaction that is judged
	runs     map[workflow.RunID]*runBook
	gone     map[int64]bool // pods that have ended
	dead     map[int64]bool // pods that were declared dead
	leader   *sim.Pod       // that was elected last
	running  map[string]int // tasks by tenant
	attempts map[string]bool
	returned map[*sim.Pod][]success
	stops    map[int64]time.Time // when pods were told to stop
	fair     *fairness
}

// runBook is what was counted of one run.
type runBook struct {
	tasks   []account
	running int
}

// account is what the events of a task add up to.
type account struct {
	last     lifecycle.EventKind
	at       time.Time // of that event
	attempts int32     // that ended with an error
	retries  int32
	losses   int32
	pod      int64 // that held it last
	n        int64 // of the last event: its epoch
}

func newBook() *book {
	return &book{
		runs: map[workflow.RunID]*runBook{}, gone: map[int64]bool{}, dead: map[int64]bool{}, running: map[string]int{},
		attempts: map[string]bool{}, returned: map[*sim.Pod][]success{}, stops: map[int64]time.Time{}, fair: newFairness(),
	}
}

// enter books one event and judges it by those before.
func (o *oracle) enter(run *snapshot.Run, e *lifecycle.Event) {
	if e.Step == lifecycle.RunStep {
		o.enterRun(e)
		return
	}
	s, b := o.seed, o.book.runs[run.ID]
	if b == nil {
		b = &runBook{}
		o.book.runs[run.ID] = b
	}
	for len(b.tasks) <= int(e.Step) {
		b.tasks = append(b.tasks, account{})
	}
	a := &b.tasks[e.Step]
	switch e.Kind { //nolint:exhaustive // the others count nothing
	case lifecycle.EventQueued:
		o.becameReady(run, b, a, e)
	case lifecycle.EventStarted:
		o.granted(run, a, e)
	case lifecycle.EventCompleted:
		o.signed(run, e)
	case lifecycle.EventLost, lifecycle.EventReleased:
		o.takenBack(run, a, e)
	case lifecycle.EventRetrying:
		a.retries++
		if limit := o.policy(run, e.Step).Attempts; a.retries >= int32(max(limit, 1)) {
			s.world.Fail("I12", "%s step %d is tried again after %d failures; allowed are %d attempts", s.nameOf(run.ID), e.Step, a.retries, limit)
		}
	case lifecycle.EventActivated: // what happened before does not count against what comes
		a.attempts, a.retries, a.losses = 0, 0, 0
	case lifecycle.EventFailed, lifecycle.EventTimedOut:
		o.failed(a, e)
	case lifecycle.EventCanceled:
		o.canceled(a, e)
	}
	if (e.Attempt > 0 || e.Kind == lifecycle.EventRetrying) && e.Kind != lifecycle.EventStarted {
		if a.attempts++; e.Attempt != a.attempts {
			s.world.Fail("I10", "%s step %d: %v of attempt %d; it is its %d.", s.nameOf(run.ID), e.Step, e.Kind, e.Attempt, a.attempts)
		}
	}
	a.last, a.at, a.n = e.Kind, e.At, e.N
	o.book.fair.enter(o, run, e)
}

func (o *oracle) enterRun(e *lifecycle.Event) {
	if e.Kind != lifecycle.EventRunStarted {
		return
	}
	switch o.book.call {
	case "fire_timers":
		o.seed.saw(SawDelayedStart)
	case "drain_intake":
		o.seed.saw(SawSubmitted)
	}
}

// policy is how often a step may be tried.
func (o *oracle) policy(run *snapshot.Run, step int32) workflow.RetryPolicy {
	for _, deployed := range [][]*shape{o.seed.old, o.seed.new} {
		for _, shape := range deployed {
			if shape.graph.Hash == run.Graph.Hash {
				return shape.retry[declared(run, step).Name]
			}
		}
	}
	return workflow.RetryPolicy{}
}

// declared is the declaration of the step whose function a task executes.
func declared(run *snapshot.Run, step int32) *workflow.Node {
	if t := run.Task(step); t != nil && t.Dynamic != nil {
		step = t.Dynamic.Declared
		if t.IsSpawned() { // the run may have another definition by now
			name, _ := lifecycle.SpawnedAs(t.Dynamic.Name)
			step = int32(slices.IndexFunc(run.Graph.Nodes, func(n workflow.Node) bool { return n.Name == name }))
		}
	}
	if int(step) == len(run.Graph.Nodes) {
		return run.Graph.OnFailure
	}
	return &run.Graph.Nodes[step]
}

// nodeOf is the declaration of a task: a dynamic one has a name of its own.
func nodeOf(run *snapshot.Run, step int32) *workflow.Node {
	node := declared(run, step)
	if t := run.Task(step); t != nil && t.Dynamic != nil {
		own := *node
		own.Name = t.Dynamic.Name
		return &own
	}
	return node
}

func (o *oracle) becameReady(run *snapshot.Run, b *runBook, a *account, e *lifecycle.Event) {
	if a.last == lifecycle.EventRetrying {
		o.seed.saw(SawRetried)
		return
	}
	for _, parent := range nodeOf(run, e.Step).Parents {
		if int(parent) < len(b.tasks) && o.book.gone[b.tasks[parent].pod] {
			o.seed.saw(SawCrossedCrash)
		}
	}
}

func (o *oracle) granted(run *snapshot.Run, a *account, e *lifecycle.Event) {
	s := o.seed
	if e.Attempt != a.attempts+1 {
		s.world.Fail("I10", "%s step %d starts attempt %d after %d failures", s.nameOf(run.ID), e.Step, e.Attempt, a.attempts)
	}
	a.pod = e.Pod
	if o.book.dead[e.Pod] {
		s.world.Fail("I4", "%s step %d was granted to pod %d, which was declared dead", s.nameOf(run.ID), e.Step, e.Pod)
	}
	if run.Task(e.Step).Flags.Has(lifecycle.FlagSuspect) {
		s.saw(SawSuspect)
	}
	switch {
	case s.healed:
	case o.book.call == "record_transitions":
		s.saw(SawInline)
	case o.book.call == "trigger_runs":
		s.saw(SawFirst)
	}
	switch {
	case o.handler(run, e.Step):
		s.saw(SawHandler)
	case run.Task(e.Step).Dynamic != nil && !run.Task(e.Step).IsElement() && !run.Task(e.Step).IsSpawned() && !run.Core.HandlerMade:
		s.saw(SawDynamic)
	}
}

// signed checks which attempt completed a task: the output names the attempt that
// returned it, which must be the one that held the task.
func (o *oracle) signed(run *snapshot.Run, e *lifecycle.Event) {
	t := run.Task(e.Step)
	if t.IsElement() && t.Flags.Has(lifecycle.FlagKept) {
		return // takenOver has judged it
	}
	if kind := declared(run, e.Step).Kind; kind != workflow.Func && kind != workflow.Map {
		return // its output is the payload of a signal, or that of a child run
	}
	output := run.Task(e.Step).Output
	if old, ok := o.continued(run); ok && run.Task(e.Step).Flags.Has(lifecycle.FlagKept) {
		if t := old.Task(e.Step); t == nil || !bytes.Equal(t.Output, output) {
			o.seed.world.Fail("I3", "%s step %d has another output than in the run that it continues", o.seed.nameOf(run.ID), e.Step)
		}
		return
	}
	if !bytes.HasSuffix(output, signature(e.N-1)) {
		o.seed.world.Fail("I4", "%s step %d was completed under epoch %d by another attempt: %s", o.seed.nameOf(run.ID), e.Step, e.N-1, output)
	}
}

// sign makes an output say which attempt returned it.
func sign(output []byte, attempt string) []byte {
	epoch := attempt[strings.LastIndexByte(attempt, '/')+1:]
	return append(bytes.TrimSuffix(output, []byte(`"`)), " "+epoch+`"`...)
}

func signature(epoch int64) []byte { return fmt.Appendf(nil, ` %d"`, epoch) }

// takenBack judges a task that was lost or handed back.
func (o *oracle) takenBack(run *snapshot.Run, a *account, e *lifecycle.Event) {
	s := o.seed
	if e.Kind == lifecycle.EventReleased {
		o.handedBack(run, a, e)
		return
	}
	if a.losses++; a.losses >= int32(s.setting.maxLost) {
		o.triedAgain(run, a, e)
	}
	if panics, _ := s.excuses(); o.book.call != "expire_pods" && !panics {
		s.world.Fail("I13", "%s step %d was reported lost by its own pod, and nothing had happened to it", s.nameOf(run.ID), e.Step)
	}
}

// triedAgain judges a task that was lost too often and is no poison pill: another
// pod must have died, too.
func (o *oracle) triedAgain(run *snapshot.Run, a *account, e *lifecycle.Event) {
	s := o.seed
	if s.setting.maxLost == 1 || a.losses >= 2*int32(s.setting.maxLost) || s.world.Joined() <= int(a.losses) {
		s.world.Fail("I12", "%s step %d was lost %d times and is tried again", s.nameOf(run.ID), e.Step, a.losses)
	}
	s.saw(SawNoPill)
}

// handedBack judges a task that its pod did not execute for the time in which
// it finds out that it holds it.
func (o *oracle) handedBack(run *snapshot.Run, a *account, e *lifecycle.Event) {
	s := o.seed
	if began, ok := o.book.stops[a.pod]; ok && e.At.Sub(began) < stopGrace-stopGrace/32 && !s.troubled() {
		s.world.Fail("I13", "%s step %d was handed back %v after its pod began to stop; it may go on for %v", s.nameOf(run.ID), e.Step, e.At.Sub(began), stopGrace)
	}
	attempt := fmt.Sprintf("%v/%s/%d", run.ID, nodeOf(run, e.Step).Name, e.N-1)
	if o.book.attempts[attempt] || e.At.Sub(a.at) < s.setting.lease/3 || o.book.call != "record_transitions" {
		return
	}
	s.saw(SawUnheld)
	if panics, calls := s.excuses(); !panics && !calls && !s.unbegun(run.Graph.Name, nodeOf(run, e.Step).Name) && !s.unread(run.Task(e.Step)) {
		s.world.Fail("I13", "%s step %d was granted to a pod that did not know of it, and nothing had happened", s.nameOf(run.ID), e.Step)
	}
}

// unbegun reports whether the run of a step with InTx may have been blocked, so that the
// step was not executed.
func (s *seed) unbegun(name, step string) bool {
	step, _ = lifecycle.SpawnedAs(step)
	inTx := slices.ContainsFunc(slices.Concat(s.old, s.new), func(w *shape) bool { return w.graph.Name == name && w.inTx[step] })
	return inTx && slices.ContainsFunc(s.world.Happened(), func(f sim.Fault) bool { return sim.Blocks(f.Class) })
}

// unread reports whether a task is a map whose elements could not be read, so that it was not
// executed.
func (s *seed) unread(t *snapshot.Task) bool {
	return t.Traits.Has(workflow.TraitMap) && !t.IsElement() && slices.ContainsFunc(s.world.Happened(), func(f sim.Fault) bool {
		return strings.HasSuffix(f.Place, " elements") || f.Class == sim.StoreDamaged
	})
}

// excuses reports whether actors have failed, and whether calls of the database
// were late or took too long, which is why a pod may not know what it holds.
func (s *seed) excuses() (panics, calls bool) {
	unheard, unreadable := false, false
	for _, f := range s.world.Happened() {
		switch f.Class { //nolint:exhaustive // the others are no excuse
		case sim.ActorPanic:
			panics = true
		case sim.StoreLate, sim.StoreSlow, sim.StoreFrozen, sim.StorePool, sim.StoreAway, sim.StoreDown, sim.PodPause, sim.PodSlow:
			calls = true
		case sim.StoreLost, sim.StoreAnswer, sim.StoreConflict: // of renewals: the lease may have run out meanwhile
			calls = calls || strings.HasSuffix(f.Place, " renew_pod")
			unheard = true
		case sim.StoreDamaged:
			unreadable = true
		case sim.Buggify:
			calls = calls || pulseSkipped(f)
		}
	}
	// A call that is repeated does not name the grants of a run that is unreadable by then.
	return panics, calls || unheard && unreadable
}

func (o *oracle) failed(a *account, e *lifecycle.Event) {
	switch {
	case e.Class == lifecycle.ClassStalled:
		o.seed.saw(SawMachineStalled)
	case e.Class == "lost":
		a.losses++
		o.seed.saw(SawPoison)
	case e.By == "schedule_to_start":
		o.seed.saw(SawQueueTimeout)
	}
}

func (o *oracle) canceled(a *account, e *lifecycle.Event) {
	switch {
	case e.By == "cancel_grace":
		o.seed.saw(SawCancelFenced)
	case e.By == "fail_fast":
		o.seed.saw(SawFailFast)
	case e.By == "cancel" && a.last == lifecycle.EventRetrying:
		o.seed.saw(SawCancelBackoff)
	case e.By == "cancel" && a.last == lifecycle.EventSleeping:
		o.seed.saw(SawCancelSleep)
	}
}

// account compares the counters of a run's tasks with what was booked.
func (o *oracle) account(run *snapshot.Run) {
	s, b := o.seed, o.book.runs[run.ID]
	if b == nil {
		return
	}
	running := 0
	for i := range run.Tasks {
		t := &run.Tasks[i]
		if int(t.Step) >= len(b.tasks) {
			break
		}
		a := &b.tasks[t.Step]
		if t.State == lifecycle.Running {
			running++
		}
		if t.Attempt != a.attempts {
			s.world.Fail("I10", "%s step %d counts %d failed attempts; its events show %d", s.nameOf(run.ID), t.Step, t.Attempt, a.attempts)
		}
		if !t.State.Terminal() && t.Lost != a.losses {
			s.world.Fail("I10", "%s step %d counts %d losses; its events show %d", s.nameOf(run.ID), t.Step, t.Lost, a.losses)
		}
	}
	o.book.running[run.Tenant] += running - b.running
	b.running = running
}

// wholeEvery is how many transactions pass between two looks at all tables.
const wholeEvery = 64

// balance judges what holds between runs once a transaction is booked.
func (o *oracle) balance() {
	if o.calls%wholeEvery == 0 {
		if wrong := snapshot.Check(o.tables()); len(wrong) > 0 {
			promise, text, _ := strings.Cut(wrong[0], ": ")
			o.seed.world.Fail(promise, "after %s: %s", o.book.call, text)
		}
	}
	limit := o.seed.setting.limit
	if limit == 0 {
		return
	}
	for _, tenant := range slices.Sorted(maps.Keys(o.book.running)) {
		switch running := o.book.running[tenant]; {
		case running > limit:
			o.seed.world.Fail("I9", "%s runs %d tasks; its limit is %d", tenant, running, limit)
		case running == limit:
			o.seed.saw(SawTenantLimit)
		}
	}
}
