package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/inbox"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
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
