package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// CancelRun implements persistence.Journal.
func (s *Store) CancelRun(ctx context.Context, cancel persistence.Cancel) (persistence.Canceled, error) {
	var out persistence.Canceled
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return out, err
	}
	defer leave()
	err = s.Write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		out, err = s.cancel(ctx, tx, cancel)
		return err
	})
	if err != nil {
		return persistence.Canceled{}, err
	}
	return out, nil
}

func (s *Store) cancel(ctx context.Context, tx pgx.Tx, cancel persistence.Cancel) (persistence.Canceled, error) {
	if !pgsql.Storable(cancel.Tenant) {
		return persistence.Canceled{}, persistence.ErrRunNotFound
	}
	text, args := s.Bind("find_run", pgsql.Named{"run": [16]byte(cancel.Run), "tenant": cancel.Tenant})
	var exists bool
	if err := tx.QueryRow(ctx, text, args...).Scan(&exists); err != nil {
		return persistence.Canceled{}, err
	}
	if !exists {
		return persistence.Canceled{}, persistence.ErrRunNotFound
	}
	p := s.newDecisionTx(tx)
	if err := p.load(ctx, []want{{run: cancel.Run, open: true}}); err != nil {
		return persistence.Canceled{}, err
	}
	switch {
	case p.left[cancel.Run]:
		return persistence.Canceled{}, pgerr.ErrRegistryLost
	case len(p.runs) == 0:
		return persistence.Canceled{}, persistence.ErrRunNotFound
	}
	r := p.runs[0]
	r.facts = []lifecycle.Fact{lifecycle.CancelRequested{
		Reason: lifecycle.CleanText(cancel.Reason), By: lifecycle.CleanText(cancel.By), Grace: cancel.Grace,
	}}
	if err := p.finish(ctx, s.NewBatch()); err != nil {
		return persistence.Canceled{}, err
	}
	return persistence.Canceled{Now: p.now, Result: r.decision.Answers[0], State: r.decision.Run.State, Wake: p.wake}, nil
}
