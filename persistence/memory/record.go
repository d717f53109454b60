package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RecordTransitions implements persistence.Journal.
func (s *Store) RecordTransitions(_ context.Context, record persistence.Record) (persistence.Recorded, error) {
	if len(record.Transitions) > persistence.RecordBatchMax {
		return persistence.Recorded{}, fmt.Errorf("record %d transitions: at most %d in one batch",
			len(record.Transitions), persistence.RecordBatchMax)
	}
	b := s.begin()
	defer s.mu.Unlock()
	return b.record(record)
}

// RecordInTx implements persistence.Journal. fn gets a *Tx.
func (s *Store) RecordInTx(
	ctx context.Context, record persistence.Record, fn func(ctx context.Context, tx any) (persistence.Transition, error),
) (persistence.Recorded, error) {
	if s.IsBlocked(record.Task.Run) {
		return persistence.Recorded{Answers: []persistence.RecordAnswer{{Result: lifecycle.Busy}}}, nil
	}
	tx := s.Begin()
	transition, err := fn(ctx, tx)
	b := s.begin()
	defer s.mu.Unlock()
	if err != nil {
		return persistence.Recorded{}, rollback(tx, err)
	}
	record.Transitions = []persistence.Transition{transition}
	recorded, err := b.record(record)
	if err != nil {
		return persistence.Recorded{}, rollback(tx, err)
	}
	if recorded.Answers[0].Result != lifecycle.Moved {
		return recorded, rollback(tx, nil)
	}
	return recorded, tx.commit()
}

// rollback ends a transaction that fn cannot have ended, and returns err.
func rollback(tx *Tx, err error) error {
	if ended := tx.end(); err == nil {
		return ended
	}
	return err
}

// record is one record in a transaction. What a store may take a shortcut for
// comes first, as a batch of its own: only children of that are granted at once.
func (b *batch) record(record persistence.Record) (persistence.Recorded, error) {
	p, err := b.s.living(record.Pod, b.now)
	if err != nil {
		return persistence.Recorded{}, err
	}
	out := persistence.Recorded{Now: b.clock, Answers: make([]persistence.RecordAnswer, len(record.Transitions))}
	sent := record.Transitions
	record.Transitions = b.refuseTransitions(p, sent, out.Answers)
	var fast, slow, refused [][]int // those refused come last: a database hears of a value when it stores it
	for _, part := range byRun(sent) {
		if b.s.blocks(record.Transitions[part[0]].Task.Run) {
			for _, i := range part {
				out.Answers[i] = persistence.RecordAnswer{Result: lifecycle.Busy}
			}
			continue
		}
		plain, rest, bad := b.s.divide(sent, part, out.Answers)
		fast, slow, refused = append(fast, plain), append(slow, rest), append(refused, bad)
	}
	grants := &inline{b: b, p: p, record: &record}
	for _, part := range fast {
		grants.freed += b.recordRun(p, record, part, out.Answers)
	}
	b.byTask()
	b.enqueue(grants.rule(nil))
	back := map[workflow.TaskID]bool{}
	for _, part := range slow {
		grants.freed += b.recordRun(p, record, part, out.Answers)
		for _, i := range part {
			if !record.Transitions[i].Frees() {
				back[record.Transitions[i].Task] = true
			}
		}
	}
	b.tellStopped()
	b.byTask()
	if record.TenantLimit == 0 { // it counts what takes the fast path
		b.enqueue(grants.rule(back))
	}
	for _, part := range refused {
		b.recordRun(p, record, part, out.Answers)
		for _, i := range part {
			back[record.Transitions[i].Task] = true
		}
	}
	b.byTask()
	if record.TenantLimit == 0 {
		b.enqueue(grants.rule(back))
	}
	b.enqueue(nil)
	out.Grants = b.s.grants(claimKey{p.id, record.Claim})
	out.Wake = b.wake
	return out, nil
}

// refuseTransitions returns transitions with those that a database cannot
// store turned into failures of their attempts. It does not notice what it is
// not about to store.
func (b *batch) refuseTransitions(
	p *pod, sent []persistence.Transition, answers []persistence.RecordAnswer,
) []persistence.Transition {
	transitions := slices.Clone(sent)
	for i, t := range transitions {
		if !b.s.holds(p.id, claimed{t.Task, t.Epoch}) {
			continue
		}
		if answers[i].Err = b.refuseTransition(p, sent, i); answers[i].Err != nil {
			transitions[i] = persistence.Transition{
				Task: t.Task, Epoch: t.Epoch, Report: lifecycle.Errored,
				Class: persistence.ClassBadRow, Error: answers[i].Err.Error(),
			}
		}
	}
	return transitions
}

// divide tells the transitions of a run that take the fast path from the rest, and from those
// that are refused.
func (s *Store) divide(sent []persistence.Transition, part []int, answers []persistence.RecordAnswer) (fast, rest, refused []int) {
	r := s.runs[sent[part[0]].Task.Run]
	plain := r != nil && !slices.ContainsFunc(part, func(i int) bool {
		return sent[i].Report != lifecycle.Succeeded || len(sent[i].Edges) > 0 || len(sent[i].Make) > 0
	})
	child := func(step int32) lifecycle.Task { return *r.task(step) }
	for _, i := range part {
		switch {
		case answers[i].Err != nil:
			refused = append(refused, i)
		case !plain:
			rest = append(rest, i)
		default:
			if t := r.task(sent[i].Task.Step); t != nil && lifecycle.TakesFastPath(r.core, *t, child) {
				fast = append(fast, i)
			} else {
				rest = append(rest, i)
			}
		}
	}
	return fast, rest, refused
}

// byRun returns the indexes of the transitions of each run, in the order in
// which the runs appear.
func byRun(transitions []persistence.Transition) [][]int {
	var parts [][]int
	at := map[workflow.RunID]int{}
	for i := range transitions {
		id := transitions[i].Task.Run
		part, ok := at[id]
		if !ok {
			part = len(parts)
			at[id] = part
			parts = append(parts, nil)
		}
		parts[part] = append(parts[part], i)
	}
	return parts
}

// recordRun records the transitions of one run and returns how many slots they
// leave.
func (b *batch) recordRun(p *pod, record persistence.Record, part []int, answers []persistence.RecordAnswer) int {
	if len(part) == 0 {
		return 0
	}
	r := b.s.runs[record.Transitions[part[0]].Task.Run]
	if r == nil {
		for _, i := range part {
			answers[i].Result = lifecycle.Stale
		}
		return 0
	}
	facts := make([]lifecycle.Fact, len(part))
	for j, i := range part {
		facts[j] = b.s.fact(r, p.id, record.Transitions[i], record.MaxLost)
	}
	before := r.core.Events
	d := b.decide(r, facts...)
	for j, i := range part {
		if t := &record.Transitions[i]; d.Answers[j] == lifecycle.Moved && t.Activation != nil && d.Activated {
			b.activated(r, t, d.Created, before)
		}
	}
	for j, i := range part { // of two attempts in one batch, one is over
		t := &record.Transitions[i]
		if d.Answers[j] == lifecycle.Moved && t.Report == lifecycle.Yielded && slices.Contains(d.Begun, t.Task.Step) {
			b.beginChild(r, t.Task.Step, t.Child)
		}
		if d.Answers[j] == lifecycle.Moved && t.Map != nil && r.task(t.Task.Step).Flags.Has(lifecycle.FlagSpread) {
			r.keepItems(t.Task.Step, t.Map)
		}
	}
	completed := 0
	for j, i := range part {
		completed += b.answer(r, record.Transitions[i], d.Answers[j], &answers[i])
	}
	return completed
}

// answer notes what became of a transition, keeps what decisions do not need,
// and returns 1 if it leaves its slot to what became ready.
func (b *batch) answer(r *run, t persistence.Transition, moved lifecycle.Answer, answer *persistence.RecordAnswer) int {
	answer.Result = moved
	refused := answer.Err
	if moved != lifecycle.Moved {
		answer.Err = nil
		return 0
	}
	if refused != nil {
		answer.Result = lifecycle.BadRow
		return 0
	}
	d := r.detail(t.Task.Step)
	if t.Progress != nil {
		d.progress = bytes.Clone(t.Progress)
	}
	if t.Report == lifecycle.Succeeded {
		d.output = bytes.Clone(t.Output)
	}
	if !t.Frees() {
		return 0
	}
	return 1
}

// refuseTransition returns the error of a database that cannot store a value.
func (b *batch) refuseTransition(p *pod, batch []persistence.Transition, i int) error {
	t := batch[i]
	if err := b.s.refuse(t.Output); err != nil {
		return err
	}
	r := b.s.runs[t.Task.Run]
	graph := r.definition.graph
	if _, err := t.DynamicTasks(graph); err != nil {
		return err
	}
	if err := t.CheckChild(r.node(t.Task.Step), func(hash workflow.Hash) bool { return b.s.definitions[hash] != nil }); err != nil {
		return err
	}
	if err := t.CheckMap(graph); err != nil {
		return err
	}
	if _, err := b.s.decided(r, &t); err != nil {
		return err
	}
	if a := t.Activation; a != nil {
		for _, payload := range append([][]byte{a.State}, inputs(a)...) {
			if err := b.s.refuse(payload); err != nil {
				return err
			}
		}
	}
	if t.Report == lifecycle.Yielded && t.Activation == nil && b.begins(p.id, batch, i) { // a run that stops begins none
		for _, payload := range r.payloads(&t) {
			if err := b.s.refuse(payload); err != nil {
				return err
			}
		}
	}
	return b.s.refuse(t.Progress)
}

// payloads returns what a database stores of a child run or of elements that begin.
func (r *run) payloads(t *persistence.Transition) (list [][]byte) {
	if t.Child != nil {
		return [][]byte{t.Child.Input}
	}
	taken := r.taken(t.Task.Step)
	for i, item := range t.Map.Items {
		if !taken[int32(i)] {
			list = append(list, item)
		}
	}
	return list
}

// begins reports whether a child run or elements begin with a transition of a batch.
func (b *batch) begins(pod int64, batch []persistence.Transition, i int) bool {
	r, facts := b.s.runs[batch[i].Task.Run], []lifecycle.Fact{}
	for _, t := range batch {
		if t.Task.Run == r.id() {
			facts = append(facts, b.s.fact(r, pod, t, 0))
		}
	}
	d, step := lifecycle.Decide(r.core, b.s.rows(r), facts, b.now), batch[i].Task.Step
	return slices.Contains(d.Begun, step) || slices.ContainsFunc(d.Maps, func(m lifecycle.Map) bool { return m.Step == step })
}

// fact is what a transition says to the run.
func (s *Store) fact(r *run, pod int64, t persistence.Transition, maxLost int) lifecycle.TaskReported {
	dynamic, _ := t.DynamicTasks(r.definition.graph) // what is refused was turned into a failure, or is stale
	child := ""
	if t.Child != nil {
		child = t.Child.Run.String()
	}
	var begun *lifecycle.Map
	if t.Map != nil && t.CheckMap(r.definition.graph) == nil {
		begun = t.Map.Begin(r.node(t.Task.Step).Name, r.taken(t.Task.Step))
	}
	activation, _ := s.decided(r, &t)
	return lifecycle.TaskReported{
		Activation: activation,
		Step:       t.Task.Step, Epoch: t.Epoch, Pod: pod, Kind: t.Report, Edges: r.edges(t.Edges), Make: dynamic,
		Class: lifecycle.CleanText(t.Class), Error: lifecycle.CleanText(t.Error), TimedOut: t.TimedOut,
		Retry: t.Retry, RetryIn: t.RetryIn, Exhausted: t.Exhausted, MaxLost: int32(maxLost), Child: child, Map: begun,
	}
}

// place is a tenant in a queue.
type place struct{ queue, tenant string }

// CancelRun implements persistence.Journal.
func (s *Store) CancelRun(_ context.Context, cancel persistence.Cancel) (persistence.Canceled, error) {
	b := s.begin()
	defer s.mu.Unlock()
	r, err := s.find(cancel.Tenant, cancel.Run)
	switch {
	case errors.Is(err, persistence.ErrRunNotFound):
		return persistence.Canceled{}, err
	case s.blocks(cancel.Run):
		return persistence.Canceled{}, persistence.ErrConflict
	}
	reason := lifecycle.CleanText(cancel.Reason)
	d := b.decide(r, lifecycle.CancelRequested{Reason: reason, By: lifecycle.CleanText(cancel.By), Grace: cancel.Grace})
	answer := d.Answers[0]
	if answer == lifecycle.Moved {
		b.canceled(r, reason)
	}
	b.byTask()
	b.enqueue(nil)
	return persistence.Canceled{Now: b.clock, Result: answer, State: r.core.State, Wake: b.wake}, nil
}

// canceled notes why a run was asked to stop.
func (b *batch) canceled(r *run, reason string) {
	r.cancelReason = reason
	if r.core.Canceling && r.running() { // a machine that hears of a cancel is not stopped by it
		b.wake.Canceling = append(b.wake.Canceling, r.id())
	}
}

func (r *run) running() bool {
	for i := range r.tasks {
		if r.tasks[i].State == lifecycle.Running {
			return true
		}
	}
	return false
}
