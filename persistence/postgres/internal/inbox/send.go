package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// SendSignals implements persistence.Inbox. It examines signals, and stores those that can be in
// one statement, or, where one of them is in the way, in several. One for which a transaction of a
// caller stores a signal of the same id is answered so once the others are stored, if that takes
// too long.
func (s *Sender) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	if len(batch) > persistence.SignalBatchMax {
		return persistence.Signals{}, fmt.Errorf("send %d signals: at most %d in one batch", len(batch), persistence.SignalBatchMax)
	}
	var p *Post
	err := pgerr.Retry(ctx, func(ctx context.Context) error {
		p = s.NewPost(batch)
		if err := p.Find(ctx, s.Conns); err != nil {
			return err
		}
		return p.Judge(ctx, s.Conns)
	})
	if err != nil {
		return persistence.Signals{}, err
	}
	if err = p.store(ctx); err == nil {
		err = p.sendAgain(ctx)
	}
	if err != nil {
		return persistence.Signals{}, err
	}
	if p.Repeats() {
		if err := s.Exec(ctx, s.Conns, "confirm_visible", pgsql.Named{}); err != nil {
			return persistence.Signals{}, pgerr.Translate(err)
		}
	}
	return persistence.Signals{Now: p.Now, Answers: p.Answers, Wake: persistence.Wake{Submitted: len(p.Pending()) > 0}}, nil
}

// savepoint is that behind which a signal is stored in a transaction of a caller.
const savepoint = "troupe_signal"

// SendInTx stores a signal in a transaction of a caller. If it is refused the transaction stays
// usable.
func (s *Sender) SendInTx(ctx context.Context, own pgx.Tx, signal persistence.Signal) (persistence.SignalAnswer, error) {
	p := s.NewPost([]persistence.Signal{signal})
	err := p.Find(ctx, own)
	if err == nil {
		err = p.Judge(ctx, s.Conns)
	}
	if err == nil && len(p.Pending()) > 0 {
		err = p.storeInTx(ctx, own)
	}
	if err == nil && p.Repeats() {
		err = s.Exec(ctx, own, "confirm_visible", pgsql.Named{})
	}
	if err != nil {
		return persistence.SignalAnswer{}, pgerr.Translate(err)
	}
	return p.Answers[0], nil
}

// storeInTx stores the only signal, behind a savepoint.
func (p *Post) storeInTx(ctx context.Context, own pgx.Tx) error {
	b := p.s.NewBatch()
	b.Queue("savepoint " + savepoint)
	p.QueueInsert(b, []int{0})
	b.Queue("release savepoint " + savepoint)
	err := pgerr.Translate(pgsql.Send(ctx, own, b))
	switch {
	case err == nil:
		return p.Confirm(ctx, own, []int{0})
	case !errors.Is(err, persistence.ErrBadRow):
		return err
	}
	p.Answers[0].Result, p.Answers[0].Err = persistence.SignalBadRow, err
	_, err = own.Exec(ctx, "rollback to savepoint "+savepoint)
	return err
}

// sendAgain sends those signals anew of whose ids the batch has others before them, which the
// database refuses. What became of those before them became of the others whose id is held.
func (p *Post) sendAgain(ctx context.Context) error {
	refused, held := map[entry]bool{}, map[entry]error{}
	var again []persistence.Signal
	var at []int
	for i, answer := range p.Answers {
		of := entry{p.to[i].Run, p.Signals[i].ID}
		switch {
		case answer.Result == persistence.SignalBadRow && p.seen[of]:
			refused[of] = true
		case answer.Result == persistence.SignalBusy:
			held[of] = answer.Err
		case answer.Result == persistence.SignalRepeated && held[of] != nil:
			p.Answers[i].Result, p.Answers[i].Err = persistence.SignalBusy, held[of]
		case answer.Result == persistence.SignalRepeated && refused[of] && !p.to[i].Repeated:
			again, at = append(again, p.Signals[i]), append(at, i)
		}
	}
	if len(again) == 0 {
		return nil
	}
	out, err := p.s.SendSignals(ctx, again)
	for i, answer := range out.Answers {
		p.Answers[at[i]] = answer
	}
	return err
}

// store stores what is to be stored.
func (p *Post) store(ctx context.Context) error {
	return pgsql.Bisect(p.Pending(), func(part []int) error {
		if len(part) == 0 {
			return nil
		}
		err := pgerr.Retry(ctx, func(ctx context.Context) error {
			b := p.s.NewBatch()
			p.QueueInsert(b, part)
			return pgsql.Send(ctx, p.s.Conns, b)
		})
		if err != nil {
			return err
		}
		return p.Confirm(ctx, p.s.Conns, part)
	}, func(err error) bool {
		return errors.Is(err, pgerr.ErrLockTimeout) || errors.Is(err, persistence.ErrBadRow)
	}, func(i int, err error) error {
		if errors.Is(err, pgerr.ErrLockTimeout) {
			p.Answers[i].Result, p.Answers[i].Err = persistence.SignalBusy, err
			return nil
		}
		p.Answers[i].Result, p.Answers[i].Err = persistence.SignalBadRow, err
		return nil
	})
}

// QueueInsert adds the statement that stores some of the signals. Those that are there are
// answered so.
func (p *Post) QueueInsert(b *pgsql.Batch, indexes []int) {
	n := len(indexes)
	runs, ids, names, payloads := make(pgsql.UUIDs, n), make([]string, n), make([]string, n), make([][]byte, n)
	for at, i := range indexes {
		runs[at], ids[at], names[at], payloads[at] = p.to[i].Run, p.Signals[i].ID, p.Signals[i].Name, p.Signals[i].Payload
	}
	b.Add("insert_signals", pgsql.Named{"runs": runs, "ids": ids, "names": names, "payloads": payloads}).Query(func(rows pgx.Rows) error {
		for _, i := range indexes {
			p.Answers[i].Result = persistence.SignalRepeated
		}
		var ord int
		_, err := pgx.ForEachRow(rows, []any{&ord}, func() error {
			p.Answers[indexes[ord-1]].Result = persistence.SignalStored
			return nil
		})
		return err
	})
}

// Confirm fails unless those signals are there that were not stored because they are: a rule or a
// trigger on the table may leave them out.
func (p *Post) Confirm(ctx context.Context, on pgsql.Querier, indexes []int) error {
	var runs pgsql.UUIDs
	var ids []string
	for _, i := range indexes {
		if p.Answers[i].Result == persistence.SignalRepeated {
			runs, ids = append(runs, p.to[i].Run), append(ids, p.Signals[i].ID)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	text, args := p.s.Bind("find_signals", pgsql.Named{"runs": runs, "ids": ids})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return pgerr.Translate(err)
	}
	count, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err == nil && count != len(runs) {
		return pgerr.MeddledError{}
	}
	return pgerr.Translate(err)
}
