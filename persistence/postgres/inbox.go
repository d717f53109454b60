package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/inbox"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
)

// SendSignals implements persistence.Inbox.
func (s *Store) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	return s.sender.Send(ctx, batch)
}

// SendSignalInTx implements persistence.Inbox. tx is a pgx.Tx. A signal that is refused leaves
// the caller's transaction usable: what is stored is behind a savepoint.
func (s *Store) SendSignalInTx(ctx context.Context, tx any, signal persistence.Signal) (answer persistence.SignalAnswer, err error) {
	err = s.inTxOf(ctx, tx, func(ctx context.Context, own pgx.Tx) (err error) {
		answer, err = s.sendInTx(ctx, own, signal)
		return err
	})
	if err != nil {
		answer = persistence.SignalAnswer{}
	}
	return answer, err
}

func (s *Store) sendInTx(ctx context.Context, own pgx.Tx, signal persistence.Signal) (persistence.SignalAnswer, error) {
	var at place
	b := s.NewBatch()
	var room bool
	s.queueTenant(b, "", &room, &at)
	met := pgerr.Translate(pgsql.Send(ctx, own, b))
	if err := s.checkPlace(ctx, at, met); err != nil {
		return persistence.SignalAnswer{}, err
	}
	p := s.sender.NewPost([]persistence.Signal{signal})
	err := p.Find(ctx, own)
	if err == nil {
		err = p.Judge(ctx, s.Conns)
	}
	if err != nil {
		return persistence.SignalAnswer{}, pgerr.Translate(err)
	}
	if len(p.Pending()) > 0 {
		if err := s.storeInTx(ctx, own, p); err != nil {
			return persistence.SignalAnswer{}, err
		}
	}
	if p.Repeats() {
		err = pgerr.Translate(s.Exec(ctx, own, "confirm_visible", pgsql.Named{}))
	}
	return p.Answers[0], err
}

// storeInTx stores a signal in a transaction of a caller.
func (s *Store) storeInTx(ctx context.Context, own pgx.Tx, p *inbox.Post) error {
	b := s.NewBatch()
	b.Queue("savepoint " + triggerSavepoint)
	p.QueueInsert(b, []int{0})
	b.Queue("release savepoint " + triggerSavepoint)
	err := pgerr.Translate(pgsql.Send(ctx, own, b))
	switch {
	case err == nil:
		return p.Confirm(ctx, own, []int{0})
	case !errors.Is(err, persistence.ErrBadRow):
		return err
	}
	if _, err := own.Exec(ctx, "rollback to savepoint "+triggerSavepoint); err != nil {
		return pgerr.Translate(err)
	}
	p.Answers[0].Result, p.Answers[0].Err = persistence.SignalBadRow, err
	return nil
}

// outdated returns the numbers of those definitions that a living pod does not know, because it
// is of an older version. The pods are asked only if there may be such.
func (s *Store) outdated(ctx context.Context, on pgsql.Querier, definitions []*registry.Definition) (map[int32]bool, error) {
	var newest int16
	for _, d := range definitions {
		newest = max(newest, d.Protocol)
	}
	if newest == 0 {
		return nil, nil
	}
	text, args := s.Bind("oldest_protocol", pgsql.Named{})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	oldest, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*int16])
	if err != nil || oldest == nil || *oldest >= newest {
		return nil, err
	}
	held := map[int32]bool{}
	for _, d := range definitions {
		if *oldest < d.Protocol {
			held[d.Number] = true
		}
	}
	return held, nil
}

// findPost puts the signals of triggers together that were stored, or found, and asks about
// their runs: those that this transaction is about to store are known already.
func (t *triggering) findPost(ctx context.Context, parts [][]int) error {
	var signals []persistence.Signal
	for _, i := range slices.Concat(parts...) {
		if tr := &t.triggers[i]; tr.Signal != nil && stored(t.answers[i].Result) {
			signal := *tr.Signal
			signal.Run = t.answers[i].Run
			signals, t.postedFor = append(signals, signal), append(t.postedFor, i)
		}
	}
	if len(signals) == 0 {
		return nil
	}
	t.posted = t.s.sender.NewPost(signals)
	if err := t.posted.Find(ctx, t.tx); err != nil {
		return err
	}
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

// answerPost adds what became of the signals to the answers of their triggers, once that is
// committed.
func (t *triggering) answerPost(ctx context.Context) error {
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
