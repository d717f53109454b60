package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// TriggerRuns implements persistence.Intake.
func (s *Store) TriggerRuns(
	_ context.Context, triggers []persistence.Trigger, take persistence.GrantRequest,
) (persistence.Triggers, error) {
	if len(triggers) > persistence.TriggerBatchMax {
		return persistence.Triggers{}, fmt.Errorf("trigger %d runs: at most %d in one batch",
			len(triggers), persistence.TriggerBatchMax)
	}
	b := s.begin()
	defer s.mu.Unlock()
	taker, count := b.taker(triggers, take)
	again := s.anyStored(triggers)
	out := persistence.Triggers{Now: b.clock, Answers: make([]persistence.TriggerAnswer, len(triggers))}
	for _, unit := range units(triggers) {
		b.triggerUnit(triggers, unit, out.Answers)
	}
	if taker == nil {
		b.enqueue(nil)
	} else {
		b.enqueue(func(e enqueued) bool {
			if count == 0 {
				return true
			}
			count--
			b.grant(taker, take.Claim, workflow.TaskID{Run: e.run.id(), Step: e.step})
			return false
		})
	}
	if taker != nil || again {
		out.Grants = s.grants(claimKey{take.Pod, take.Claim})
	}
	out.Wake = b.wake
	return out, nil
}

// units returns the indexes of the triggers that are stored all or none, in
// the order of their first members.
func units(triggers []persistence.Trigger) [][]int {
	var list [][]int
	groups := map[int]int{}
	for i := range triggers {
		g := triggers[i].Group
		if at, ok := groups[g]; ok && g != 0 {
			list[at] = append(list[at], i)
			continue
		}
		groups[g] = len(list)
		list = append(list, []int{i})
	}
	return list
}

// triggerUnit stores the triggers of a unit, or none of them.
func (b *batch) triggerUnit(triggers []persistence.Trigger, unit []int, answers []persistence.TriggerAnswer) {
	drafted := draft{keys: map[key]persistence.Trigger{}, runs: map[workflow.RunID]bool{}, tenants: map[string]bool{}}
	refused := false
	for _, i := range unit {
		answers[i] = b.s.examine(triggers[i], drafted, nil)
		refused = refused || !stored(answers[i].Result)
		if answers[i].Result == persistence.Triggered {
			drafted.add(triggers[i])
		}
	}
	if !refused {
		refused = b.s.refusePayloads(triggers, unit, answers)
	}
	for _, i := range unit {
		switch {
		case refused && stored(answers[i].Result):
			answers[i] = persistence.TriggerAnswer{Result: persistence.GroupRefused}
		case answers[i].Result == persistence.Triggered && b.s.runs[triggers[i].Run] == nil:
			b.begin(triggers[i])
		}
		b.signalWith(&triggers[i], &answers[i])
	}
}

// begin stores a run and expands it, unless a living pod does not know its workflow.
func (b *batch) begin(t persistence.Trigger) {
	if def := b.s.definitions[t.Definition]; b.s.older(def.graph) {
		b.s.meet(t.Tenant)
		b.s.submissions++
		b.s.submitted(b.s.submissions, t, b.now)
		b.wake.Submitted = true
		return
	}
	b.expand(b.create(t))
}

// signalWith sends the signal of a trigger to the run that it stored, or found.
func (b *batch) signalWith(t *persistence.Trigger, answer *persistence.TriggerAnswer) {
	if t.Signal == nil || !stored(answer.Result) {
		return
	}
	signal := *t.Signal
	signal.Run = answer.Run
	said := b.send(&signal)
	answer.Signal, answer.Names = said.Result, said.Names
}

// refusePayloads answers the triggers of a unit whose payload the database
// refuses, which it says when everything else is in order.
func (s *Store) refusePayloads(
	triggers []persistence.Trigger, unit []int, answers []persistence.TriggerAnswer,
) (refused bool) {
	for _, i := range unit {
		if answers[i].Result != persistence.Triggered || s.runs[triggers[i].Run] != nil {
			continue
		}
		if err := s.refuse(triggers[i].Input); err != nil {
			answers[i] = persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}
			refused = true
		}
	}
	return refused
}

// stored reports whether a result means that the run exists.
func stored(result persistence.TriggerResult) bool {
	return result == persistence.Triggered || result == persistence.Existing
}

// draft is what a unit or a transaction is about to store: later triggers of
// it see the earlier ones.
type draft struct {
	runs    map[workflow.RunID]bool
	keys    map[key]persistence.Trigger
	tenants map[string]bool
}

func (d draft) add(t persistence.Trigger) {
	d.runs[t.Run] = true
	d.tenants[t.Tenant] = true
	if t.Key != "" {
		d.keys[keyOf(t)] = t
	}
}

func keyOf(t persistence.Trigger) key { return key{t.Tenant, t.Workflow, t.Key} }

// examine says what becomes of a trigger, without storing it. owner is the
// transaction that asks, nil for the intake.
func (s *Store) examine(t persistence.Trigger, drafted draft, owner *Tx) persistence.TriggerAnswer {
	if s.runs[t.Run] != nil || drafted.runs[t.Run] {
		return persistence.TriggerAnswer{Result: persistence.Triggered, Run: t.Run}
	}
	if err := s.refuseTrigger(t); err != nil {
		return persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}
	}
	if s.definitions[t.Definition] == nil {
		return persistence.TriggerAnswer{Result: persistence.UnknownWorkflow}
	}
	if t.Queue != "" && s.queues[t.Queue] == nil {
		return persistence.TriggerAnswer{Result: persistence.UnknownQueue}
	}
	if t.Key != "" {
		if answer := s.examineKey(t, drafted, owner); answer.Result != 0 {
			return answer
		}
	}
	if owner == nil && s.holdsBack(&t) { // a transaction touches no counters
		return persistence.TriggerAnswer{Result: persistence.KeyBusy}
	}
	known, taken := s.tenants[t.Tenant] != nil, len(s.tenants)
	if owner == nil { // a transaction gives out no numbers
		known, taken = known || drafted.tenants[t.Tenant], taken+len(drafted.tenants)
	}
	if !known && taken >= int(s.options.TenantsMax) {
		return persistence.TriggerAnswer{Result: persistence.TenantsFull, Err: persistence.ErrTenantsFull}
	}
	return persistence.TriggerAnswer{Result: persistence.Triggered, Run: t.Run}
}

// RunByKey implements persistence.Intake.
func (s *Store) RunByKey(_ context.Context, of persistence.RunKey) (workflow.RunID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.keys[key{of.Tenant, of.Workflow, of.Key}]; ok {
		return id, nil
	}
	return workflow.RunID{}, persistence.ErrRunNotFound
}

// examineKey answers a trigger whose key is in use, and nothing otherwise.
func (s *Store) examineKey(t persistence.Trigger, drafted draft, owner *Tx) persistence.TriggerAnswer {
	k := keyOf(t)
	if holder := s.keyLocks[k]; holder != nil && holder != owner {
		return persistence.TriggerAnswer{Result: persistence.KeyBusy}
	}
	first, ok := drafted.keys[k]
	if id, exists := s.keys[k]; exists {
		first, ok = s.runs[id].trigger, true
	}
	switch {
	case !ok:
		return persistence.TriggerAnswer{}
	case first.InputHash == t.InputHash:
		return persistence.TriggerAnswer{Result: persistence.Existing, Run: first.Run}
	}
	return persistence.TriggerAnswer{Result: persistence.KeyConflict, Run: first.Run}
}

// refuseTrigger returns the error of a database that cannot store a value.
func (s *Store) refuseTrigger(t persistence.Trigger) error {
	texts := []string{t.Workflow, t.Tenant, t.Key, t.Queue, t.TraceContext, t.Origin}
	for name, value := range t.Labels {
		texts = append(texts, name, value)
	}
	for _, text := range texts {
		if strings.Contains(text, "\x00") || !utf8.ValidString(text) {
			return fmt.Errorf("%w: text is not UTF-8 or holds a NUL byte", persistence.ErrBadRow)
		}
	}
	return nil
}

func (s *Store) refuse(payload []byte) error {
	if s.options.Refuse == nil {
		return nil
	}
	if err := s.options.Refuse(payload); err != nil {
		return fmt.Errorf("%w: %w", persistence.ErrBadRow, err)
	}
	return nil
}

// create stores the row of a run that was examined.
func (b *batch) create(t persistence.Trigger) *run {
	if t.Queue == "" {
		t.Queue = DefaultQueue
	}
	t.Input, t.Labels, t.Edges = bytes.Clone(t.Input), maps.Clone(t.Labels), slices.Clone(t.Edges)
	t.At = lifecycle.Instant(t.At)
	def := b.s.definitions[t.Definition]
	r := &run{trigger: t, definition: def, core: lifecycle.NewRun(def.graph), createdAt: b.now}
	// The fast path of storage knows no results of conditions.
	r.core.Slow = r.core.Slow || len(t.Edges) > 0
	r.events = []lifecycle.Event{{
		Step: lifecycle.RunStep, N: 1, Kind: lifecycle.EventRunCreated, At: b.now, By: t.Origin,
	}}
	b.s.runs[t.Run] = r
	b.s.touch(r)
	at, _ := slices.BinarySearchFunc(b.s.order, t.Run, compareRuns)
	b.s.order = slices.Insert(b.s.order, at, t.Run)
	if t.Key != "" {
		b.s.keys[keyOf(t)] = t.Run
	}
	return r
}

// expand inserts the tasks of a run and starts it, or sets the timer that
// will.
func (b *batch) expand(r *run) {
	b.s.meet(r.trigger.Tenant)
	graph := r.definition.graph
	r.expanded = true
	var tasks []lifecycle.Task
	for i := range graph.Nodes {
		if n := &graph.Nodes[i]; !n.Traits.Has(workflow.TraitSpawned) {
			tasks = append(tasks, lifecycle.NewTask(int32(i), n))
		}
	}
	r.details = append(make([]detail, len(tasks)), r.details...)
	r.tasks = append(tasks, r.tasks...) // behind them, what an earlier run has completed, or what a machine starts again
	for _, e := range r.edges(r.trigger.Edges) {
		child := r.task(e.Child)
		child.Flags |= lifecycle.InputFlags(e.Flags)
		child.Error = e.Error
		child.WakeAt = lifecycle.Instant(e.WakeAt)
	}
	for step, output := range r.takenOver {
		r.tasks[step].Flags |= lifecycle.FlagKept
		r.details[step].progress = output
	}
	r.takenOver = nil
	if r.trigger.At.After(b.now) {
		b.setTimer(r, lifecycle.Timer{Step: lifecycle.RunStep, Kind: lifecycle.StartTimer, At: r.trigger.At})
		return
	}
	b.decide(r, lifecycle.RunStarted{})
}

// meet gives a tenant that is new the next group number.
func (s *Store) meet(name string) {
	if s.tenants[name] == nil {
		s.tenants[name] = &tenant{group: int32(len(s.tenants)) + 1}
	}
}

func compareRuns(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) }

// submission is a run that waits to be expanded, or whose signals wait to be delivered.
type submission struct {
	number int64
	id     workflow.RunID
	signal bool // the run is there, and signals for it wait
}

// DrainIntake implements persistence.Intake.
func (s *Store) DrainIntake(_ context.Context, limit int) (persistence.Drained, error) {
	b := s.begin()
	defer s.mu.Unlock()
	out := persistence.Drained{Now: b.clock}
	var kept []submission
	taken, list := 0, s.intake
	s.intake = nil // a child run that ends as it begins asks for the delivery to its parent
	for _, sub := range list {
		if sub.signal {
			kept = append(kept, sub)
			continue
		}
		r := s.runs[sub.id]
		known := s.tenants[r.trigger.Tenant] != nil
		switch {
		case s.older(r.definition.graph):
			kept = append(kept, sub)
			continue
		case s.blocks(sub.id):
			kept = append(kept, sub)
			out.Again = lookAgain
			continue
		case taken == limit:
			kept = append(kept, sub)
			out.More = true
			continue
		case r.core.State.Terminal(): // canceled before it began
		case !known && len(s.tenants) >= int(s.options.TenantsMax):
			kept = append(kept, sub)
		default:
			b.expand(r)
			out.Count++
		}
		taken++
	}
	s.intake = append(kept, s.intake...)
	b.deliver(limit, &out)
	b.enqueue(nil)
	out.Wake = b.wake
	return out, nil
}

// submitted keeps a trigger of a committed transaction for DrainIntake.
func (s *Store) submitted(number int64, t persistence.Trigger, at time.Time) {
	b := &batch{s: s, now: at}
	b.create(t)
	s.submit(submission{number: number, id: t.Run})
}

// submit adds a submission in the order of their numbers.
func (s *Store) submit(sub submission) {
	i, _ := slices.BinarySearchFunc(s.intake, sub.number, func(x submission, n int64) int { return int(x.number - n) })
	s.intake = slices.Insert(s.intake, i, sub)
}
