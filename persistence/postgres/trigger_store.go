package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/inbox"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

// triggering is one transaction that stores triggers. It is used once.
type triggering struct {
	*decisionTx
	triggers []persistence.Trigger
	known    registry.Names
	found    found
	answers  []persistence.TriggerAnswer

	submitted map[workflow.RunID]*persistence.Trigger // what waits until older pods have left
	posted    *inbox.Post                             // the signals of new runs; nil: none has one
	postedFor []int                                   // the triggers that have them
	others    []int                                   // triggers with signals whose runs were there before
}

func newTriggering(s *Store, tx pgx.Tx, triggers []persistence.Trigger, known registry.Names) *triggering {
	return &triggering{
		decisionTx: s.newDecisionTx(tx), triggers: triggers, known: known,
		answers: make([]persistence.TriggerAnswer, len(triggers)), submitted: map[workflow.RunID]*persistence.Trigger{},
	}
}

// store examines the triggers of the units and stores those that can be.
func (t *triggering) store(ctx context.Context, parts [][]int) error {
	all := slices.Concat(parts...)
	slices.Sort(all)
	if err := t.find(ctx, all); err != nil {
		return err
	}
	fresh := t.found.examineUnits(t.triggers, t.known, parts, t.answers)
	if missing := t.newTenants(fresh); len(missing) > 0 {
		if err := t.createTenants(ctx, missing); err != nil {
			return err
		}
		fresh = t.found.examineUnits(t.triggers, t.known, parts, t.answers)
	}
	return t.insert(ctx, fresh, parts)
}

// find asks the database about the triggers, in one round trip. Keys are read
// in a statement after the one that locks them.
func (t *triggering) find(ctx context.Context, indexes []int) error {
	t.found = found{
		runs: map[workflow.RunID]bool{}, busy: map[keyName]bool{}, keys: map[keyName]keyHolder{},
		tenants: map[string]int32{}, full: map[string]bool{},
	}
	var ids pgsql.UUIDs
	var tenants []string
	seen := map[string]bool{}
	var keys []keyName
	for _, i := range indexes {
		tr := &t.triggers[i]
		if refuseTrigger(*tr) != nil {
			continue
		}
		ids = append(ids, tr.Run)
		if !seen[tr.Tenant] {
			seen[tr.Tenant] = true
			tenants = append(tenants, tr.Tenant)
		}
		if tr.Key != "" {
			keys = append(keys, keyOf(tr))
		}
	}
	b := t.s.NewBatch()
	t.queueKeys(b, keys)
	t.found.queueRuns(b, ids, true)
	t.queueTenants(b, tenants)
	t.s.QueueMatch(b, t.known)
	b.Add("read_clock", pgsql.Named{}).QueryRow(func(row pgx.Row) error { return row.Scan(&t.now) })
	return pgsql.Send(ctx, t.tx, b)
}

// queueKeys adds the statements that try the locks of keys, in the order of
// the locks, and read those that exist.
func (t *triggering) queueKeys(b *pgsql.Batch, keys []keyName) {
	if len(keys) == 0 {
		return
	}
	byLock := map[int64][]keyName{}
	var locks []int64
	for _, k := range keys {
		lock := t.s.keyLock(k)
		if byLock[lock] == nil {
			locks = append(locks, lock)
		}
		byLock[lock] = append(byLock[lock], k)
	}
	slices.Sort(locks)
	b.Add("try_keys", pgsql.Named{"locks": locks}).Query(func(rows pgx.Rows) error {
		got, at := false, 0
		_, err := pgx.ForEachRow(rows, []any{&got}, func() error {
			for _, k := range byLock[locks[at]] {
				t.found.busy[k] = !got
			}
			at++
			return nil
		})
		return err
	})
	t.found.queueKeys(b, keys, true)
}

func (s *Store) keyLock(k keyName) int64 { return s.LockKey("key", k.tenant, k.workflow, k.key) }

// insert stores triggers that were examined, in order, and the signals of all.
func (t *triggering) insert(ctx context.Context, fresh []int, parts [][]int) error {
	b := t.s.NewBatch()
	if len(fresh) > 0 {
		if err := t.queueInsert(ctx, b, fresh); err != nil {
			return err
		}
	}
	if err := t.findPost(ctx, parts); err != nil {
		return err
	}
	t.queuePost(b)
	t.gather() // in the order of the triggers
	return t.write(ctx, b)
}

// queueInsert adds the rows of new runs. Those of workflows that a living pod does not know
// wait in the intake until it has left.
func (t *triggering) queueInsert(ctx context.Context, b *pgsql.Batch, fresh []int) error {
	definitions := make([]*registry.Definition, len(fresh))
	for at, i := range fresh {
		definitions[at] = t.known.Definitions[t.triggers[i].Definition]
	}
	held, err := t.s.Outdated(ctx, t.tx, definitions)
	if err != nil {
		return err
	}
	columns := newRunColumns(len(fresh))
	var keys keyColumns
	for _, i := range fresh {
		tr := &t.triggers[i]
		def := t.known.Definitions[tr.Definition]
		queue, group, plain := t.known.Queues[tr.Queue], t.found.tenants[tr.Tenant], false
		if held[def.Number] {
			t.submitted[tr.Run], group = tr, 0
		} else {
			r := &run{id: tr.Run, number: def.Number, group: group, queue: queue, tenant: tr.Tenant, definition: def, inboxKnown: true}
			plain = t.begin(r, tr, nil)
		}
		if err := columns.add(tr, def, queue, group, plain); err != nil {
			return err
		}
		if tr.Key != "" {
			keys.add(tr)
		}
	}
	if len(keys.keys) > 0 {
		b.Add("insert_keys", keys.named())
	}
	b.Add("insert_runs", columns.named(t.now))
	for _, i := range fresh {
		if tr := t.submitted[t.triggers[i].Run]; tr != nil {
			if err := queueSubmission(b, tr); err != nil {
				return err
			}
			t.wake.Submitted = true
		}
	}
	t.queueExpansion(b)
	return t.decide(ctx)
}

// findPost puts the signals together of runs that this transaction is about to store. Those of
// others are sent after it: they may wait for a transaction that sends one of the same id.
func (t *triggering) findPost(ctx context.Context, parts [][]int) error {
	var signals []persistence.Signal
	for _, i := range slices.Concat(parts...) {
		tr, run := &t.triggers[i], t.answers[i].Run
		switch {
		case tr.Signal == nil || !stored(t.answers[i].Result):
		case t.byID[run] == nil && t.submitted[run] == nil:
			t.others = append(t.others, i)
		default:
			signals, t.postedFor = append(signals, signalTo(tr, run)), append(t.postedFor, i)
		}
	}
	if len(signals) == 0 {
		return nil
	}
	t.posted = t.s.Sender.NewPost(signals)
	for i := range t.postedFor {
		run := t.posted.Signals[i].Run
		if r := t.byID[run]; r != nil {
			t.posted.Address(i, inbox.Addressee{Run: run, Tenant: r.tenant, Definition: r.number, Ended: r.decision.Ended})
		} else if tr := t.submitted[run]; tr != nil {
			t.posted.Address(i, inbox.Addressee{Run: run, Tenant: tr.Tenant, Definition: t.known.Definitions[tr.Definition].Number})
		}
	}
	return t.posted.Judge(ctx, t.tx)
}

// queuePost adds the signals of triggers to the last batch of the transaction.
func (t *triggering) queuePost(b *pgsql.Batch) {
	if t.posted == nil {
		return
	}
	if pending := t.posted.Pending(); len(pending) > 0 {
		t.wake.Submitted = true
		t.posted.QueueInsert(b, pending)
	}
}

// signalTo returns the signal of a trigger, for its run.
func signalTo(tr *persistence.Trigger, run workflow.RunID) persistence.Signal {
	signal := *tr.Signal
	signal.Run = run
	return signal
}

// sendOthers sends the signals of runs that were there before, and answers their triggers.
func (t *triggering) sendOthers(ctx context.Context) error {
	if len(t.others) == 0 {
		return nil
	}
	signals := make([]persistence.Signal, len(t.others))
	for i, at := range t.others {
		signals[i] = signalTo(&t.triggers[at], t.answers[at].Run)
	}
	sent := persistence.Signals{}
	for part := range slices.Chunk(signals, persistence.SignalBatchMax) {
		out, err := t.s.SendSignals(ctx, part)
		if err != nil {
			return err
		}
		sent.Answers = append(sent.Answers, out.Answers...)
		t.wake.Submitted = t.wake.Submitted || out.Wake.Submitted
	}
	for i, at := range t.others {
		if answer := sent.Answers[i]; answer.Result == persistence.SignalBusy {
			t.answers[at] = persistence.TriggerAnswer{Result: persistence.KeyBusy}
		} else {
			t.answers[at].Signal, t.answers[at].Names = answer.Result, answer.Names
		}
	}
	return nil
}

// answerPost adds what became of the signals to the answers of their triggers, once that is
// committed.
func (t *triggering) answerPost(ctx context.Context) error {
	if err := t.sendOthers(ctx); err != nil {
		return err
	}
	all := make([]int, len(t.postedFor))
	for i, at := range t.postedFor {
		answer := t.posted.Answers[i]
		t.answers[at].Signal, t.answers[at].Names, all[i] = answer.Result, answer.Names, i
	}
	if len(all) == 0 {
		return nil
	}
	return t.posted.Confirm(ctx, t.s.Conns, all)
}

func (t *triggering) answer(out *triggered, parts [][]int) {
	out.Now = t.now
	out.again = out.again || len(t.found.runs) > 0
	for _, part := range parts {
		for _, i := range part {
			out.Answers[i] = t.answers[i]
		}
	}
	out.Wake.Ready = append(out.Wake.Ready, t.wake.Ready...)
	out.Wake.Submitted = out.Wake.Submitted || t.wake.Submitted
	if next := t.wake.NextTimer; !next.IsZero() && (out.Wake.NextTimer.IsZero() || next.Before(out.Wake.NextTimer)) {
		out.Wake.NextTimer = next
	}
	out.Wake.Ended = append(out.Wake.Ended, t.wake.Ended...)
	sortRuns(out.Wake.Ended)
	out.Wake.Failed = append(out.Wake.Failed, t.wake.Failed...)
	for _, e := range t.wake.Ends {
		out.Wake.CountEnds(e.Workflow, e.State, e.Count)
	}
}

// triggered is the answer to a batch.
type triggered struct {
	persistence.Triggers
	again bool // some of its runs were stored before
}
