package cases

import (
	"context"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/server"
)

// further is how many workers there are beside the first in the second
// database.
const further = 2

// idle measures one worker in one database, and for ours at the same time three
// in another: what each further one adds.
func idle(ctx context.Context, b *Bench) ([]Figure, error) {
	if _, err := b.started(ctx, 0); err != nil {
		return nil, err
	}
	meters := []*server.Meter{b.meter}
	if b.Entry.Role == peer.Ours {
		spare, err := server.NewMeter(ctx, b.Spare)
		if err != nil {
			return nil, err
		}
		meters = append(meters, spare)
		for range 1 + further {
			p, err := b.openAt(ctx, b.Spare.URL, false)
			if err != nil {
				return nil, err
			}
			if err := p.Start(ctx); err != nil {
				return nil, err
			}
		}
	}
	if err := pause(ctx, b.size.calm); err != nil {
		return nil, err
	}
	before, err := readAll(ctx, meters)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, b.size.look); err != nil {
		return nil, err
	}
	after, err := readAll(ctx, meters)
	if err != nil {
		return nil, err
	}
	transactions, statements := rates(before, after)
	figures := idleFigures("", transactions[0], statements[0], b.Place.Statements)
	if len(meters) > 1 {
		figures = append(figures, idleFigures("further-", (transactions[1]-transactions[0])/further,
			(statements[1]-statements[0])/further, b.Place.Statements)...)
	}
	return figures, nil
}

func readAll(ctx context.Context, meters []*server.Meter) ([]server.Usage, error) {
	all := make([]server.Usage, len(meters))
	for i, m := range meters {
		var err error
		if all[i], err = m.Read(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func rates(before, after []server.Usage) (transactions, statements []float64) {
	for i := range before {
		seconds := after[i].At.Sub(before[i].At).Seconds()
		used := after[i].Since(before[i])
		transactions = append(transactions, float64(used.Transactions)/seconds)
		statements = append(statements, float64(used.Statements)/seconds)
	}
	return transactions, statements
}

func idleFigures(prefix string, transactions, statements float64, counted bool) []Figure {
	figures := []Figure{{Name: prefix + "transactions", Value: transactions, Unit: "tx/s"}}
	if counted {
		figures = append(figures, Figure{Name: prefix + "statements", Value: statements, Unit: "statements/s"})
	}
	return figures
}
