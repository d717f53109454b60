package actors

import (
	"slices"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/workflow"
)

// runs holds the slots and the table of held tasks. It does no I/O.
//
// Owns: the ledger of slots, held tasks and claims; the run actors.
// Parent: pod.
// Accepts: OfferSlots, StartTasks, OutcomesAnswered, AttemptAbandoned,
// ProgressMade, RepeatOutcomes, ListHeld, TasksLost, TasksUnheld, RunsCanceling,
// LeaseFenced, LeaseRestored, DrainRuns, EndAttempts.
// Sends: SlotsOffered, SlotsFreed, OutcomeAnswered, EndAttempts,
// RepeatOutcomes, ReportOutcome, HeldListed, RunsDrained, CheckCancels.
// On failure: restart with backoff. The run actors end with it; the ledger is
// carried over, and its tasks are reported lost. A run actor that fails is
// stopped, and its task is reported lost.
type runs struct {
	supervision
	carryover *runsState
	repeat    bool // a timer will have reports repeated
	ports     runPorts
	pool      poolWatch // of the embedder
	child     *props    // of all run actors
	next      *run      // the one to spawn
}

// runsState is what survives a restart of runs.
type runsState struct {
	ledger   *ledger
	fenced   bool // the lease may have run out
	draining bool
	ending   bool // contexts were ended because the pod stops
	told     bool // RunsDrained was sent
}

func spawnRuns(rt *runtime, ports *Ports, h *runsState) func() receiver {
	return func() receiver {
		a := &runs{
			supervision: supervision{base: base{rt, rt.addresses.runs}}, carryover: h,
			ports: runPorts{ports.Store, ports.Store}, pool: poolWatch{usage: ports.PoolUsage},
		}
		a.child = rt.props(runName, func() receiver { return a.next })
		return a
	}
}

// Receive implements protoactor's Actor.
func (a *runs) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.onStarted()
	case *messages.OfferSlots:
		a.rt.send(a.rt.addresses.claimer, a.carryover.ledger.offerAll(msg.GetNumber()))
	case *messages.StartTasks:
		a.onStartTasks(ctx, msg)
	case *messages.OutcomesAnswered:
		a.onOutcomesAnswered(ctx, msg)
	case *messages.AttemptAbandoned:
		a.onAttemptAbandoned(msg)
	case *messages.ProgressMade:
		a.carryover.ledger.progress(keyOf(msg.GetTask()), msg.GetProgress())
	case *messages.RepeatOutcomes:
		a.onRepeatOutcomes(msg)
	case *happened:
		a.handle(msg)
	case *functionReturned:
		if h := a.carryover.ledger.named(msg.name); h != nil { // and its report waits to be recorded
			h.abandoned = false
		}
		a.carryover.ledger.returned(msg.name)
		a.settle()
	case *messages.ListHeld:
		a.rt.send(a.rt.addresses.pulse, a.carryover.ledger.list())
		a.watchPool()
		a.rt.measurePayloads()
	case *messages.TasksLost:
		a.onTasksLost(msg)
	case *messages.TasksUnheld:
		a.onTasksUnheld(msg)
	case *messages.RunsCanceling:
		a.onRunsCanceling(msg)
	case *messages.LeaseFenced:
		a.carryover.fenced = true
		a.endAll(messages.EndCause_END_CAUSE_LEASE_LOST)
	case *messages.LeaseRestored:
		a.carryover.fenced = false
	case *messages.DrainRuns:
		a.carryover.draining = true
		a.settle()
	case *messages.EndAttempts:
		a.carryover.ending = true
		a.endAll(msg.GetCause())
	case *terminated:
		a.onTerminated(msg)
	case *listChildren:
		msg.answer(ctx)
	case *restarting, *stopping:
		a.off = true
	case *stopped:
	default:
		a.rt.unknown("runs", msg)
	}
}

// onStarted takes over the ledger. The run actors of its tasks ended with the previous
// incarnation, so the tasks are lost.
func (a *runs) onStarted() {
	for _, h := range slices.Clone(a.carryover.ledger.held) {
		a.lose(h)
	}
	a.carryover.ledger.forgetUnresponsive()
	a.adoptDetached()
	a.measure()
	a.rt.send(a.rt.addresses.claimer, &messages.SlotsOffered{})
}

func (a *runs) onStartTasks(ctx actorContext, m *messages.StartTasks) {
	for _, task := range m.GetTasks() {
		a.carryover.ledger.spend(a.rt.config.poolOf(task.GetQueue()))
		a.start(ctx, task)
	}
	a.settle()
}

// start puts a granted task into the ledger and lets a run actor execute it,
// unless the pod may not or will not.
func (a *runs) start(ctx actorContext, task *messages.StartTask) {
	h := a.carryover.ledger.hold(task, a.rt.config.poolOf(task.GetQueue()))
	if h == nil {
		return // granted twice
	}
	h.what, h.since = task.GetWorkflow()+"/"+task.GetStepName(), a.rt.now()
	if a.carryover.fenced || a.carryover.ending {
		a.handBack(h)
		return
	}
	a.next = newRun(a.rt, a.ports, task, h)
	pid, err := ctx.SpawnNamed(a.child, h.name)
	a.next = nil
	if err != nil {
		a.lose(h)
		return
	}
	h.pid = pid
	a.armRepeat()
}

// onOutcomesAnswered ends the answered tasks, starts the children granted with them in the
// slots that became free, and releases the slots of tasks that wait to be recorded.
func (a *runs) onOutcomesAnswered(ctx actorContext, m *messages.OutcomesAnswered) {
	for _, answer := range m.GetAnswers() {
		if h := a.carryover.ledger.find(keyOf(answer.GetTask())); h != nil {
			a.forward(h, answer)
			a.carryover.ledger.drop(h, h.pid == nil || !h.abandoned)
		}
	}
	for _, task := range m.GetGranted() {
		a.startGranted(ctx, task)
	}
	for _, task := range m.GetWaiting() {
		if h := a.carryover.ledger.find(keyOf(task)); h != nil {
			a.carryover.ledger.releaseSlot(h)
		}
	}
	a.settle()
}

// startGranted starts a child in the slot of a parent. If a renewal has ended the parent
// before, the slot was offered to the claimer, and the child is handed back.
func (a *runs) startGranted(ctx actorContext, task *messages.StartTask) {
	l := a.carryover.ledger
	if p := l.pool(a.rt.config.poolOf(task.GetQueue())); p.free > p.offered {
		a.start(ctx, task)
		return
	}
	if h := l.adopt(task.GetTask()); h != nil {
		a.handBack(h)
	}
}

func (a *runs) onAttemptAbandoned(m *messages.AttemptAbandoned) {
	key := keyOf(m.GetTask())
	if h := a.carryover.ledger.find(key); h != nil {
		h.abandoned = true
		return
	}
	a.carryover.ledger.abandon(taskName(key)) // the task has ended here
	a.settle()
}

// onTasksLost ends tasks that are another pod's by the table. Their outcomes are not
// reported, and their slots are free once the functions have returned. A task without a run
// actor was handed back, and is held until that is answered.
func (a *runs) onTasksLost(m *messages.TasksLost) {
	for _, task := range m.GetTasks() {
		h := a.carryover.ledger.find(keyOf(task))
		if h == nil || h.pid == nil {
			continue
		}
		a.rt.recorder.add(MetricLosses, 1)
		a.forward(h, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_LEASE_LOST})
		a.forward(h, &messages.OutcomeAnswered{Task: task, Result: "stale"})
		a.carryover.ledger.drop(h, false)
	}
	a.settle()
}

// onTasksUnheld hands back tasks that were granted and have not arrived. They count as held
// until that is recorded: if the late answer of the database arrives after all, they must
// not be executed.
func (a *runs) onTasksUnheld(m *messages.TasksUnheld) {
	for _, task := range m.GetTasks() {
		if h := a.carryover.ledger.adopt(task); h != nil {
			a.handBack(h)
		}
	}
}

func (a *runs) onRunsCanceling(m *messages.RunsCanceling) {
	canceling := map[workflow.RunID]bool{}
	for _, run := range m.GetRuns() {
		canceling[runOf(run)] = true
	}
	unsure := false
	for _, h := range a.carryover.ledger.held {
		switch {
		case !canceling[h.key.task.Run]:
		case h.ofMachine && !m.GetCompared():
			unsure = true
		default:
			a.forward(h, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_CANCELED})
		}
	}
	if unsure { // the event is the same whether the machine hears of the cancel or ends: the tables tell
		a.rt.send(a.rt.addresses.pulse, &messages.CheckCancels{})
	}
	for _, task := range m.GetTasks() {
		if h := a.carryover.ledger.find(keyOf(task)); h != nil {
			a.forward(h, &messages.EndAttempts{Cause: messages.EndCause_END_CAUSE_CANCELED})
		}
	}
}

func (a *runs) endAll(cause messages.EndCause) {
	for _, h := range a.carryover.ledger.held {
		a.forward(h, &messages.EndAttempts{Cause: cause})
	}
}

// onRepeatOutcomes repeats all reports for a journal that was restarted.
func (a *runs) onRepeatOutcomes(m *messages.RepeatOutcomes) {
	for _, h := range a.carryover.ledger.held {
		if h.report != nil {
			a.rt.send(a.rt.addresses.journal, h.report)
			continue
		}
		a.forward(h, m)
	}
}

// onTerminated is the end of a run actor. If it ended before its outcome was answered, it
// has failed.
func (a *runs) onTerminated(m *terminated) {
	name := lastName(m.GetWho())
	h := a.carryover.ledger.named(name)
	if h != nil && h.report == nil {
		a.lose(h)
	}
	if a.carryover.ledger.returned(name) || h != nil {
		a.settle()
	}
}

// lose reports that a task is not executed any more.
func (a *runs) lose(h *held) {
	a.rt.recorder.add(MetricLosses, 1)
	a.report(h, messages.OutcomeKind_OUTCOME_KIND_LOST)
}

// handBack reports that a task was not begun.
func (a *runs) handBack(h *held) { a.report(h, messages.OutcomeKind_OUTCOME_KIND_RELEASED) }

func (a *runs) report(h *held, kind messages.OutcomeKind) {
	if h.report == nil {
		h.report = &messages.ReportOutcome{Task: h.key.message(), Kind: kind, Pool: h.pool}
	}
	h.pid = nil
	a.rt.send(a.rt.addresses.journal, h.report)
	a.armRepeat()
}

// repeatUnanswered has a run actor send its outcome again if it was sent long ago.
type repeatUnanswered struct{}

// armRepeat sets the one timer of all reports that may have to be repeated.
func (a *runs) armRepeat() {
	if !a.repeat {
		a.repeat = true
		a.later(resendAfter, a.onRepeat)
	}
}

// onRepeat repeats the reports that were not answered.
func (a *runs) onRepeat() {
	a.repeat = false
	for _, h := range a.carryover.ledger.held {
		a.armRepeat()
		if h.report != nil {
			a.rt.send(a.rt.addresses.journal, h.report)
			continue
		}
		a.forward(h, &repeatUnanswered{})
	}
}

func (a *runs) forward(h *held, message any) {
	if h.pid != nil {
		a.rt.send(h.pid, message)
	}
}

// measure sets the gauges of slots.
func (a *runs) measure() {
	l := a.carryover.ledger
	a.rt.recorder.set(MetricRunning, float64(l.running()))
	a.rt.recorder.set(MetricFree, float64(l.free()))
	a.rt.recorder.set(MetricStuck, float64(l.stuck()))
}

// settle offers new free slots to the claimer, and tells the pod once no task is left.
func (a *runs) settle() {
	l := a.carryover.ledger
	if freed := l.offerNew(); freed != nil {
		a.rt.send(a.rt.addresses.claimer, freed)
	}
	a.measure()
	if a.carryover.draining && !a.carryover.told && len(l.held) == 0 {
		a.carryover.told = true
		a.rt.send(a.rt.addresses.pod, &messages.RunsDrained{})
	}
}
